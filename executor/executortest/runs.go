package executortest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

func output(c Features) bool  { return c.Output }
func stdin(c Features) bool   { return c.Stdin && c.Output }
func folder(c Features) bool  { return c.Folder && c.Output }
func command(c Features) bool { return c.Command }
func signals(c Features) bool { return c.Signals && c.Output }

var runs = []test{
	{"what was prepared and not started leaves nothing", nil, func(f *fixture) {
		a := f.prepare(f.job("exit=0"))
		for range 2 {
			if err := a.Close(); err != nil {
				f.t.Error(err)
			}
		}
	}},
	{"the code says how it ended", nil, func(f *fixture) {
		for code, want := range map[string]haulier.Outcome{
			"0": haulier.OutcomeOK, "75": haulier.OutcomeRetry, "66": haulier.OutcomeFailed, "3": haulier.OutcomeError,
		} {
			r, _ := f.run(f.job("exit=" + code))
			if r.Outcome != want || r.Stopped || r.Lapsed || (r.Error == "") != (want == haulier.OutcomeOK) {
				f.t.Errorf("code %s: %+v, want %s", code, r, want)
			}
		}
	}},
	{"a task that can't run fails for good", command, func(f *fixture) {
		if r, _ := f.run(&haulier.Job{Spec: haulier.Spec{ID: haulier.NewID(time.Now()), Task: haulier.Task{}}, Status: haulier.Status{Attempt: 3}}); r.Outcome != haulier.OutcomeFailed || r.Error == "" {
			f.t.Errorf("got %+v", r)
		}
	}},
	{"output and errors come apart", output, func(f *fixture) {
		_, out := f.run(f.job("out=one", "err=two", "out=three"))
		if got := out.text(f.t, joblog.Stdout); got != "one\nthree\n" {
			f.t.Errorf("output %q", got)
		}
		if got := out.text(f.t, joblog.Stderr); got != "two\n" {
			f.t.Errorf("errors %q", got)
		}
	}},
	{"much output is kept at both ends", output, func(f *fixture) {
		if testing.Short() {
			f.t.Skip("takes seconds")
		}
		_, out := f.run(f.job("out=first", "lines=50000", "out=last"))
		got := out.text(f.t)
		if len(got) > 9<<20 || !strings.HasPrefix(got, "first\nline 1 of output 0") || !strings.HasSuffix(got, "00\nlast\n") || !strings.Contains(got, "line 50000 of") {
			f.t.Errorf("%d bytes of output, from %.40q to %q", len(got), got, got[max(0, len(got)-40):])
		}
		if note := out.text(f.t, joblog.Note); !strings.Contains(note, "bytes of output were cut") {
			f.t.Errorf("the note is %q", note)
		}
	}},
	{"the payload is the standard input", stdin, func(f *fixture) {
		j := f.job("cat")
		j.Payload = []byte("hello\n")
		if _, out := f.run(j); out.text(f.t) != "hello\n" {
			f.t.Errorf("output %q", out.text(f.t))
		}
		j = f.job("count")
		j.Payload = bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
		if _, out := f.run(j); out.text(f.t) != "1048576\n" {
			f.t.Errorf("of a large payload: %q", out.text(f.t))
		}
		if _, out := f.run(f.job("count")); out.text(f.t) != "0\n" {
			f.t.Errorf("without a payload: %q", out.text(f.t))
		}
	}},
	{"the result is the last line, or the file for it", command, func(f *fixture) {
		if r, _ := f.run(f.job("out=first", "out=last", "err=no")); string(r.Result) != "last" {
			f.t.Errorf("result %q", r.Result)
		}
		if r, _ := f.run(f.job("result=of the file", "out=last")); string(r.Result) != "of the file" {
			f.t.Errorf("result %q", r.Result)
		}
	}},
	{"the environment tells of the job", command, func(f *fixture) {
		j := f.job("env=HAULIER_JOB_ID", "env=HAULIER_ATTEMPT", "env=HAULIER_NEED_A_B")
		j.Results = []haulier.NeedResult{{Ref: "a-b", Result: []byte("needed")}}
		if _, out := f.run(j); out.text(f.t) != j.ID.String()+"\n3\nneeded\n" {
			f.t.Errorf("output %q", out.text(f.t))
		}
	}},
	{"inputs are there at the start, outputs at the end", folder, func(f *fixture) {
		j := f.job("read=in/data", "write=made:new", "write=in/data:changed")
		j.Files = &haulier.Files{Inputs: []haulier.Input{{Fileset: "x"}}, Outputs: &haulier.Output{Fileset: "y"}}
		a := f.prepare(j)
		if err := os.MkdirAll(filepath.Join(a.Folder(), "in"), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(a.Folder(), "in", "data"), []byte("given"), 0o644); err != nil {
			f.t.Fatal(err)
		}
		out := f.start(a)
		if r := f.wait(a); r.Outcome != haulier.OutcomeOK || out.text(f.t) != "given" {
			f.t.Errorf("got %+v, output %q", r, out.text(f.t))
		}
		for file, want := range map[string]string{"made": "new", "in/data": "changed"} {
			if b, err := os.ReadFile(filepath.Join(a.Folder(), file)); err != nil || string(b) != want {
				f.t.Errorf("%s: %q, %v", file, b, err)
			}
		}
		dir := a.Folder()
		a.Close()
		if err := f.x.Close(); err != nil {
			f.t.Error(err)
		}
		eventually(f.t, "the folder stays", func() bool { _, err := os.Stat(dir); return err != nil })
		f.x = f.New(f.t) // which close of the fixture closes
	}},
	{"what takes too long is ended", nil, func(f *fixture) {
		j := f.job("sleep=1m")
		j.Timeout = haulier.Duration(300 * time.Millisecond)
		if r, _ := f.run(j); r.Outcome != haulier.OutcomeError || !strings.Contains(r.Error, "timed out") || r.Stopped {
			f.t.Errorf("got %+v", r)
		}
	}},
	{"what is stopped may end by itself", signals, func(f *fixture) {
		a := f.prepare(f.job("term", "out=ready", "sleep=1m"))
		out := f.start(a)
		out.await(f.t, "ready")
		a.Stop(soon)
		if r := f.wait(a); !r.Stopped || r.Code != 0 || !strings.Contains(out.text(f.t), "heard") {
			f.t.Errorf("got %+v, output %q", r, out.text(f.t))
		}
		a.Close()
	}},
	{"what does not end when it is stopped is ended by force", signals, func(f *fixture) {
		a := f.prepare(f.job("deaf", "out=ready", "sleep=1m"))
		f.start(a).await(f.t, "ready")
		a.Stop(time.Hour)
		a.Stop(100 * time.Millisecond)
		if r := f.wait(a); !r.Stopped || r.Outcome != haulier.OutcomeError || r.Code != 137 {
			f.t.Errorf("got %+v", r)
		}
		a.Close()
	}},
	{"it may be stopped as soon as it is started", nil, func(f *fixture) {
		a := f.prepare(f.job("sleep=1m"))
		f.start(a)
		a.Stop(0)
		if r := f.wait(a); !r.Stopped || r.Outcome != haulier.OutcomeError {
			f.t.Errorf("got %+v", r)
		}
		a.Close()
	}},
	{"closed while it runs it is ended", nil, func(f *fixture) {
		a := f.prepare(f.job("sleep=1m"))
		f.start(a)
		if err := a.Close(); err != nil {
			f.t.Error(err)
		}
	}},
}

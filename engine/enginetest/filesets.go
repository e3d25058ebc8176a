package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

// blob reads a blob of the default tenant.
func (h *Harness) blob(addr string) ([]byte, error) {
	r, _, err := h.ReadBlob(h.t.Context(), haulier.DefaultTenant, addr, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (h *Harness) put(content string) string {
	h.t.Helper()
	addr := haulier.BlobAddress([]byte(content))
	if err := h.PutBlob(h.t.Context(), haulier.DefaultTenant, addr, strings.NewReader(content)); err != nil {
		h.t.Fatalf("put: %v", err)
	}
	return addr
}

// manifest puts files, by name and content in turn, and their manifest.
func (h *Harness) manifest(files ...string) string {
	h.t.Helper()
	text := "{\"fileset\":1}\n"
	for i := 0; i < len(files); i += 2 {
		text += fmt.Sprintf("{\"path\":%q,\"mode\":\"644\",\"size\":%d,\"blob\":%q}\n", files[i], len(files[i+1]), h.put(files[i+1]))
	}
	return h.put(text)
}

func (h *Harness) fileset(name string, files ...string) haulier.Fileset {
	h.t.Helper()
	fs, err := h.AddFileset(h.t.Context(), haulier.FilesetRequest{Tenant: haulier.DefaultTenant, Name: name, Manifest: h.manifest(files...), By: "test"})
	if err != nil {
		h.t.Fatalf("add fileset: %v", err)
	}
	return fs
}

// sweep lets uploads grow old, and what is not used go.
func (h *Harness) sweep() {
	h.t.Helper()
	h.pass(72 * time.Hour)
	if err := h.SweepBlobs(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *Harness) wantBlob(what, addr string, there bool) {
	h.t.Helper()
	if _, err := h.blob(addr); (err == nil) != there || err != nil && !errors.Is(err, haulier.ErrNotFound) {
		h.t.Errorf("%s: %v; want it there: %v", what, err, there)
	}
}

func withFiles(f haulier.Files, needs ...haulier.Need) haulier.Spec {
	s := haulier.Spec{Type: "work", Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"true"}}}, Files: &f, MaxAttempts: 5}
	if len(needs) > 0 {
		s.Flow = &haulier.Flow{Needs: needs}
	}
	return s
}

var filing = []behaviour{
	{"a blob is read whole and in part, by its tenant", func(t *testing.T, h *Harness) {
		addr := h.put("hello world")
		if got, err := h.blob(addr); err != nil || string(got) != "hello world" {
			t.Fatalf("read %q, %v", got, err)
		}
		r, size, err := h.ReadBlob(t.Context(), haulier.DefaultTenant, addr, 6, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, _ := io.ReadAll(r); string(got) != "wor" || size != 11 {
			t.Errorf("part %q of %d", got, size)
		}
		if _, _, err := h.ReadBlob(t.Context(), "other", addr, 0, -1); !errors.Is(err, haulier.ErrNotFound) {
			t.Errorf("another tenant reads it: %v", err)
		}
		if missing, err := h.MissingBlobs(t.Context(), "other", []string{addr}); err != nil || len(missing) != 1 {
			t.Errorf("another tenant knows of it: %v, %v", missing, err)
		}
		if err := h.PutBlob(t.Context(), haulier.DefaultTenant, haulier.BlobAddress([]byte("x")), strings.NewReader("y")); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("other content: %v, want ErrInvalid", err)
		}
	}},
	{"uploads go after a day, unless they are asked for or listed", func(t *testing.T, h *Harness) {
		lost, asked := h.put("lost"), h.put("asked for")
		fs := h.fileset("data", "a.txt", "listed")
		listed := haulier.BlobAddress([]byte("listed"))
		h.pass(20 * time.Hour)
		if missing, err := h.MissingBlobs(t.Context(), haulier.DefaultTenant, []string{asked, lost[:63] + "g"}); err == nil {
			t.Fatalf("a bad address: %v", missing)
		}
		if missing, err := h.MissingBlobs(t.Context(), haulier.DefaultTenant, []string{asked}); err != nil || len(missing) != 0 {
			t.Fatalf("missing: %v, %v", missing, err)
		}
		h.pass(6 * time.Hour)
		h.wantBlob("an upload that nothing uses", lost, false)
		h.wantBlob("one that was asked for", asked, true)
		h.wantBlob("one that a fileset lists", listed, true)
		h.sweep()
		h.wantBlob("one that was asked for long ago", asked, false)
		h.wantBlob("the manifest", fs.Manifest, true)
		h.wantBlob("one that a fileset lists", listed, true)
		if err := h.DeleteFileset(t.Context(), haulier.DefaultTenant, "data", 0); err != nil {
			t.Fatal(err)
		}
		h.sweep()
		h.wantBlob("the manifest of a fileset that was removed", fs.Manifest, false)
		h.pass(time.Hour)
		h.wantBlob("a file of a fileset that was removed", listed, false)
	}},
	{"versions count up and never come twice", func(t *testing.T, h *Harness) {
		for i := range 3 {
			if fs := h.fileset("data", "a", fmt.Sprint(i)); fs.Version != i+1 || fs.Files != 1 || fs.Size != 1 {
				t.Fatalf("version %d is %+v", i+1, fs)
			}
		}
		h.fileset("more")
		get := func(version int) int {
			fs, err := h.Fileset(t.Context(), haulier.DefaultTenant, "data", version)
			if err != nil && !errors.Is(err, haulier.ErrNotFound) {
				t.Fatal(err)
			}
			return fs.Version
		}
		del := func(version int) {
			if err := h.DeleteFileset(t.Context(), haulier.DefaultTenant, "data", version); err != nil {
				t.Fatal(err)
			}
		}
		list := func(name string) (out []string) {
			for after := ""; ; {
				all, err := h.Filesets(t.Context(), haulier.DefaultTenant, name, after, 1)
				if err != nil {
					t.Fatal(err)
				}
				if len(all) == 0 {
					return out
				}
				out = append(out, all[0].String())
				if after = all[0].Name; name != "" {
					after = all[0].String()
				}
			}
		}
		if got := list("data"); !slices.Equal(got, []string{"data@1", "data@2", "data@3"}) {
			t.Errorf("versions: %v", got)
		}
		if del(3); get(0) != 2 || get(3) != 0 || get(1) != 1 {
			t.Errorf("after the newest was removed: newest %d, 3 is %d", get(0), get(3))
		}
		if got := list(""); !slices.Equal(got, []string{"data@2", "more@1"}) {
			t.Errorf("filesets: %v", got)
		}
		if del(0); get(0) != 0 || len(list("")) != 1 {
			t.Errorf("after all were removed: newest %d, %v", get(0), list(""))
		}
		if fs := h.fileset("data", "a", "z"); fs.Version != 4 {
			t.Errorf("the next is %d, want 4", fs.Version)
		}
		if err := h.DeleteFileset(t.Context(), haulier.DefaultTenant, "data", 9); !errors.Is(err, haulier.ErrNotFound) {
			t.Errorf("removal of none: %v", err)
		}
		r := haulier.FilesetRequest{Tenant: haulier.DefaultTenant, Name: "data", Manifest: h.manifest("a", "k"), Keep: 1}
		if fs, err := h.AddFileset(t.Context(), r); err != nil || fs.Version != 5 || !slices.Equal(list("data"), []string{"data@5"}) {
			t.Errorf("with one to be kept: %+v, %v, %v", fs, err, list("data"))
		}
	}},
	{"a manifest that lists what is not there, or leads out, is refused", func(t *testing.T, h *Harness) {
		gone := haulier.BlobAddress([]byte("gone"))
		for _, lines := range []string{
			``, `{"fileset":2}`, `{"fileset":1}` + "\nx",
			`{"fileset":1}` + "\n" + `{"path":"a","mode":"644","size":4,"blob":"` + gone + `"}`,
			`{"fileset":1}` + "\n" + `{"path":"../a","mode":"755","dir":true}`,
			`{"fileset":1}` + "\n" + `{"path":"/a","mode":"755","dir":true}`,
			`{"fileset":1}` + "\n" + `{"path":"b","mode":"755","dir":true}` + "\n" + `{"path":"a","mode":"755","dir":true}`,
			`{"fileset":1}` + "\n" + `{"path":"a","link":"/etc"}` + "\n" + `{"path":"a/b","mode":"755","dir":true}`,
			`{"fileset":1}` + "\n" + `{"path":"a","mode":"4755","dir":true}`,
		} {
			_, err := h.AddFileset(t.Context(), haulier.FilesetRequest{Tenant: haulier.DefaultTenant, Name: "data", Manifest: h.put(lines)})
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Errorf("%q: %v, want ErrInvalid", lines, err)
			}
		}
	}},
	{"the inputs of the first attempt are those of all, and stay as long as the job", func(t *testing.T, h *Harness) {
		first := h.fileset("data", "a", "one")
		id := h.enqueue(withFiles(haulier.Files{Inputs: []haulier.Input{{Fileset: "data", To: "in"}}}))[0]
		s := h.open(nil)
		j := h.claimOne(s)
		files, err := h.JobFiles(t.Context(), s, ref(j))
		if err != nil || len(files.Inputs) != 1 || files.Inputs[0].Fileset != "data@1" || files.Inputs[0].Manifest != first.Manifest || files.Inputs[0].To != "in" {
			t.Fatalf("files: %+v, %v", files, err)
		}
		h.fileset("data", "a", "two")
		h.finish(s, j, haulier.OutcomeRetry)
		h.keep(s, time.Minute)
		j = h.claimOne(s)
		if files, err = h.JobFiles(t.Context(), s, ref(j)); err != nil || files.Inputs[0].Fileset != "data@1" {
			t.Fatalf("files of the second attempt: %+v, %v", files, err)
		}
		if err := h.DeleteFileset(t.Context(), haulier.DefaultTenant, "data", 1); err != nil {
			t.Fatal(err)
		}
		h.finish(s, j, haulier.OutcomeOK)
		content := haulier.BlobAddress([]byte("one"))
		h.pass(48 * time.Hour)
		if err := h.SweepBlobs(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.wantBlob("a file that a job has", content, true)
		if c, err := h.Delete(t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test"); err != nil || c.N != 1 {
			t.Fatalf("delete: %+v, %v", c, err)
		}
		h.sweep()
		h.pass(time.Hour)
		h.wantBlob("a file that nothing has", content, false)
		h.wantBlob("a file of the next version", haulier.BlobAddress([]byte("two")), true)
	}},
	{"what a task names, and the whole of a result, stay as long as their job", func(t *testing.T, h *Harness) {
		task := haulier.Task{Wasi: &haulier.WasiTask{Module: h.put("module"), Stdin: h.put("input")}}
		spec := haulier.Spec{Task: task, MaxAttempts: 5, Backoff: &haulier.Backoff{Constant: 1}, Retention: haulier.Duration(2000 * time.Hour)}
		missing := spec
		missing.Task = haulier.Task{Wasi: &haulier.WasiTask{Module: haulier.BlobAddress([]byte("none"))}}
		results, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{missing}}, {Jobs: []haulier.Spec{spec}}})
		if err != nil || !errors.Is(results[0].Err, haulier.ErrInvalid) || results[1].Err != nil {
			t.Fatalf("%+v, %v: want the first refused, and that one alone", results, err)
		}
		id := results[1].IDs[0]
		var kept []string
		for _, o := range []haulier.Outcome{haulier.OutcomeError, haulier.OutcomeOK} {
			s := h.open(func(s *haulier.Session) { s.Kinds, s.Types = []haulier.Kind{haulier.KindWasi}, nil })
			j := h.claimOne(s)
			kept = append(kept, h.put("result of "+string(o)))
			end := haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: o, Result: []byte("res"), ResultBlob: haulier.BlobAddress([]byte("none"))}
			if errs := h.report(s, end); !errors.Is(errs[0], haulier.ErrInvalid) {
				t.Errorf("with a blob that is not there: %v", errs[0])
			}
			end.ResultBlob = kept[len(kept)-1]
			end.Log = joblog.Append(nil, joblog.Stderr, time.Now(), []byte("log of "+string(o)))
			if errs := h.report(s, end); errs[0] != nil {
				t.Fatal(errs[0])
			}
			h.pass(time.Second)
		}
		if j := h.want(id, haulier.Succeeded); j.ResultBlob != kept[1] || string(j.Result) != "res" {
			t.Errorf("the whole result is %q, want %q", j.ResultBlob, kept[1])
		}
		if text, _ := h.output(id, 0); text != "log of ok" {
			t.Errorf("its output is %q", text)
		}
		kept = append(kept, task.Blobs()...)
		h.sweep()
		for _, addr := range kept {
			h.wantBlob("a blob of the job", addr, true)
		}
		if c, err := h.Delete(t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test"); err != nil || c.N != 1 {
			t.Fatalf("delete: %+v, %v", c, err)
		}
		h.sweep()
		for _, addr := range kept {
			h.wantBlob("a blob of a job that is gone", addr, false)
		}
	}},
	{"an output is a version by the commit of the end, for the jobs that come after", func(t *testing.T, h *Harness) {
		build := withFiles(haulier.Files{Outputs: &haulier.Output{Fileset: "dist"}})
		build.Flow = &haulier.Flow{Ref: "build"}
		ids := h.enqueue(build, withFiles(haulier.Files{Inputs: []haulier.Input{{From: "build"}}}, haulier.Need{Ref: "build"}))
		s := h.open(nil)
		j := h.claimOne(s)
		manifest := h.manifest("bin", "program")
		if err := h.CloseSession(t.Context(), s); err != nil { // the first attempt is lost, and what it made
			t.Fatal(err)
		}
		lost := []haulier.Report{{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Output: manifest}}
		if errs, err := h.Report(t.Context(), s, lost); err == nil && errs[0] == nil {
			t.Fatal("a report of a lost attempt was taken")
		}
		s = h.open(nil)
		j = h.claimOne(s)
		if errs := h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Output: manifest}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if done := h.want(ids[0], haulier.Succeeded); done.OutputVersion != 1 {
			t.Errorf("version %d, want 1", done.OutputVersion)
		}
		h.fileset("dist", "bin", "another")
		h.restart()
		j = h.claimOne(s)
		if len(j.Results) != 1 || j.Results[0].Output != "dist@1" {
			t.Errorf("results: %+v", j.Results)
		}
		if files, err := h.JobFiles(t.Context(), s, ref(j)); err != nil || files.Inputs[0].Manifest != manifest {
			t.Errorf("files: %+v, %v", files, err)
		}
	}},
	{"outputs that end together are versions of their own", func(t *testing.T, h *Harness) {
		spec := withFiles(haulier.Files{Outputs: &haulier.Output{Fileset: "dist", On: haulier.OnFinished}})
		ids := h.enqueue(spec, spec, spec)
		s := h.open(nil)
		var reports []haulier.Report
		for i, j := range h.claim(s, 3) {
			reports = append(reports, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeFailed, Output: h.manifest("f", fmt.Sprint(i))})
		}
		reports[1].Output = haulier.BlobAddress([]byte("never put"))
		if errs := h.report(s, reports...); errs[0] != nil || errs[1] == nil || errs[2] != nil {
			t.Fatalf("reports: %v", errs)
		}
		var versions []int
		for _, id := range ids {
			versions = append(versions, h.get(id).OutputVersion)
		}
		if slices.Sort(versions); !slices.Equal(versions, []int{0, 1, 2}) {
			t.Errorf("versions %v", versions)
		}
	}},
	{"inputs that can't be are refused, or fail the job with the reason", func(t *testing.T, h *Harness) {
		for name, f := range map[string]haulier.Files{
			"inputs[0].fileset": {Inputs: []haulier.Input{{}}}, "inputs[0].to": {Inputs: []haulier.Input{{Fileset: "a", To: "../b"}}},
			"inputs[0].from":     {Inputs: []haulier.Input{{From: "x"}}},
			"inputs[0].patterns": {Inputs: []haulier.Input{{Fileset: "a", Patterns: []string{"["}}}},
			"outputs.fileset":    {Outputs: &haulier.Output{Fileset: "a@3"}}, "outputs.on": {Outputs: &haulier.Output{Fileset: "a", On: "later"}},
		} {
			res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{withFiles(f)}}})
			var field *haulier.FieldError
			if err != nil || !errors.As(res[0].Err, &field) || !strings.HasSuffix(field.Field, name) {
				t.Errorf("%s: %v, %v", name, err, res)
			}
		}
		h.enqueue(withFiles(haulier.Files{Inputs: []haulier.Input{{Fileset: "none"}}}))
		s := h.open(nil)
		if _, err := h.JobFiles(t.Context(), s, ref(h.claimOne(s))); !errors.Is(err, haulier.ErrNotFound) {
			t.Errorf("an input that is not there: %v", err)
		}
	}},
	{"payloads of one content are kept once, also when they come at once", func(t *testing.T, h *Harness) {
		big := bytes.Repeat([]byte("x"), haulier.MaxPayload+1)
		reqs := make([]haulier.EnqueueRequest, 6)
		for i := range reqs {
			reqs[i].Jobs = []haulier.Spec{{Type: "work", Payload: big}}
			if i%2 == 0 {
				reqs[i].Key = fmt.Sprint(i)
			}
		}
		reqs[5].Jobs[0].Type = "a/b"
		res, err := h.Enqueue(t.Context(), reqs)
		if err != nil {
			t.Fatal(err)
		}
		var ids []haulier.ID
		for i, r := range res[:5] {
			if r.Err != nil {
				t.Fatalf("request %d: %v", i, r.Err)
			}
			ids = append(ids, r.IDs...)
		}
		if res[5].Err == nil {
			t.Error("a bad type was taken")
		}
		addr := haulier.BlobAddress(big)
		if _, err := h.Cancel(t.Context(), haulier.Selection{IDs: ids}, "test", ""); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			h.wantBlob("a payload that jobs have", addr, true)
			if c, err := h.Delete(t.Context(), haulier.Selection{IDs: ids[i : i+1]}, "test"); err != nil || c.N != 1 {
				t.Fatalf("delete: %+v, %v", c, err)
			}
		}
		h.wantBlob("a payload that no job has", addr, false)
	}},
}

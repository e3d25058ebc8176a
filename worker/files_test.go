package worker_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
	"github.com/haulier/haulier/worker"
)

// keepFiles makes a fileset of files, by name and content in turn.
func keepFiles(t *testing.T, q haulier.Queue, name string, files ...string) {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p, err := fileset.Push(t.Context(), q, haulier.DefaultTenant, dir, fileset.Options{})
	if err == nil {
		_, err = q.AddFileset(t.Context(), haulier.FilesetRequest{Tenant: haulier.DefaultTenant, Name: name, Manifest: p.Manifest})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kept is what a fileset has in a file; "": it or the file is not there.
func kept(t *testing.T, q haulier.Queue, name, file string) string {
	t.Helper()
	fs, err := q.Fileset(t.Context(), haulier.DefaultTenant, name, 0)
	if err != nil {
		return ""
	}
	entries, err := fileset.List(t.Context(), q, fs.Tenant, fs.Manifest, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Path != file {
			continue
		}
		r, _, err := q.ReadBlob(t.Context(), fs.Tenant, e.Blob, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return ""
}

func TestInputsAndOutputs(t *testing.T) {
	q := queue(t)
	keepFiles(t, q, "tools", "greet", "#!/bin/sh\necho hello $1 >greeting\n")
	keepFiles(t, q, "data", "name", "world", "spare", "x")
	dir := shortDir(t)
	start(t, worker.Config{Consumer: q, Executors: commands(), Dir: dir})
	spec := haulier.Spec{
		Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"./bin/greet", "you"}}}, MaxAttempts: 1,
		Files: &haulier.Files{
			Inputs:  []haulier.Input{{Fileset: "tools", To: "bin"}, {Fileset: "data@1", Patterns: []string{"name"}}},
			Outputs: &haulier.Output{Fileset: "made", Patterns: []string{"*"}},
		},
	}
	j := end(t, q, enqueue(t, q, spec)[0])[0]
	if j.State != haulier.Succeeded || j.OutputVersion != 1 {
		t.Fatalf("%v, version %d: %s", j.State, j.OutputVersion, j.Reason)
	}
	if got := kept(t, q, "made", "greeting"); got != "hello you\n" {
		t.Errorf("made %q", got)
	}
	if got := kept(t, q, "made", "name") + kept(t, q, "made", "spare"); got != "world" {
		t.Errorf("of data there is %q, want the part that was asked for", got)
	}
	t.Run("nothing is left behind", func(t *testing.T) {
		eventually(t, "the job's folder stays", func() bool {
			left, err := os.ReadDir(filepath.Join(dir, "jobs"))
			return err == nil && len(left) == 0
		})
	})
	t.Run("the cache has what was fetched", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(dir, "blobs", haulier.BlobAddress([]byte("world")))); err != nil {
			t.Error(err)
		}
	})
}

func TestOutputsOfFailures(t *testing.T) {
	q := queue(t)
	start(t, worker.Config{Consumer: q, Executors: commands()})
	fails := func(o haulier.Output) haulier.Spec {
		s := sh("echo log >log; exit 65")
		s.Files = haulier.FilesOf(nil, &o)
		return s
	}
	for on, want := range map[haulier.Condition]string{"": "", haulier.OnSucceeded: "", haulier.OnFailed: "log\n", haulier.OnFinished: "log\n"} {
		name := "made-" + string(on)
		if j := end(t, q, enqueue(t, q, fails(haulier.Output{Fileset: name, On: on}))[0])[0]; j.State != haulier.Failed || j.Code != 65 {
			t.Errorf("%s: %v, %+v", on, j.State, j.Error)
		}
		if got := kept(t, q, name, "log"); got != want {
			t.Errorf("on %q it keeps %q, want %q", on, got, want)
		}
	}
	t.Run("a command that removed its folder fails", func(t *testing.T) {
		s := sh("rm -rf \"$PWD\"")
		s.Files, s.MaxAttempts = haulier.FilesOf(nil, &haulier.Output{Fileset: "none"}), 1
		if j := end(t, q, enqueue(t, q, s)[0])[0]; j.State != haulier.Failed || !strings.Contains(j.Reason, "outputs: ") {
			t.Errorf("%v: %s", j.State, j.Reason)
		}
	})
	t.Run("an input that is not there fails for good", func(t *testing.T) {
		s := sh("true")
		s.Files, s.MaxAttempts = haulier.FilesOf([]haulier.Input{{Fileset: "none"}}, nil), 5
		if j := end(t, q, enqueue(t, q, s)[0])[0]; j.State != haulier.Failed || j.Attempt != 1 || !strings.Contains(j.Reason, "fileset none: not found") {
			t.Errorf("%v, attempt %d: %s", j.State, j.Attempt, j.Reason)
		}
	})
}

// TestOutputsAreAdopted kills the worker of a command that is to leave outputs: the next one keeps them.
func TestOutputsAreAdopted(t *testing.T) {
	q, url := site(t)
	dir := shortDir(t)
	kill := startDoomed(t, url, dir)
	keepFiles(t, q, "data", "in", "given")
	s := slow(dir, "a")
	s.Task.Exec.Argv[0] = "cat in >out; " + s.Task.Exec.Argv[0]
	s.Files = haulier.FilesOf([]haulier.Input{{Fileset: "data"}}, &haulier.Output{Fileset: "made"})
	id := enqueue(t, q, s)[0]
	output(t, q, id, "begin")
	kill()
	start(t, adoptable(q, dir))
	write(t, dir+"/go")
	if j := end(t, q, id)[0]; j.State != haulier.Succeeded || j.Attempt != 1 || j.OutputVersion != 1 {
		t.Fatalf("%v, attempt %d, version %d: %s", j.State, j.Attempt, j.OutputVersion, j.Reason)
	}
	if got := kept(t, q, "made", "out"); got != "given" {
		t.Errorf("made %q", got)
	}
}

// TestInputsWaitForTheServer cuts the worker off while it fetches.
func TestInputsWaitForTheServer(t *testing.T) {
	q := queue(t)
	keepFiles(t, q, "data", "in", "given")
	o := newOutage(q)
	b := &cutBlobs{Blobs: q, left: 2}
	start(t, worker.Config{Consumer: o, Blobs: b, Executors: commands(), Lease: 15 * time.Second})
	s := sh("cat in >out")
	s.Files, s.MaxAttempts = haulier.FilesOf([]haulier.Input{{Fileset: "data"}}, &haulier.Output{Fileset: "made"}), 1
	if j := end(t, q, enqueue(t, q, s)[0])[0]; j.State != haulier.Succeeded {
		t.Fatalf("%v: %s", j.State, j.Reason)
	}
	if got := kept(t, q, "made", "out"); got != "given" {
		t.Errorf("made %q", got)
	}
}

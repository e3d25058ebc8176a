package pebble_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
)

// contents are the files below dir and what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// refuses checks that a folder does not open, why, and that it stays as it was.
func refuses(t *testing.T, dir string, want error, hint string) {
	t.Helper()
	before := contents(t, dir)
	s, err := pebble.Open(dir, pebble.Options{})
	if err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), hint) {
		t.Errorf("error is %q, want one that is %q and says %q", err, want, hint)
	}
	now := contents(t, dir)
	for path, b := range before {
		if now[path] != b {
			t.Errorf("%s was changed", path)
		}
		delete(now, path)
	}
	for path := range now {
		t.Errorf("%s was added", path)
	}
}

func TestForeignFolderIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("chapter 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, haulier.ErrInvalid, "choose a folder that is empty")
}

func TestFileInPlaceOfAFolderIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pebble.Open(path, pebble.Options{}); err == nil {
		t.Fatal("it was opened")
	}
}

func TestFolderOfAnotherVersionIsLeftAlone(t *testing.T) {
	dir := filled(t)
	marker(t, dir, "haulier store 2\nready\n")
	refuses(t, dir, haulier.ErrInvalid, "use the program that wrote it")
}

func TestDamagedFolderIsLeftAlone(t *testing.T) {
	t.Run("the marker is something else", func(t *testing.T) {
		dir := filled(t)
		marker(t, dir, "hello")
		refuses(t, dir, haulier.ErrCorrupt, "restore the folder")
	})
	for name, pattern := range map[string]string{"manifest": "MANIFEST-*", "tables": "*.sst", "marker of the manifest": "marker.manifest*"} {
		t.Run("the "+name+" is gone", func(t *testing.T) {
			dir := filled(t)
			for _, path := range glob(t, dir, pattern) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			refuses(t, dir, haulier.ErrCorrupt, "restore the folder")
		})
	}
	for name, pattern := range map[string]string{"manifest": "MANIFEST-*", "tables": "*.sst"} {
		t.Run("the "+name+" is overwritten", func(t *testing.T) {
			dir := filled(t)
			for _, path := range glob(t, dir, pattern) {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, bytes.Repeat([]byte{0xa5}, len(b)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			refuses(t, dir, haulier.ErrCorrupt, "restore the folder")
		})
	}
}

// filled is the folder of a store that has jobs and was closed.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, pebble.Options{MemTable: 256 << 10})
	insert(t, s, newJobs(3000))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return paths
}

func marker(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "HAULIER"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStoreIsMadeWhereNothingIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, pebble.Options{})
	insert(t, s, newJobs(1))
	if s.Opened().ClaimsLost {
		t.Error("a new store says that it lost claims")
	}
}

func TestCrashWhileTheStoreWasMade(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LOCK", "HAULIER.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t, dir, pebble.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	marker(t, dir, "haulier store 1\nnew\n")
	open(t, dir, pebble.Options{})
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, pebble.Options{})
	insert(t, s, newJobs(10))
	_, err := pebble.Open(filepath.Join(dir, ".", "x", ".."), pebble.Options{})
	if !errors.Is(err, haulier.ErrUnavailable) || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("in this process: %v", err)
	}
	out, err := child(t, "open", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another process has it open") {
		t.Errorf("in another process: %v, %s", err, out)
	}
	insert(t, s, newJobs(10)) // the other one has done no harm
}

// The test program run again with this variable set does the named thing to a folder; see TestMain.
const childVar = "HAULIER_PEBBLE_TEST"

func child(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), childVar+"="+what+" "+dir)
	return cmd
}

func TestMain(m *testing.M) {
	what, dir, _ := strings.Cut(os.Getenv(childVar), " ")
	switch what {
	case "":
		os.Exit(m.Run())
	case "open":
		_, err := pebble.Open(dir, pebble.Options{})
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
	case "load":
		load(dir)
	}
	os.Exit(0)
}

func TestClaimsAreLostOnlyWhenTheMachineWentDown(t *testing.T) {
	for _, c := range []struct {
		name    string
		clean   bool
		boot    string
		claimed bool
	}{
		{"closed, same boot", true, "one", false},
		{"closed, another boot", true, "two", false},
		{"killed, same boot", false, "one", false},
		{"killed, another boot", false, "two", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, pebble.Options{BootID: "one"})
			insert(t, s, newJobs(1))
			if c.clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				dir = copied(t, dir)
			}
			if got := open(t, dir, pebble.Options{BootID: c.boot}).Opened().ClaimsLost; got != c.claimed {
				t.Errorf("ClaimsLost is %v, want %v", got, c.claimed)
			}
		})
	}
}

// copied is a copy of a folder as it is at this moment: what a killed process leaves.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

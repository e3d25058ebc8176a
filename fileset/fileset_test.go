package fileset_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/fileset"
	"github.com/haulier/haulier/store/mem"
)

// counted counts what is read and put.
type counted struct {
	fileset.Blobs
	mu         sync.Mutex
	read, puts int
}

func (c *counted) ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error) {
	c.mu.Lock()
	c.read++
	c.mu.Unlock()
	return c.Blobs.ReadBlob(ctx, tenant, addr, from, n)
}

func (c *counted) PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error {
	c.mu.Lock()
	c.puts++
	c.mu.Unlock()
	return c.Blobs.PutBlob(ctx, tenant, addr, content)
}

func blobs(t testing.TB) *counted {
	t.Helper()
	store := mem.New()
	b, err := blob.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: store, Blobs: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		store.Close()
		b.Close()
	})
	return &counted{Blobs: e}
}

// plant makes files, by path and content; a content of "-> x" is a link, and "/" an empty folder.
func plant(t testing.TB, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, link := strings.CutPrefix(files[i+1], "-> "); link {
			err = errors.Join(err, os.Symlink(to, path))
		} else if files[i+1] == "/" {
			err = errors.Join(err, os.MkdirAll(path, 0o750))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(files[i+1]), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// look lists a folder as plant makes it.
func look(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			out = append(out, name, "-> "+to)
		case d.IsDir():
			if inside, _ := os.ReadDir(p); len(inside) == 0 {
				out = append(out, name, "/")
			}
		default:
			b, _ := os.ReadFile(p)
			out = append(out, name, string(b))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func push(t testing.TB, b fileset.Blobs, dir string, patterns ...string) fileset.Pushed {
	t.Helper()
	p, err := fileset.Push(t.Context(), b, "t", dir, fileset.Options{Patterns: patterns})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestThereAndBack(t *testing.T) {
	b, dir := blobs(t), t.TempDir()
	tree := []string{"a.txt", "one", "a/b/deep.dat", "two", "a/twin", "one", "empty", "/", "link", "-> a/b", "out", "-> /etc/passwd", "zz", ""}
	plant(t, dir, tree...)
	if err := os.Chmod(filepath.Join(dir, "a.txt"), 0o751); err != nil {
		t.Fatal(err)
	}
	p := push(t, b, dir)
	if p.Files != 6 || p.Size != 9 || p.Sent != 6 || b.puts != 4 { // one, two, the empty one, the manifest
		t.Errorf("pushed %+v with %d puts", p, b.puts)
	}
	if again := push(t, b, dir); again.Manifest != p.Manifest || again.Sent != 0 || b.puts != 5 {
		t.Errorf("pushed again: %+v with %d puts in all", again, b.puts)
	}
	to := filepath.Join(t.TempDir(), "new")
	got, err := fileset.Pull(t.Context(), b, "t", p.Manifest, to, fileset.Options{})
	if err != nil || got.Files != 6 || got.Fetched != 9 {
		t.Fatalf("pulled %+v, %v", got, err)
	}
	if want, have := look(t, dir), look(t, to); !slices.Equal(want, have) {
		t.Errorf("there is %q, want %q", have, want)
	}
	for name, mode := range map[string]fs.FileMode{"a.txt": 0o751, "empty": 0o750} {
		if st, err := os.Stat(filepath.Join(to, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %o", name, st.Mode(), err, mode)
		}
	}
	t.Run("what is there stays, what differs is replaced, the rest is left alone", func(t *testing.T) {
		plant(t, to, "a.txt", "other", "more", "mine")
		if err := errors.Join(os.Remove(filepath.Join(to, "link")), os.Symlink("elsewhere", filepath.Join(to, "link"))); err != nil {
			t.Fatal(err)
		}
		got, err := fileset.Pull(t.Context(), b, "t", p.Manifest, to, fileset.Options{})
		if err != nil || got.Fetched != 3 {
			t.Fatalf("pulled %+v, %v; want the 3 bytes that differ", got, err)
		}
		want := look(t, dir)
		have := slices.DeleteFunc(look(t, to), func(s string) bool { return s == "more" || s == "mine" })
		if !slices.Equal(want, have) {
			t.Errorf("there is %q, want %q", have, want)
		}
	})
	t.Run("a part of it", func(t *testing.T) {
		to := t.TempDir()
		if _, err := fileset.Pull(t.Context(), b, "t", p.Manifest, to, fileset.Options{Patterns: []string{"**/*.dat", "*", "!out", "!empty"}, To: "in/here"}); err != nil {
			t.Fatal(err)
		}
		want := []string{"in/here/a/b/deep.dat", "two", "in/here/a.txt", "one", "in/here/link", "-> a/b", "in/here/zz", ""}
		if have := look(t, to); !slices.Equal(have, want) {
			t.Errorf("there is %q, want %q", have, want)
		}
	})
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns string
		path     string
		want     bool
	}{
		{"", "a/b", true}, {"*.py", "a.py", true}, {"*.py", "a/a.py", false}, {"**/*.py", "a.py", true}, {"**/*.py", "a/b/c.py", true},
		{"bin/*", "bin/x", true}, {"bin/*", "bin/x/y", false}, {"bin/**", "bin/x/y", true}, {"!tmp/**", "a", true}, {"!tmp/**", "tmp/a", false},
		{"**;!**/*.o", "a/b.o", false}, {"**;!**/*.o", "a/b.c", true}, {"{a,b}.txt", "b.txt", true}, {"[a-c]?", "bx", true},
	} {
		var p fileset.Patterns
		if c.patterns != "" {
			p = strings.Split(c.patterns, ";")
		}
		if err := p.Check(); err != nil {
			t.Errorf("%q: %v", c.patterns, err)
		}
		if got := p.Select(c.path); got != c.want {
			t.Errorf("%q selects %q: %v, want %v", c.patterns, c.path, got, c.want)
		}
	}
	for _, bad := range []string{"[", "!", "", "a/{b", strings.Repeat("a", 5000)} {
		if err := (fileset.Patterns{bad}).Check(); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%.10q: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestNothingLeadsOut(t *testing.T) {
	b := blobs(t)
	content := "x"
	addr := haulier.BlobAddress([]byte(content))
	put := func(text string) string {
		a := haulier.BlobAddress([]byte(text))
		if err := errors.Join(b.PutBlob(t.Context(), "t", a, strings.NewReader(text)), b.PutBlob(t.Context(), "t", addr, strings.NewReader(content))); err != nil {
			t.Fatal(err)
		}
		return a
	}
	file := func(path string) string {
		return fmt.Sprintf("{\"path\":%q,\"mode\":\"644\",\"size\":1,\"blob\":%q}\n", path, addr)
	}
	outside := t.TempDir()
	for name, lines := range map[string]string{
		"parent": file("../x"), "absolute": file(outside + "/x"), "dot": file("a/../../x"), "unclean": file("a//b"), "backslash": file(`a\b`),
		"zero": file("a\x00b"), "through a link": `{"path":"l","link":"` + outside + `"}` + "\n" + file("l/x"),
		"through a link further on": `{"path":"l","link":"` + outside + `"}` + "\n" + file("l-") + file("l/x"),
		"twice":                     file("a") + file("a"), "a file as folder": file("a") + file("a/b"), "mode": strings.Replace(file("a"), "644", "4755", 1),
		"no address": `{"path":"a","mode":"644","size":1,"blob":"../x"}` + "\n", "negative": `{"path":"a","mode":"644","size":-1,"blob":"` + addr + `"}` + "\n",
		"unknown": `{"path":"a","mode":"644","owner":0,"size":1,"blob":"` + addr + `"}` + "\n", "endless": `{"path":"` + strings.Repeat("a", 70<<10) + `"}` + "\n",
	} {
		to := t.TempDir()
		if _, err := fileset.Pull(t.Context(), b, "t", put("{\"fileset\":1}\n"+lines), to, fileset.Options{}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		if got := look(t, to); len(got) > 0 {
			t.Errorf("%s left %q", name, got)
		}
	}
	t.Run("through links that are there already", func(t *testing.T) {
		to := t.TempDir()
		plant(t, to, "in", "-> "+outside, "up", "-> ..")
		m := put("{\"fileset\":1}\n" + file("in/x"))
		if _, err := fileset.Pull(t.Context(), b, "t", m, to, fileset.Options{}); err == nil {
			t.Error("it was written through a link")
		}
		m = put("{\"fileset\":1}\n" + file("x"))
		for _, folder := range []string{"in", "in/deeper", "up/x"} {
			if _, err := fileset.Pull(t.Context(), b, "t", m, to, fileset.Options{To: folder}); err == nil {
				t.Errorf("it was written through a link to %s", folder)
			}
		}
	})
	if got := look(t, outside); len(got) > 0 {
		t.Errorf("outside there is %q", got)
	}
}

func TestWhatCantBeKept(t *testing.T) {
	b := blobs(t)
	t.Run("pipes and sockets are left out and named", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "a", "x")
		if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
			t.Skip("no named pipes here:", err)
		}
		if p := push(t, b, dir); p.Files != 1 || !slices.Equal(p.Skipped, []string{"pipe"}) {
			t.Errorf("%+v", p)
		}
	})
	t.Run("links are not followed", func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		plant(t, other, "secret", "x")
		plant(t, dir, "l", "-> "+other, "f", "-> "+other+"/secret")
		if p := push(t, b, dir); p.Files != 2 || p.Size != 0 {
			t.Errorf("%+v: only the two links are there", p)
		}
	})
	t.Run("names that are not the same everywhere", func(t *testing.T) {
		dir := t.TempDir()
		plant(t, dir, "a\xff", "x")
		if _, err := fileset.Push(t.Context(), b, "t", dir, fileset.Options{}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	})
}

func TestCache(t *testing.T) {
	b, dir := blobs(t), t.TempDir()
	for i := range 10 {
		plant(t, dir, fmt.Sprint(i), strings.Repeat(fmt.Sprint(i), 1000))
	}
	m := push(t, b, dir).Manifest
	folder := t.TempDir()
	open := func(most int64) *fileset.Cache {
		c, err := fileset.OpenCache(folder, most)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pull := func(c *fileset.Cache) int64 {
		to := t.TempDir()
		p, err := fileset.Pull(t.Context(), b, "t", m, to, fileset.Options{Cache: c, Parallel: 1})
		if err != nil {
			t.Fatal(err)
		}
		if want, have := look(t, dir), look(t, to); !slices.Equal(want, have) {
			t.Errorf("there is %.80q, want %.80q", have, want)
		}
		return p.Fetched
	}
	c := open(100_000)
	if n := pull(c); n != 10_000 {
		t.Errorf("%d bytes fetched at first", n)
	}
	if n := pull(c); n != 0 {
		t.Errorf("%d bytes fetched again", n)
	}
	plant(t, folder, "new-half", "written")
	damaged := filepath.Join(folder, haulier.BlobAddress(bytes.Repeat([]byte("3"), 1000)))
	if err := os.WriteFile(damaged, bytes.Repeat([]byte("4"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := pull(open(100_000)); n != 1000 {
		t.Errorf("%d bytes fetched after one was damaged", n)
	}
	if got := look(t, folder); len(got) != 20 {
		t.Errorf("the cache has %d files", len(got)/2)
	}
	small := open(3000)
	pull(small)
	pull(small)
	if got := look(t, folder); len(got)/2 > 3 {
		t.Errorf("a cache of 3000 bytes has %d files of 1000", len(got)/2)
	}
	if got := look(t, folder); len(got) == 0 {
		t.Error("a small cache keeps nothing")
	}
}

func FuzzManifest(f *testing.F) {
	addr := haulier.BlobAddress([]byte("x"))
	f.Add([]byte("{\"fileset\":1}\n{\"path\":\"a\",\"mode\":\"644\",\"size\":1,\"blob\":\"" + addr + "\"}\n{\"path\":\"b/c\",\"link\":\"../a\"}\n"))
	f.Add([]byte("{\"fileset\":1}\n{\"path\":\"a\",\"mode\":\"755\",\"dir\":true}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		seen := map[string]bool{}
		err := fileset.Read(bytes.NewReader(b), func(e *fileset.Entry) error {
			if !filepath.IsLocal(e.Path) || seen[e.Path] || e.Mode > 0o777 || e.Size < 0 {
				t.Errorf("let in: %+v", e)
			}
			seen[e.Path] = true
			return nil
		})
		if err != nil && !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	})
}

// BenchmarkPushPull moves 1000 files of 100 KiB, there and back; copy does the same with the disk alone.
func BenchmarkPushPull(b *testing.B) {
	dir := b.TempDir()
	const n, size = 1000, 100 << 10
	for i := range n {
		plant(b, dir, fmt.Sprintf("%d/%d", i%10, i), string(bytes.Repeat([]byte(fmt.Sprintf("%08d", i)), size/8)))
	}
	b.Run("push", func(b *testing.B) {
		b.SetBytes(n * size)
		for b.Loop() {
			push(b, blobs(b), dir)
		}
	})
	to := blobs(b)
	m := push(b, to, dir).Manifest
	b.Run("pull", func(b *testing.B) {
		b.SetBytes(n * size)
		for b.Loop() {
			if _, err := fileset.Pull(b.Context(), to, "t", m, b.TempDir(), fileset.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(n * size)
		for b.Loop() {
			if err := os.CopyFS(b.TempDir(), os.DirFS(dir)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package blob_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
)

func TestObjectsInAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blob.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	content, addr := testObjects(t, s)
	var files []string
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, d.Name())
		}
		return err
	})
	if err != nil || !slices.Equal(files, []string{"kept"}) {
		t.Fatalf("the folder has %v, %v", files, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "t", "kept"), content[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadAll(t.Context(), "t/kept", addr); !errors.Is(err, haulier.ErrCorrupt) {
		t.Fatalf("read of changed bytes: %v, want ErrCorrupt", err)
	}
}

// testObjects tests what holds of every bucket. It leaves one object, t/kept.
func testObjects(t *testing.T, s *blob.Store) (content []byte, addr string) {
	t.Helper()
	ctx := t.Context()
	content = bytes.Repeat([]byte("haulier\n"), 10_000)
	addr = haulier.BlobAddress(content)
	write := func(object string, r io.Reader) error {
		_, err := s.Write(ctx, object, addr, r)
		return err
	}
	if err := write("t/ab/one", bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadAll(ctx, "t/ab/one", addr); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("read: %d bytes, %v", len(got), err)
	}
	t.Run("a part", func(t *testing.T) {
		r, err := s.Read(ctx, "t/ab/one", addr, 3, 10)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content[3:13]) {
			t.Fatalf("read %q, %v", got, err)
		}
	})
	t.Run("content of another address leaves nothing", func(t *testing.T) {
		if err := write("t/ab/two", strings.NewReader("other")); !errors.Is(err, haulier.ErrInvalid) {
			t.Fatalf("write: %v, want ErrInvalid", err)
		}
		cut := errors.New("cut off")
		if err := write("t/ab/two", io.MultiReader(bytes.NewReader(content[:5000]), iotest.ErrReader(cut))); !errors.Is(err, cut) {
			t.Fatalf("write of a reader that fails: %v, want its error", err)
		}
		if _, err := s.ReadAll(ctx, "t/ab/two", addr); !errors.Is(err, haulier.ErrNotFound) {
			t.Fatalf("read: %v, want ErrNotFound", err)
		}
	})
	t.Run("each, by age", func(t *testing.T) {
		for before, want := range map[time.Time]int{time.Now().Add(time.Hour): 1, time.Now().Add(-time.Hour): 0} {
			n := 0
			if err := s.Each(ctx, before, func(string) error { n++; return nil }); err != nil || n != want {
				t.Errorf("%d objects before %v, %v; want %d", n, before, err, want)
			}
		}
	})
	t.Run("a deleted object is gone and may be deleted again", func(t *testing.T) {
		if err := errors.Join(s.Delete(ctx, "t/ab/one"), s.Delete(ctx, "t/ab/one")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadAll(ctx, "t/ab/one", addr); !errors.Is(err, haulier.ErrNotFound) {
			t.Fatalf("read after delete: %v, want ErrNotFound", err)
		}
	})
	if err := write("t/kept", bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	return content, addr
}

func TestAddresses(t *testing.T) {
	addr := haulier.BlobAddress([]byte("x"))
	if err := haulier.CheckBlobAddress(addr); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "../../etc/passwd", addr[:63], addr + "0", "zz" + addr[2:], strings.ToUpper(addr)} {
		if err := haulier.CheckBlobAddress(bad); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", bad, err)
		}
	}
}

package blob_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
)

func TestBlobsInAFolder(t *testing.T) {
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "blobs")
	s, err := blob.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	content := bytes.Repeat([]byte("haulier\n"), 10_000)
	addr, err := s.Put(ctx, content)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Put(ctx, content); err != nil || again != addr {
		t.Fatalf("second put: %s, %v; want %s", again, err, addr)
	}
	got, err := s.Get(ctx, addr)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatalf("get: %d bytes, %v", len(got), err)
	}

	t.Run("a changed file is noticed", func(t *testing.T) {
		file := filepath.Join(dir, addr[:2], addr)
		if err := os.WriteFile(file, content[1:], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(ctx, addr); !errors.Is(err, haulier.ErrCorrupt) {
			t.Fatalf("get of changed bytes: %v, want ErrCorrupt", err)
		}
	})
	t.Run("a deleted blob is gone and may be deleted again", func(t *testing.T) {
		if err := errors.Join(s.Delete(ctx, addr), s.Delete(ctx, addr)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(ctx, addr); !errors.Is(err, haulier.ErrNotFound) {
			t.Fatalf("get after delete: %v, want ErrNotFound", err)
		}
	})
	t.Run("an address that leads elsewhere is refused", func(t *testing.T) {
		for _, bad := range []string{"", "../../etc/passwd", addr[:63], addr + "0", "zz" + addr[2:]} {
			if _, err := s.Get(ctx, bad); !errors.Is(err, haulier.ErrInvalid) {
				t.Errorf("get %q: %v, want ErrInvalid", bad, err)
			}
		}
	})
}

package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
)

// TestBlobsAndFilesets goes through all that haulier.Blobs offers, over the network, with a server that is not well now and then.
func TestBlobsAndFilesets(t *testing.T) {
	ctx := t.Context()
	c, _ := between(t, newEngine(t), func(n int64, w http.ResponseWriter, r *http.Request) bool {
		switch {
		case n%5 == 2 && r.Method != http.MethodPost:
			return drop(w, r)
		case n%5 == 4:
			return busy(w)
		}
		return true
	})
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	addr := haulier.BlobAddress(content)
	missing := func() []string {
		out, err := c.MissingBlobs(ctx, "", []string{addr, haulier.BlobAddress(nil)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := missing(); !slices.Equal(got, []string{addr, haulier.BlobAddress(nil)}) {
		t.Fatalf("missing %v", got)
	}
	file := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 3 {
		if err := c.PutBlob(ctx, "", addr, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PutBlob(ctx, "", haulier.BlobAddress(nil), bytes.NewReader(nil)); err != nil {
		t.Fatal(err)
	}
	if got := missing(); len(got) != 0 {
		t.Errorf("missing %v", got)
	}
	for _, part := range [][2]int64{{0, -1}, {5, -1}, {0, 7}, {100, 25}} {
		r, size, err := c.ReadBlob(ctx, "", addr, part[0], part[1])
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		want := content[part[0]:]
		if part[1] >= 0 {
			want = want[:part[1]]
		}
		if err != nil || size != int64(len(content)) || !bytes.Equal(got, want) {
			t.Errorf("%v: %d bytes of %d, %v", part, len(got), size, err)
		}
	}
	if _, _, err := c.ReadBlob(ctx, "", haulier.BlobAddress([]byte("none")), 0, -1); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if err := c.PutBlob(ctx, "", addr, errReader{}); !errors.Is(err, errBad) {
		t.Errorf("content that can't be read: %v", err)
	}
	filesets(t, c)
}

var errBad = errors.New("bad sector")

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errBad }

func filesets(t *testing.T, c haulier.Blobs) {
	ctx, dir := t.Context(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := fileset.Push(ctx, c, "", dir, fileset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	add := func() (fs haulier.Fileset) {
		for { // it is for the caller to say whether it may be repeated
			fs, err := c.AddFileset(ctx, haulier.FilesetRequest{Name: "data", Manifest: p.Manifest, Keep: 2})
			if err == nil {
				return fs
			}
			if !errors.Is(err, haulier.ErrUnavailable) {
				t.Fatal(err)
			}
		}
	}
	fs := add()
	for fs.Version < 3 {
		fs = add()
	}
	if fs.Tenant != haulier.DefaultTenant || fs.Files != 1 || fs.Size != 1 {
		t.Errorf("%+v", fs)
	}
	all, err := c.Filesets(ctx, "", "data", "", 10)
	if err != nil || len(all) != 2 {
		t.Errorf("versions: %v, %v; want the two that are kept", all, err)
	}
	if got, err := c.Fileset(ctx, "", "data", 0); err != nil || got.Version != fs.Version {
		t.Errorf("the newest is %v, %v", got, err)
	}
	for err = c.DeleteFileset(ctx, "", "data", 0); errors.Is(err, haulier.ErrUnavailable); {
		err = c.DeleteFileset(ctx, "", "data", 0)
	}
	if _, gone := c.Fileset(ctx, "", "data", 0); err != nil && !errors.Is(err, haulier.ErrNotFound) || !errors.Is(gone, haulier.ErrNotFound) {
		t.Errorf("removed: %v, then %v", err, gone)
	}
}

// TestABlobThatIsNotWholeIsNoticed has a body cut short, and one changed on the way.
func TestABlobThatIsNotWholeIsNoticed(t *testing.T) {
	content := strings.Repeat("x", 100_000)
	addr := haulier.BlobAddress([]byte(content))
	body := ""
	c, _ := between(t, idle{}, func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = io.WriteString(w, body)
		return false
	})
	for what, want := range map[string]error{content[:50_000]: haulier.ErrUnavailable, content[1:] + "y": haulier.ErrCorrupt} {
		body = what
		r, _, err := c.ReadBlob(t.Context(), "", addr, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, r)
		r.Close()
		if !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", len(what), err, want)
		}
	}
}

package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/server"
)

func (r *recorder) PutBlob(_ context.Context, tenant, addr string, content io.Reader) error {
	b, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return r.note("put blob %q %.4s %s", tenant, addr, b)
}

func (r *recorder) ReadBlob(_ context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error) {
	return io.NopCloser(strings.NewReader("x")), from + 1, r.note("read blob %q %.4s %d %d", tenant, addr, from, n)
}

func (r *recorder) MissingBlobs(_ context.Context, tenant string, addrs []string) ([]string, error) {
	return nil, r.note("missing %q %d", tenant, len(addrs))
}

func (r *recorder) AddFileset(_ context.Context, q haulier.FilesetRequest) (haulier.Fileset, error) {
	return haulier.Fileset{}, r.note("add fileset %q %q %q keep %d by %q", q.Tenant, q.Name, q.Manifest, q.Keep, q.By)
}

func (r *recorder) Filesets(_ context.Context, tenant, name, after string, limit int) ([]haulier.Fileset, error) {
	return nil, r.note("filesets %q %q %q %d", tenant, name, after, limit)
}

func (r *recorder) Fileset(_ context.Context, tenant, name string, version int) (haulier.Fileset, error) {
	return haulier.Fileset{}, r.note("fileset %q %q %d", tenant, name, version)
}

func (r *recorder) DeleteFileset(_ context.Context, tenant, name string, version int) error {
	return r.note("delete fileset %q %q %d", tenant, name, version)
}

func (r *recorder) JobFiles(_ context.Context, _ haulier.ID, ref haulier.Ref) (haulier.JobFiles, error) {
	return haulier.JobFiles{}, r.note("job files %d", ref.Attempt)
}

// TestBlobsOverHTTP puts a blob and reads it, whole and in parts.
func TestBlobsOverHTTP(t *testing.T) {
	h := newServer(t, server.Config{Queue: newEngine(t)}).Handler()
	content := strings.Repeat("0123456789", 100_000)
	path := "/v1/blobs/" + haulier.BlobAddress([]byte(content))
	octets := map[string]string{"Content-Type": "application/octet-stream"}
	problem(t, h, request{method: "GET", path: path}, http.StatusNotFound, "not_found")
	problem(t, h, request{method: "PUT", path: path, body: content}, http.StatusUnsupportedMediaType, "unsupported_media_type")
	problem(t, h, request{method: "PUT", path: path, body: content[1:], header: octets}, http.StatusBadRequest, "invalid")
	problem(t, h, request{method: "PUT", path: "/v1/blobs/abc", body: content, header: octets}, http.StatusBadRequest, "invalid")
	for range 2 {
		if status, _, body := ask(t, h, request{method: "PUT", path: path, body: content, header: octets}); status != http.StatusNoContent {
			t.Fatal(status, body)
		}
	}
	for _, c := range []struct {
		method, ask string
		status      int
		want, place string
	}{
		{"GET", "", 200, content, ""},
		{"HEAD", "", 200, "", ""},
		{"GET", "bytes=999990-", 206, "0123456789", "bytes 999990-999999/1000000"},
		{"GET", "bytes=3-5", 206, "345", "bytes 3-5/1000000"},
		{"GET", "bytes=999998-2000000", 206, "89", "bytes 999998-999999/1000000"},
	} {
		q := request{method: c.method, path: path}
		if c.ask != "" {
			q.header = map[string]string{"Range": c.ask}
		}
		status, header, body := ask(t, h, q)
		if status != c.status || body != c.want || header.Get("Content-Range") != c.place {
			t.Errorf("%s %s: %d, %d bytes, %q", c.method, c.ask, status, len(body), header.Get("Content-Range"))
		}
	}
	for _, bad := range []string{"bytes=-5", "bytes=5-3", "lines=1-2", "bytes=2000000-"} {
		problem(t, h, request{method: "GET", path: path, header: map[string]string{"Range": bad}}, http.StatusBadRequest, "invalid")
	}
}

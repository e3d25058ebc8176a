package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/haulier/haulier"
)

const octetType = "application/octet-stream"

// PutBlob implements haulier.Blobs. It is repeated only when the content can be read again, as that of a file or a bytes.Reader.
func (c *Client) PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error {
	if c.isClosed() {
		return errClosed
	}
	again, ok := content.(readable)
	if !ok {
		return c.putOnce(ctx, tenant, addr, content, -1)
	}
	size, err := again.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("put blob %s: %w", addr, err)
	}
	pause := pauses{until: c.until()}
	for {
		// A reader of its own: the transport may be at the one before still.
		err := c.putOnce(ctx, tenant, addr, io.NewSectionReader(again, 0, size), size)
		if err == nil || !errors.Is(err, haulier.ErrUnavailable) {
			return err
		}
		if !pause.next(ctx, err) {
			return lastly(ctx, err)
		}
	}
}

type readable interface {
	io.ReaderAt
	io.Seeker
}

func (c *Client) putOnce(ctx context.Context, tenant, addr string, content io.Reader, size int64) error {
	source := &source{r: content}
	r := &call{method: http.MethodPut, path: "/v1/blobs/" + url.PathEscape(addr), query: tenantQuery(tenant), stream: source, size: size, bodyType: octetType}
	res, err := c.open(ctx, r)
	if why := source.failure(); why != nil { // whatever became of the call
		if err == nil {
			res.Body.Close()
		}
		return fmt.Errorf("put blob %s: %w", addr, why)
	}
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// source remembers why it could not be read. It hides other methods of the reader, so that the transport does not close it.
type source struct {
	r   io.Reader
	err atomic.Pointer[error]
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err.Store(&err)
	}
	return n, err
}

func (s *source) failure() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// ReadBlob implements haulier.Blobs.
func (c *Client) ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error) {
	if c.isClosed() {
		return nil, 0, errClosed
	}
	r := &call{method: http.MethodGet, path: "/v1/blobs/" + url.PathEscape(addr), query: tenantQuery(tenant)}
	if from > 0 || n >= 0 {
		last := ""
		if n > 0 {
			last = strconv.FormatInt(from+n-1, 10)
		}
		r.header = map[string]string{"Range": fmt.Sprintf("bytes=%d-%s", from, last)}
	}
	pause := pauses{until: c.until()}
	for {
		res, err := c.open(ctx, r)
		if err == nil {
			return blobContent(r, res, addr, from > 0 || n >= 0, n)
		}
		if !errors.Is(err, haulier.ErrUnavailable) {
			return nil, 0, err
		}
		if !pause.next(ctx, err) {
			return nil, 0, lastly(ctx, err)
		}
	}
}

func blobContent(r *call, res *http.Response, addr string, part bool, n int64) (io.ReadCloser, int64, error) {
	size := res.ContentLength
	if part {
		var from, to int64
		if _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size); err != nil {
			res.Body.Close()
			return nil, 0, garbled(r, fmt.Errorf("a part without its place: %w", err))
		}
		if n == 0 { // which a range can't say
			res.Body.Close()
			return http.NoBody, size, nil
		}
		return res.Body, size, nil
	}
	return newVerified(r, res.Body, addr), size, nil
}

// MissingBlobs implements haulier.Blobs.
func (c *Client) MissingBlobs(ctx context.Context, tenant string, addrs []string) ([]string, error) {
	in := struct {
		Addresses []string `json:"addresses"`
	}{addrs}
	var out struct {
		Missing []string `json:"missing"`
	}
	err := c.send(ctx, &call{method: http.MethodPost, path: "/v1/blobs/missing", query: tenantQuery(tenant), repeat: true}, in, &out)
	return out.Missing, err
}

func filesetPath(name string) string { return "/v1/filesets/" + url.PathEscape(name) }

// AddFileset implements haulier.Blobs. It is not repeated when whether it was carried out is not known.
func (c *Client) AddFileset(ctx context.Context, r haulier.FilesetRequest) (haulier.Fileset, error) {
	in := struct {
		Manifest string `json:"manifest"`
		Keep     int    `json:"keep,omitempty"`
	}{r.Manifest, r.Keep}
	var out haulier.Fileset
	err := c.send(ctx, &call{method: http.MethodPost, path: filesetPath(r.Name), query: tenantQuery(r.Tenant)}, in, &out)
	return out, err
}

// Filesets implements haulier.Blobs.
func (c *Client) Filesets(ctx context.Context, tenant, name, after string, limit int) ([]haulier.Fileset, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	for k, v := range map[string]string{"tenant": tenant, "name": name, "after": after} {
		if v != "" {
			q.Set(k, v)
		}
	}
	var out struct {
		Filesets []haulier.Fileset `json:"filesets"`
	}
	err := c.send(ctx, &call{method: http.MethodGet, path: "/v1/filesets", query: q, repeat: true}, nil, &out)
	return out.Filesets, err
}

func versionQuery(tenant string, version int) url.Values {
	q := tenantQuery(tenant)
	if version != 0 {
		if q == nil {
			q = url.Values{}
		}
		q.Set("version", strconv.Itoa(version))
	}
	return q
}

// Fileset implements haulier.Blobs.
func (c *Client) Fileset(ctx context.Context, tenant, name string, version int) (haulier.Fileset, error) {
	var out haulier.Fileset
	err := c.send(ctx, &call{method: http.MethodGet, path: filesetPath(name), query: versionQuery(tenant, version), repeat: true}, nil, &out)
	return out, err
}

// DeleteFileset implements haulier.Blobs.
func (c *Client) DeleteFileset(ctx context.Context, tenant, name string, version int) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: filesetPath(name), query: versionQuery(tenant, version)}, nil, nil)
}

// JobFiles implements haulier.Consumer.
func (c *Client) JobFiles(ctx context.Context, session haulier.ID, ref haulier.Ref) (haulier.JobFiles, error) {
	var out haulier.JobFiles
	err := c.send(ctx, &call{method: http.MethodPost, path: sessionPath(session, "/files"), repeat: true}, ref, &out)
	return out, err
}

package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/haulier/haulier"
)

// verified is a body whose end is an error when what came is not what was asked for.
type verified struct {
	r    *call
	body io.ReadCloser
	addr string
	sum  hash.Hash
}

func newVerified(r *call, body io.ReadCloser, addr string) *verified {
	return &verified{r: r, body: body, addr: addr, sum: sha256.New()}
}

// Read implements io.Reader.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.body.Read(p)
	v.sum.Write(p[:n])
	switch {
	case err == nil:
	case err != io.EOF: //nolint:errorlint // a Reader returns io.EOF itself
		err = fmt.Errorf("%s %s: %w: %w", v.r.method, v.r.path, haulier.ErrUnavailable, err)
	case hex.EncodeToString(v.sum.Sum(nil)) != v.addr:
		err = fmt.Errorf("%s %s: %w: its content has another checksum", v.r.method, v.r.path, haulier.ErrCorrupt)
	}
	return n, err
}

// Close implements io.Closer.
func (v *verified) Close() error { return v.body.Close() }

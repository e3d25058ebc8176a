// Package blob keeps the bytes of objects on any bucket that gocloud.dev/blob
// opens. An object is written once, whole or not at all, and read with its
// checksum verified. Which objects there are, and who needs them, is for the engine's documents to say.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/memblob" // mem:// URLs: for tests
	_ "gocloud.dev/blob/s3blob"  // s3:// URLs
	"gocloud.dev/gcerrors"

	"github.com/haulier/haulier"
)

// Store holds objects. Safe for concurrent use.
type Store struct {
	bucket *gcblob.Bucket
	dir    string   // of a folder's bucket: its files are synced
	names  sync.Map // folders in it whose own names are known to be synced
}

// Open opens the bucket of the URL, as in mem:// or s3://name, and looks whether it is there.
func Open(ctx context.Context, url string) (*Store, error) {
	b, err := gcblob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open blobs %s: %w: %w; it is the path of a folder, or such as s3://BUCKET?region=eu-central-1", url, haulier.ErrInvalid, err)
	}
	there, err := b.IsAccessible(ctx)
	if err == nil && !there {
		err = errors.New("there is no such bucket; make it first")
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("open blobs %s: %w: %w", url, haulier.ErrUnavailable, err)
	}
	return &Store{bucket: b}, nil
}

// OpenDir opens the bucket that a folder is, and makes the folder where it is missing.
func OpenDir(dir string) (*Store, error) {
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{CreateDir: true, DirFileMode: 0o700, NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("open blobs in %s: %w", dir, err)
	}
	return &Store{bucket: b, dir: dir}, nil
}

// Write writes the object and returns its size. The content must have the address; ErrInvalid: it
// has another, and nothing was written. When it returns, the bucket has the object whole or, after an
// error, not at all, and in a folder it survives power loss.
func (s *Store) Write(ctx context.Context, object, addr string, content io.Reader) (int64, error) {
	if err := haulier.CheckBlobAddress(addr); err != nil {
		return 0, err
	}
	ctx, abandon := context.WithCancel(ctx)
	defer abandon()
	w, err := s.bucket.NewWriter(ctx, object, &gcblob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return 0, fmt.Errorf("write blob %s: %w: %w", addr, haulier.ErrUnavailable, err)
	}
	sum := sha256.New()
	size, err := io.Copy(w, &source{r: io.TeeReader(content, sum)})
	if got := hex.EncodeToString(sum.Sum(nil)); err == nil && got != addr {
		err = fmt.Errorf("%w: its content has the checksum %s: it was changed on the way, or the address is another's", haulier.ErrInvalid, got)
	}
	if err != nil {
		abandon() // what was written so far is dropped
		w.Close()
		var own *sourceError
		if errors.As(err, &own) {
			return 0, fmt.Errorf("write blob %s: %w", addr, own.err)
		}
		if !errors.Is(err, haulier.ErrInvalid) {
			err = fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
		}
		return 0, fmt.Errorf("write blob %s: %w", addr, err)
	}
	if err := w.Close(); err != nil {
		return 0, fmt.Errorf("write blob %s: %w: %w", addr, haulier.ErrUnavailable, err)
	}
	if err := s.sync(object); err != nil {
		return 0, fmt.Errorf("write blob %s: %w: %w", addr, haulier.ErrUnavailable, err)
	}
	return size, nil
}

// source tells errors of the reader from those of the bucket.
type source struct{ r io.Reader }

type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// sync makes an object in a folder survive power loss: its bytes, and its name in each folder above.
func (s *Store) sync(object string) error {
	if s.dir == "" {
		return nil
	}
	file := filepath.Join(s.dir, filepath.FromSlash(object))
	if err := syncFile(file); err != nil {
		return err
	}
	for folder := filepath.Dir(file); ; folder = filepath.Dir(folder) {
		if err := syncFile(folder); err != nil || folder == s.dir {
			return err
		}
		if _, known := s.names.LoadOrStore(folder, true); known {
			return nil
		}
	}
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

// Read opens the object, from an offset on, for n bytes; negative: all that follows. Read as a whole, its
// end is ErrCorrupt instead of io.EOF when the bytes are not those of the address; a part can't be verified. ErrNotFound: there is none.
func (s *Store) Read(ctx context.Context, object, addr string, from, n int64) (io.ReadCloser, error) {
	r, err := s.bucket.NewRangeReader(ctx, object, from, n, nil)
	if err != nil {
		return nil, translate("read", addr, err)
	}
	if from > 0 || n >= 0 && n < r.Size() {
		return r, nil
	}
	return &verified{ReadCloser: r, addr: addr, sum: sha256.New()}, nil
}

// verified compares what it read with the address.
type verified struct {
	io.ReadCloser
	addr string
	sum  hash.Hash
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(v.sum.Sum(nil)) != v.addr { //nolint:errorlint // a Reader returns io.EOF itself
		err = fmt.Errorf("read blob %s: %w: its content has another checksum", v.addr, haulier.ErrCorrupt)
	}
	return n, err
}

// ReadAll returns the whole object.
func (s *Store) ReadAll(ctx context.Context, object, addr string) ([]byte, error) {
	r, err := s.Read(ctx, object, addr, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil && !errors.Is(err, haulier.ErrCorrupt) {
		err = translate("read", addr, err)
	}
	return b, err
}

// Delete removes the object; that there is none is no error.
func (s *Store) Delete(ctx context.Context, object string) error {
	if err := s.bucket.Delete(ctx, object); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("delete object %s: %w: %w", object, haulier.ErrUnavailable, err)
	}
	return nil
}

// Each calls f for the objects that were written before the time, until it fails.
func (s *Store) Each(ctx context.Context, before time.Time, f func(object string) error) error {
	for it := s.bucket.List(nil); ; {
		o, err := it.Next(ctx)
		if err == io.EOF { //nolint:errorlint // Next returns io.EOF itself
			return nil
		}
		if err != nil {
			return fmt.Errorf("list blobs: %w: %w", haulier.ErrUnavailable, err)
		}
		if o.ModTime.Before(before) {
			if err := f(o.Key); err != nil {
				return err
			}
		}
	}
}

func translate(op, addr string, err error) error {
	kind := haulier.ErrUnavailable
	if gcerrors.Code(err) == gcerrors.NotFound {
		kind = haulier.ErrNotFound
	}
	return fmt.Errorf("%s blob %s: %w: %w", op, addr, kind, err)
}

// Close releases the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

// Package blob keeps bytes under the SHA-256 of their content, on any bucket
// that gocloud.dev/blob opens.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	gcblob "gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/memblob" // mem:// URLs: for tests
	"gocloud.dev/gcerrors"

	"github.com/haulier/haulier"
)

// Store holds blobs. Safe for concurrent use.
type Store struct {
	bucket *gcblob.Bucket
	dir    string // of a folder's bucket: its files are synced
}

// Open opens the bucket of the URL, as in mem:// or s3://name.
func Open(ctx context.Context, url string) (*Store, error) {
	b, err := gcblob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open blobs %s: %w", url, err)
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

// Address is the name of the blob with this content: the SHA-256 in hex.
func Address(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// path spreads blobs over folders by their first byte.
func path(addr string) (string, error) {
	if _, err := hex.DecodeString(addr); err != nil || len(addr) != 2*sha256.Size {
		return "", fmt.Errorf("%w: %.80q is not the address of a blob: 64 hex digits", haulier.ErrInvalid, addr)
	}
	return addr[:2] + "/" + addr, nil
}

// Put keeps content and returns its address. When it returns, the bucket has
// the blob whole or, after an error, not at all.
func (s *Store) Put(ctx context.Context, content []byte) (string, error) {
	addr := Address(content)
	key, _ := path(addr)
	// What a power cut left half written under this name is written again.
	if ok, err := s.bucket.Exists(ctx, key); err == nil && ok {
		if _, err := s.Get(ctx, addr); err == nil {
			return addr, nil
		}
	}
	if err := s.bucket.WriteAll(ctx, key, content, nil); err != nil {
		return "", fmt.Errorf("put blob %s: %w: %w", addr, haulier.ErrUnavailable, err)
	}
	if err := s.sync(key); err != nil {
		return "", fmt.Errorf("put blob %s: %w: %w", addr, haulier.ErrUnavailable, err)
	}
	return addr, nil
}

// sync makes a blob in a folder survive power loss: its bytes, and its name in each folder above.
func (s *Store) sync(key string) error {
	if s.dir == "" {
		return nil
	}
	file := filepath.Join(s.dir, filepath.FromSlash(key))
	for _, p := range []string{file, filepath.Dir(file), s.dir} {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		err = f.Sync()
		if err2 := f.Close(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Get returns the blob. ErrNotFound: there is none. ErrCorrupt: its bytes are not those of its address.
func (s *Store) Get(ctx context.Context, addr string) ([]byte, error) {
	key, err := path(addr)
	if err != nil {
		return nil, err
	}
	r, err := s.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, s.translate("get", addr, err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, s.translate("get", addr, err)
	}
	if Address(content) != addr {
		return nil, fmt.Errorf("get blob %s: %w: its content has another checksum", addr, haulier.ErrCorrupt)
	}
	return content, nil
}

// Delete removes the blob; that there is none is no error.
func (s *Store) Delete(ctx context.Context, addr string) error {
	key, err := path(addr)
	if err != nil {
		return err
	}
	if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return s.translate("delete", addr, err)
	}
	return nil
}

func (s *Store) translate(op, addr string, err error) error {
	kind := haulier.ErrUnavailable
	if gcerrors.Code(err) == gcerrors.NotFound {
		kind = haulier.ErrNotFound
	}
	return fmt.Errorf("%s blob %s: %w: %w", op, addr, kind, err)
}

// Close releases the bucket.
func (s *Store) Close() error { return s.bucket.Close() }

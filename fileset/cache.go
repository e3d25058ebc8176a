package fileset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// Cache keeps blobs in a folder, those that were used last, up to a number of bytes. What it gives is
// verified; what was damaged is fetched anew. It is for one process at a time, in which it is safe for concurrent use.
type Cache struct {
	dir string
	max int64

	mu   sync.Mutex
	size int64
}

// OpenCache opens the cache in a folder, which it makes where it is missing.
func OpenCache(dir string, most int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cache of blobs: %w", err)
	}
	c := &Cache{dir: dir, max: most}
	all, err := c.list()
	if err != nil {
		return nil, fmt.Errorf("cache of blobs: %w", err)
	}
	for _, b := range all {
		if haulier.CheckBlobAddress(b.name) != nil { // half written by a process that was killed
			err = errors.Join(err, os.Remove(filepath.Join(dir, b.name)))
			continue
		}
		c.size += b.size
	}
	if err == nil {
		err = c.added(0)
	}
	return c, err
}

type cached struct {
	name string
	size int64
	used time.Time
}

func (c *Cache) list() ([]cached, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	all := make([]cached, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, cached{e.Name(), info.Size(), info.ModTime()})
	}
	return all, nil
}

// copy writes the content of an entry to the file, and returns how much of it came from afar.
func (c *Cache) copy(ctx context.Context, to *os.File, from Blobs, tenant string, e *Entry) (int64, error) {
	file := filepath.Join(c.dir, e.Blob)
	if ok, err := c.give(to, file, e); ok || err != nil {
		return 0, err
	}
	r, _, err := from.ReadBlob(ctx, tenant, e.Blob, 0, -1)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if e.Size > c.max/2 {
		return io.Copy(to, r)
	}
	tmp, err := os.CreateTemp(c.dir, "new-")
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(io.MultiWriter(to, tmp), r)
	if err2 := tmp.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return n, errors.Join(err, os.Remove(tmp.Name()))
	}
	return n, c.added(n)
}

// give writes a blob that is in the cache; false: there is none that is whole.
func (c *Cache) give(to *os.File, file string, e *Entry) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, nil //nolint:nilerr // it is fetched
	}
	defer f.Close()
	addr, _, err := addressOf(io.TeeReader(f, to))
	if err == nil && addr == e.Blob {
		now := time.Now()
		os.Chtimes(file, now, now) //nolint:errcheck // it then counts as used earlier
		return true, nil
	}
	os.Remove(file)
	if _, err := to.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return false, to.Truncate(0)
}

// added makes room for what was added.
func (c *Cache) added(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += n; c.size <= c.max {
		return nil
	}
	all, err := c.list()
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b cached) int { return a.used.Compare(b.used) })
	c.size = 0
	for _, b := range all {
		c.size += b.size
	}
	for _, b := range all {
		if c.size <= c.max-c.max/10 {
			break
		}
		if haulier.CheckBlobAddress(b.name) != nil {
			continue // on its way
		}
		if err := os.Remove(filepath.Join(c.dir, b.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cache of blobs: %w", err)
		}
		c.size -= b.size
	}
	return nil
}

var _ Blobs = haulier.Blobs(nil)

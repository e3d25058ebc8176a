package fileset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
)

// Pulled is what Pull did.
type Pulled struct {
	Files   int
	Size    int64 // bytes of the files
	Fetched int64 // bytes that came from afar
}

// List returns the entries of a manifest that the patterns select.
func List(ctx context.Context, from Blobs, tenant, manifest string, patterns Patterns) ([]Entry, error) {
	if err := patterns.Check(); err != nil {
		return nil, err
	}
	r, size, err := from.ReadBlob(ctx, tenant, manifest, 0, -1)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", manifest, err)
	}
	defer r.Close()
	if size > haulier.MaxManifest {
		return nil, fmt.Errorf("%w: manifest %s has %d bytes: at most %d", haulier.ErrTooLarge, manifest, size, haulier.MaxManifest)
	}
	whole, err := io.ReadAll(r) // its checksum is known at its end
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", manifest, err)
	}
	var out []Entry
	return out, Read(bytes.NewReader(whole), func(e *Entry) error {
		if patterns.Select(e.Path) {
			out = append(out, *e)
		}
		return nil
	})
}

// Pull puts what the patterns select of a manifest into a folder, which it makes where it is missing. What is
// there already with the same content stays; other files of the same name are replaced. Nothing
// is written outside of the folder, whatever links are in it.
func Pull(ctx context.Context, from Blobs, tenant, manifest, dir string, o Options) (Pulled, error) {
	var p Pulled
	entries, err := List(ctx, from, tenant, manifest, o.Patterns)
	if err != nil {
		return p, fmt.Errorf("pull: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // files for others to use, as any program makes them
		return p, fmt.Errorf("pull: %w", err)
	}
	root, err := openWithin(dir, o.To)
	if err != nil {
		return p, fmt.Errorf("pull: %w", err)
	}
	defer root.Close()
	l := &landing{from: from, tenant: tenant, root: root, o: &o}
	err = l.all(ctx, entries)
	for i := range entries {
		if !entries[i].Dir {
			p.Files++
			p.Size += entries[i].Size
		}
	}
	p.Fetched = l.fetched.Load()
	if err != nil {
		return p, fmt.Errorf("pull to %s: %w", dir, err)
	}
	return p, nil
}

// openWithin opens a folder within another, which it makes where it is missing.
func openWithin(dir, to string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil || to == "" {
		return root, err
	}
	defer root.Close()
	if err := root.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	return root.OpenRoot(to)
}

// landing puts entries into a folder.
type landing struct {
	from    Blobs
	tenant  string
	root    *os.Root
	o       *Options
	fetched atomic.Int64
}

// all makes the folders first and the links last, so that no file is written through a link of the manifest.
func (l *landing) all(ctx context.Context, entries []Entry) error {
	made := map[string]bool{".": true}
	for i := range entries {
		e := &entries[i]
		dir := path.Dir(e.Path)
		if e.Dir {
			dir = e.Path
		}
		if made[dir] {
			continue
		}
		made[dir] = true
		if err := l.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if e.Dir {
			if err := l.root.Chmod(dir, fs.FileMode(e.Mode)); err != nil {
				return err
			}
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(l.o.parallel())
	for i := range entries {
		e := &entries[i]
		if !e.file() {
			continue
		}
		g.Go(func() error {
			if err := gctx.Err(); err != nil {
				return err
			}
			if err := l.file(gctx, e); err != nil {
				return fmt.Errorf("%s: %w", e.Path, err)
			}
			l.o.progress(e.Size)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range entries {
		if e := &entries[i]; e.Link != "" {
			if err := l.link(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *landing) link(e *Entry) error {
	if at, err := l.root.Readlink(e.Path); err == nil && at == e.Link {
		return nil
	}
	if err := l.root.Remove(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.root.Symlink(e.Link, e.Path)
}

func (l *landing) file(ctx context.Context, e *Entry) error {
	if same, err := l.same(e); same || err != nil {
		return err
	}
	if err := l.root.Remove(e.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := l.root.OpenFile(e.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = l.fill(ctx, f, e)
	if err == nil {
		err = f.Chmod(fs.FileMode(e.Mode))
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return errors.Join(err, l.root.Remove(e.Path))
	}
	return nil
}

// same reports whether the file is there already, and sets its mode.
func (l *landing) same(e *Entry) (bool, error) {
	info, err := l.root.Lstat(e.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return false, nil
	}
	f, err := l.root.Open(e.Path)
	if err != nil {
		return false, nil // it is made anew
	}
	defer f.Close()
	if addr, _, err := addressOf(f); err != nil || addr != e.Blob {
		return false, nil //nolint:nilerr // it is made anew
	}
	return true, f.Chmod(fs.FileMode(e.Mode))
}

func (l *landing) fill(ctx context.Context, f *os.File, e *Entry) error {
	if l.o.Cache == nil {
		r, _, err := l.from.ReadBlob(ctx, l.tenant, e.Blob, 0, -1)
		if err != nil {
			return err
		}
		defer r.Close()
		n, err := io.Copy(f, r)
		l.fetched.Add(n)
		return err
	}
	n, err := l.o.Cache.copy(ctx, f, l.from, l.tenant, e)
	l.fetched.Add(n)
	return err
}

package fileset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
)

// Blobs is what filesets need of haulier.Blobs.
type Blobs interface {
	PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error
	ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error)
	MissingBlobs(ctx context.Context, tenant string, addrs []string) ([]string, error)
}

// Options of Push and Pull.
type Options struct {
	Patterns Patterns
	// Parallel is how many files are on their way at once. Zero: 8.
	Parallel int
	// Progress is told of bytes that were moved, or needed not to be. It is called by several goroutines. Nil: nobody is told.
	Progress func(bytes int64)
	// To is a folder within that of Pull, where the files go instead.
	To string
	// Cache is where Pull looks for blobs first. Nil: there is none.
	Cache *Cache
}

func (o *Options) parallel() int {
	if o.Parallel <= 0 {
		return 8
	}
	return o.Parallel
}

func (o *Options) progress(n int64) {
	if o.Progress != nil {
		o.Progress(n)
	}
}

// Pushed is what Push did.
type Pushed struct {
	Manifest string // its address
	Files    int
	Size     int64    // bytes of the files
	Sent     int64    // bytes that were not there before
	Skipped  []string // what is no file, link or folder
}

// Push keeps what the patterns select of a folder, and a manifest of it. Links are kept as
// links and not followed. ErrInvalid: a file was changed meanwhile, or has a name that can't be kept.
func Push(ctx context.Context, to Blobs, tenant, dir string, o Options) (Pushed, error) {
	var p Pushed
	if err := o.Patterns.Check(); err != nil {
		return p, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return p, fmt.Errorf("push %s: %w", dir, err)
	}
	defer root.Close()
	entries, err := scan(root, o.Patterns, &p)
	if err == nil {
		err = hashAll(ctx, root, entries, &o)
	}
	if err == nil {
		err = send(ctx, to, tenant, root, entries, &o, &p)
	}
	if err != nil {
		return p, fmt.Errorf("push %s: %w", dir, err)
	}
	manifest, err := encode(entries)
	if err != nil {
		return p, fmt.Errorf("push %s: %w", dir, err)
	}
	p.Manifest = haulier.BlobAddress(manifest)
	if err := to.PutBlob(ctx, tenant, p.Manifest, bytes.NewReader(manifest)); err != nil {
		return p, fmt.Errorf("push %s: manifest: %w", dir, err)
	}
	return p, nil
}

// scan lists what is selected, in order, without the files' addresses.
func scan(root *os.Root, patterns Patterns, p *Pushed) ([]Entry, error) {
	var all []Entry
	inhabited := map[string]bool{} // folders that something is listed in
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." || !patterns.Select(name) {
			return err
		}
		if err := checkPath(name); err != nil {
			return fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
		}
		if len(all) >= haulier.MaxFiles {
			return fmt.Errorf("%w: more than %d files: select fewer by patterns", haulier.ErrTooLarge, haulier.MaxFiles)
		}
		e, err := look(root, name, d)
		if err != nil {
			return err
		}
		if e == nil {
			p.Skipped = append(p.Skipped, name)
			return nil
		}
		all = append(all, *e)
		for dir := name; strings.Contains(dir, "/"); {
			dir = dir[:strings.LastIndexByte(dir, '/')]
			inhabited[dir] = true
		}
		if !e.Dir {
			p.Files++
			p.Size += e.Size
		}
		return nil
	})
	all = slices.DeleteFunc(all, func(e Entry) bool { return e.Dir && inhabited[e.Path] })
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}

// look is the entry of a path; nil: it is nothing that can be kept.
func look(root *os.Root, name string, d fs.DirEntry) (*Entry, error) {
	info, err := d.Info()
	if err != nil {
		return nil, err
	}
	e := &Entry{Path: name, Mode: Mode(info.Mode().Perm())}
	switch {
	case d.IsDir():
		e.Dir = true
	case d.Type()&fs.ModeSymlink != 0:
		e.Mode = 0
		e.Link, err = root.Readlink(name)
	case d.Type().IsRegular():
		e.Size = info.Size()
	default:
		return nil, nil //nolint:nilnil // nothing and no error is what it says
	}
	return e, err
}

// file reports whether the entry has content.
func (e *Entry) file() bool { return !e.Dir && e.Link == "" }

// hashAll finds the files' addresses.
func hashAll(ctx context.Context, root *os.Root, entries []Entry, o *Options) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel())
	for i := range entries {
		e := &entries[i]
		if !e.file() {
			continue
		}
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			f, err := root.Open(e.Path)
			if err != nil {
				return err
			}
			defer f.Close()
			e.Blob, e.Size, err = addressOf(f)
			return err
		})
	}
	return g.Wait()
}

func addressOf(r io.Reader) (string, int64, error) {
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	return hex.EncodeToString(sum.Sum(nil)), n, err
}

// send puts the blobs that are missing.
func send(ctx context.Context, to Blobs, tenant string, root *os.Root, entries []Entry, o *Options, p *Pushed) error {
	where := map[string]*Entry{} // by address: one of the files with that content
	addrs := make([]string, 0, len(entries))
	for i := range entries {
		if e := &entries[i]; e.file() {
			if where[e.Blob] == nil {
				where[e.Blob] = e
				addrs = append(addrs, e.Blob)
			} else {
				o.progress(e.Size)
			}
		}
	}
	var sent atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.parallel())
	for some := range slices.Chunk(addrs, haulier.MaxAddresses) {
		missing, err := to.MissingBlobs(ctx, tenant, some)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		left := map[string]bool{}
		for _, a := range missing {
			left[a] = true
		}
		for _, a := range some {
			e := where[a]
			if !left[a] {
				o.progress(e.Size)
				continue
			}
			g.Go(func() error {
				f, err := root.Open(e.Path)
				if err != nil {
					return err
				}
				defer f.Close()
				if err := to.PutBlob(ctx, tenant, e.Blob, f); err != nil {
					return fmt.Errorf("%s: %w", e.Path, err)
				}
				sent.Add(e.Size)
				o.progress(e.Size)
				return nil
			})
		}
	}
	err := g.Wait()
	p.Sent = sent.Load()
	return err
}

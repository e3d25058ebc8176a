package wasi

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

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sync/semaphore"

	"github.com/haulier/haulier"
)

const (
	compileAtOnce = 2         // modules
	compileBy     = 2         // goroutines each
	maxWarm       = 256 << 20 // bytes of modules, before their compilation, that stay in memory unused
)

// modules are those that are compiled, and ready to be called.
type modules struct {
	x         *Executor
	dir       string // of the cache; empty: none
	cache     wazero.CompilationCache
	runtime   wazero.Runtime
	compiling *semaphore.Weighted

	mu    sync.Mutex
	known map[string]*module // by address
	bytes int64              // of all that are known
	turn  uint64             // grows with each use
}

// module is one that is compiled, or on its way to that.
type module struct {
	addr     string
	ready    chan struct{} // closed when what follows is set
	err      error
	compiled wazero.CompiledModule
	shape
	size int64 // bytes

	users int    // guarded by modules.mu
	used  uint64 // turn of the last use
}

func openModules(x *Executor, dir string) (*modules, error) {
	m := &modules{x: x, dir: dir, known: map[string]*module{}, compiling: semaphore.NewWeighted(compileAtOnce)}
	m.cache = wazero.NewCompilationCache()
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		var err error
		if m.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, err
		}
		if err := m.trimDisk(); err != nil {
			return nil, err
		}
	}
	var err error
	m.runtime, err = newRuntime(x.over, m.cache)
	return m, err
}

func (m *modules) close() error {
	ctx := context.WithoutCancel(m.x.over)
	return errors.Join(m.runtime.Close(ctx), m.cache.Close(ctx))
}

// get returns a module that is ready, and compiles it when it is not known. It is to be given back by done. The first that asks for a
// module begins the work; when that one is stopped, the work goes on for the others.
func (m *modules) get(ctx context.Context, tenant, addr string) (*module, error) {
	m.mu.Lock()
	v := m.known[addr]
	if v == nil {
		v = &module{addr: addr, ready: make(chan struct{})}
		m.known[addr] = v
		m.x.runs.Go(func() { m.load(v, tenant) })
	}
	m.turn++
	v.used = m.turn
	v.users++
	m.mu.Unlock()
	var err error
	select {
	case <-v.ready:
		err = v.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		m.done(v)
		return nil, err
	}
	return v, nil
}

// done gives back what get returned.
func (m *modules) done(v *module) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v.users--
	m.trim()
}

// trim forgets modules that nobody uses, the longest unused first, until the others are few enough. It is called with the lock held.
func (m *modules) trim() {
	for m.bytes > maxWarm {
		var oldest *module
		for _, v := range m.known {
			if v.users == 0 && v.compiled != nil && (oldest == nil || v.used < oldest.used) {
				oldest = v
			}
		}
		if oldest == nil {
			return
		}
		delete(m.known, oldest.addr)
		m.bytes -= oldest.size
		_ = oldest.compiled.Close(m.x.over) // it only frees memory
	}
}

// load fetches and compiles a module. One that fails is forgotten, so that the next attempt begins anew.
func (m *modules) load(v *module, tenant string) {
	defer close(v.ready)
	v.err = m.compile(v, tenant)
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.err != nil {
		delete(m.known, v.addr)
		return
	}
	m.bytes += v.size
}

func (m *modules) compile(v *module, tenant string) error {
	ctx := m.x.over
	if err := m.compiling.Acquire(ctx, 1); err != nil {
		return err
	}
	defer m.compiling.Release(1)
	var code []byte
	err := patiently(ctx, func() (err error) {
		code, err = m.fetch(ctx, tenant, v.addr)
		return err
	})
	if err != nil {
		return err
	}
	v.size = int64(len(code))
	if code, v.shape, err = inspect(code); err != nil {
		return err
	}
	compiled, err := m.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, compileBy), code)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: it can't be compiled: %w", haulier.ErrInvalid, err)
	}
	if err := check(compiled); err != nil {
		return errors.Join(err, compiled.Close(ctx))
	}
	v.compiled = compiled
	return m.trimDisk()
}

// fetch reads a module.
func (m *modules) fetch(ctx context.Context, tenant, addr string) ([]byte, error) {
	r, size, err := m.x.blobs.ReadBlob(ctx, tenant, addr, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxModule {
		return nil, fmt.Errorf("%w: it has %d bytes: at most %d", haulier.ErrTooLarge, size, maxModule)
	}
	return io.ReadAll(r)
}

// check finds what would only show when the module is called.
func check(c wazero.CompiledModule) error {
	if c.ExportedFunctions()["_start"] == nil {
		return fmt.Errorf("%w: it has no function _start: build a program and not a library", haulier.ErrInvalid)
	}
	for _, f := range c.ImportedFunctions() {
		if from, name, _ := f.Import(); from != "wasi_snapshot_preview1" {
			return fmt.Errorf("%w: it imports %s of %s, which is not of WASI preview 1", haulier.ErrInvalid, name, from)
		}
	}
	return nil
}

// trimDisk removes the oldest compiled modules from the disk, until the others are few enough.
func (m *modules) trimDisk() error {
	if m.dir == "" {
		return nil
	}
	type file struct {
		path string
		fs.FileInfo
	}
	var files []file
	var size int64
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err == nil {
			files, size = append(files, file{path, info}), size+info.Size()
		}
		return ignoreGone(err)
	})
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if size <= m.x.cfg.Cache {
			break
		}
		if err := ignoreGone(os.Remove(f.path)); err != nil {
			return err
		}
		size -= f.Size()
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

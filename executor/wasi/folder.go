package wasi

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/sys"
)

// folder is a module's files: the working folder and nothing else. Paths and links that lead out of it are refused at each step by
// os.Root, which the runtime's own folders do not do. A module runs on one goroutine, so nothing here is locked.
type folder struct {
	dir   string
	root  *os.Root // nil until the module asks for something
	err   error    // why there is none
	open  int
	spent int64 // bytes written
}

// begin makes the folder, unless it is there, and opens it.
func (d *folder) begin() esys.Errno {
	if d.root == nil && d.err == nil {
		if d.err = os.MkdirAll(d.dir, 0o700); d.err == nil {
			d.root, d.err = os.OpenRoot(d.dir)
		}
	}
	return errno(d.err)
}

func (d *folder) close() {
	if d.root != nil {
		d.root.Close()
	}
}

// errno is what the module is told of an error.
func errno(err error) esys.Errno {
	no := esys.UnwrapOSError(err)
	var p *fs.PathError
	if no == esys.EIO && errors.As(err, &p) && p.Err.Error() == "path escapes from parent" {
		return esys.EPERM
	}
	return no
}

// local is a path as os.Root takes it.
func local(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

var openFlags = []struct {
	wasi esys.Oflag
	os   int
}{
	{esys.O_APPEND, os.O_APPEND}, {esys.O_CREAT, os.O_CREATE}, {esys.O_EXCL, os.O_EXCL}, {esys.O_TRUNC, os.O_TRUNC}, {esys.O_SYNC, os.O_SYNC}, {esys.O_DSYNC, os.O_SYNC},
}

// OpenFile implements sys.FS.
func (d *folder) OpenFile(name string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	if no := d.begin(); no != 0 {
		return nil, no
	}
	if d.open >= maxFiles {
		return nil, esys.EAGAIN
	}
	how := os.O_RDONLY
	switch {
	case flag&esys.O_RDWR != 0:
		how = os.O_RDWR
	case flag&esys.O_WRONLY != 0:
		how = os.O_WRONLY
	}
	for _, f := range openFlags {
		if flag&f.wasi != 0 {
			how |= f.os
		}
	}
	if no := d.admit(name, flag); no != 0 {
		return nil, no
	}
	o := &opener{root: d.root, how: how, perm: perm & 0o777}
	f, no := (&sysfs.AdaptFS{FS: o}).OpenFile(local(name), flag, perm)
	if no != 0 {
		return nil, errno(o.err)
	}
	if is, no := f.IsDir(); no != 0 || !is && flag&esys.O_DIRECTORY != 0 {
		f.Close()
		return nil, max(no, esys.ENOTDIR)
	}
	d.open++
	return &file{File: f, of: d, f: o.file, name: local(name), add: flag&esys.O_APPEND != 0}, 0
}

// admit refuses links where they are not to be followed, and what is neither file nor folder: opening a pipe could block for ever.
func (d *folder) admit(name string, flag esys.Oflag) esys.Errno {
	look := d.root.Stat
	if flag&esys.O_NOFOLLOW != 0 {
		look = d.root.Lstat
	}
	info, err := look(local(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0
	case err != nil:
		return errno(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return esys.ELOOP
	case !info.IsDir() && !info.Mode().IsRegular():
		return esys.EPERM
	}
	return 0
}

// opener opens a file by the flags that it has, as the runtime's adapter asks; again, to read a folder from its beginning.
type opener struct {
	root *os.Root
	how  int
	perm fs.FileMode
	file *os.File
	err  error
}

// Open implements fs.FS.
func (o *opener) Open(name string) (fs.File, error) {
	f, err := o.root.OpenFile(name, o.how, o.perm)
	if o.err = err; err != nil {
		return nil, err
	}
	o.file = f
	return f, nil
}

// file is an open file. What it writes is counted.
type file struct {
	esys.File
	of     *folder
	f      *os.File
	name   string
	add    bool
	closed bool
}

// IsAppend implements sys.File.
func (f *file) IsAppend() bool { return f.add }

func (f *file) spend(n int64) esys.Errno {
	if f.of.spent += n; f.of.spent > maxDisk {
		return esys.EIO
	}
	return 0
}

// Write implements sys.File.
func (f *file) Write(b []byte) (int, esys.Errno) {
	if no := f.spend(int64(len(b))); no != 0 {
		return 0, no
	}
	return f.File.Write(b)
}

// Pwrite implements sys.File.
func (f *file) Pwrite(b []byte, at int64) (int, esys.Errno) {
	if no := f.spend(int64(len(b))); no != 0 {
		return 0, no
	}
	return f.File.Pwrite(b, at)
}

// Truncate implements sys.File.
func (f *file) Truncate(size int64) esys.Errno {
	if size < 0 {
		return esys.EINVAL
	}
	if size > maxDisk {
		return esys.EINVAL
	}
	return errno(f.f.Truncate(size))
}

// Sync implements sys.File. The folder is removed with the attempt, so nothing of it has to outlast a power cut.
func (*file) Sync() esys.Errno { return 0 }

// Datasync implements sys.File.
func (*file) Datasync() esys.Errno { return 0 }

// Utimens implements sys.File.
func (f *file) Utimens(atim, mtim int64) esys.Errno {
	return setTimes(atim, mtim, f.f.Stat, func(a, m time.Time) error { return f.of.root.Chtimes(f.name, a, m) })
}

// Close implements sys.File.
func (f *file) Close() esys.Errno {
	if !f.closed {
		f.closed = true
		f.of.open--
	}
	return f.File.Close()
}

// setTimes changes those of the two times that are given.
func setTimes(atim, mtim int64, stat func() (fs.FileInfo, error), set func(a, m time.Time) error) esys.Errno {
	if atim == esys.UTIME_OMIT && mtim == esys.UTIME_OMIT {
		return 0
	}
	info, err := stat()
	if err != nil {
		return errno(err)
	}
	was := sys.NewStat_t(info)
	if atim == esys.UTIME_OMIT {
		atim = was.Atim
	}
	if mtim == esys.UTIME_OMIT {
		mtim = was.Mtim
	}
	return errno(set(time.Unix(0, atim), time.Unix(0, mtim)))
}

// do carries out what has no other result, on the root.
func (d *folder) do(f func(*os.Root) error) esys.Errno {
	if no := d.begin(); no != 0 {
		return no
	}
	return errno(f(d.root))
}

// Lstat implements sys.FS.
func (d *folder) Lstat(name string) (st sys.Stat_t, no esys.Errno) {
	no = d.do(func(r *os.Root) error { return stat(&st)(r.Lstat(local(name))) })
	return st, no
}

// Stat implements sys.FS.
func (d *folder) Stat(name string) (st sys.Stat_t, no esys.Errno) {
	no = d.do(func(r *os.Root) error { return stat(&st)(r.Stat(local(name))) })
	return st, no
}

func stat(to *sys.Stat_t) func(fs.FileInfo, error) error {
	return func(info fs.FileInfo, err error) error {
		if err == nil {
			*to = sys.NewStat_t(info)
		}
		return err
	}
}

// Mkdir implements sys.FS.
func (d *folder) Mkdir(name string, perm fs.FileMode) esys.Errno {
	return d.do(func(r *os.Root) error { return r.Mkdir(local(name), perm&0o777) })
}

// Chmod implements sys.FS.
func (d *folder) Chmod(name string, perm fs.FileMode) esys.Errno {
	return d.do(func(r *os.Root) error { return r.Chmod(local(name), perm&0o777) })
}

// Rename implements sys.FS.
func (d *folder) Rename(from, to string) esys.Errno {
	return d.do(func(r *os.Root) error { return r.Rename(local(from), local(to)) })
}

// Rmdir implements sys.FS.
func (d *folder) Rmdir(name string) esys.Errno { return d.remove(name, true) }

// Unlink implements sys.FS.
func (d *folder) Unlink(name string) esys.Errno { return d.remove(name, false) }

func (d *folder) remove(name string, dir bool) esys.Errno {
	st, no := d.Lstat(name)
	switch is := st.Mode.IsDir(); {
	case no != 0:
		return no
	case dir && !is:
		return esys.ENOTDIR
	case !dir && is:
		return esys.EISDIR
	}
	return d.do(func(r *os.Root) error { return r.Remove(local(name)) })
}

// Link implements sys.FS.
func (d *folder) Link(from, to string) esys.Errno {
	return d.do(func(r *os.Root) error { return r.Link(local(from), local(to)) })
}

// Symlink implements sys.FS. Where a link leads is looked at when it is followed.
func (d *folder) Symlink(to, link string) esys.Errno {
	if path.IsAbs(to) {
		return esys.EPERM
	}
	return d.do(func(r *os.Root) error { return r.Symlink(to, local(link)) })
}

// Readlink implements sys.FS.
func (d *folder) Readlink(name string) (to string, no esys.Errno) {
	no = d.do(func(r *os.Root) (err error) {
		to, err = r.Readlink(local(name))
		return err
	})
	return to, no
}

// Utimens implements sys.FS.
func (d *folder) Utimens(name string, atim, mtim int64) esys.Errno {
	if no := d.begin(); no != 0 {
		return no
	}
	name = local(name)
	return setTimes(atim, mtim, func() (fs.FileInfo, error) { return d.root.Stat(name) }, func(a, m time.Time) error { return d.root.Chtimes(name, a, m) })
}

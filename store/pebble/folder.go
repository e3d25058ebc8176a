package pebble

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/haulier/haulier"
)

// A store's folder has, beside Pebble's files, a marker that says whose it is:
//
//	haulier store 1
//	ready
//
// The number is the version of the format. The second line is "new" until the store
// was made for the first time: only then may Pebble's files be missing.
const (
	markerName    = "HAULIER"
	markerTemp    = "HAULIER.tmp"
	lockName      = "LOCK"
	formatVersion = 1
	maxMarker     = 256
)

// folder is a store's folder, locked.
type folder struct {
	fs   vfs.FS
	dir  string
	made bool // it has been opened before
	lock *pdb.Lock
}

// openFolder finds out what dir is, without writing to what is not a store, and locks it.
func openFolder(fs vfs.FS, dir string) (*folder, error) {
	f := &folder{fs: fs, dir: dir}
	state, err := f.marker()
	if err != nil {
		return nil, err
	}
	if state == "" {
		if err := f.mustBeEmpty(); err != nil {
			return nil, err
		}
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
		}
	}
	if f.lock, err = pdb.LockDirectory(dir, fs); err != nil {
		return nil, fmt.Errorf("%w: another process has it open (%w); stop that one or choose another folder", haulier.ErrUnavailable, err)
	}
	// Whoever had the lock before may have made the store since the first look.
	if state, err = f.marker(); err == nil && state == "" {
		state, err = "new", f.mark("new")
	}
	if err != nil {
		return nil, errors.Join(err, f.lock.Close())
	}
	f.made = state == "ready"
	return f, nil
}

// marker returns the second line of the marker, "" when there is none.
func (f *folder) marker() (string, error) {
	file, err := f.fs.Open(f.fs.PathJoin(f.dir, markerName))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxMarker))
	if err != nil {
		return "", fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
	}
	return parseMarker(string(b))
}

func parseMarker(text string) (state string, err error) {
	var version int
	if _, err := fmt.Sscanf(text, "haulier store %d\n%s\n", &version, &state); err != nil {
		return "", fmt.Errorf("%w: its file %s is not as it should be; restore the folder from a copy", haulier.ErrCorrupt, markerName)
	}
	if version != formatVersion {
		return "", fmt.Errorf("%w: it has format %d, and this program knows %d; use the program that wrote it", haulier.ErrInvalid, version, formatVersion)
	}
	if state != "new" && state != "ready" {
		return "", fmt.Errorf("%w: its file %s is not as it should be; restore the folder from a copy", haulier.ErrCorrupt, markerName)
	}
	return state, nil
}

// mark writes the marker, at once as a whole.
func (f *folder) mark(state string) error {
	temp := f.fs.PathJoin(f.dir, markerTemp)
	file, err := f.fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = fmt.Fprintf(file, "haulier store %d\n%s\n", formatVersion, state)
		err = errors.Join(err, file.Sync(), file.Close())
	}
	if err == nil {
		err = f.fs.Rename(temp, f.fs.PathJoin(f.dir, markerName))
	}
	if err == nil {
		err = f.syncDir()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
	}
	return nil
}

func (f *folder) syncDir() error {
	d, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// mustBeEmpty refuses a folder with files of somebody else's.
func (f *folder) mustBeEmpty() error {
	names, err := f.fs.List(f.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	for _, name := range names {
		if name != lockName && name != markerTemp && name != "lost+found" && !strings.HasPrefix(name, ".DS_Store") {
			return fmt.Errorf("%w: it is not a store of Haulier and has other files, such as %s; choose a folder that is empty or does not exist",
				haulier.ErrInvalid, name)
		}
	}
	return nil
}

// absolute makes one folder have one name, by which its lock is known within the process.
func absolute(fs vfs.FS, dir string) (string, error) {
	if fs != vfs.Default {
		return dir, nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, nil
}

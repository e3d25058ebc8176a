package journal

import (
	"io"
	"os"
	"path/filepath"
)

// disk is what a journal needs of the file system. Tests put faults into it.
type disk interface {
	open(path string) (file, error) // for reading and writing; made when it is missing
	names(dir string) ([]string, error)
	remove(path string) error
	rename(from, to string) error
	syncDir(dir string) error
}

// file is an open file.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
}

// osDisk is the disk of this machine.
type osDisk struct{}

func (osDisk) open(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osDisk) names(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name()
	}
	return names, err
}

func (osDisk) remove(path string) error { return os.Remove(path) }

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

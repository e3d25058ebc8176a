package services

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk mounts a disk of its own at a folder, of a size such as 16m, until the test ends. Where that can't be done the test is skipped.
func SmallDisk(tb testing.TB, dir, size string) {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("mounting a small disk needs root")
	}
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		tb.Skip("this root may not mount a small disk (a container without CAP_SYS_ADMIN)")
	}
	if err != nil {
		tb.Fatal("mount: ", err)
	}
	tb.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			tb.Error("unmount: ", err)
		}
	})
}

// FillDisk writes a file to a folder until its disk is full. Removing the file makes room again.
func FillDisk(tb testing.TB, dir string) (file string) {
	tb.Helper()
	file = filepath.Join(dir, "filler")
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for b := make([]byte, size); err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			tb.Fatal("fill the disk: ", err)
		}
		err = nil
	}
	return file
}

package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/haulier/haulier"
)

// TestDiskFull gives the server a small disk of its own, fills it, and makes room again.
func TestDiskFull(t *testing.T) {
	s := newSite(t)
	s.smallDisk("size=64m")
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	s.serve()
	s.ready(ctx)
	before := s.fill(ctx)
	filler := s.stuff()
	more, err := s.enqueueUntilRefused(ctx)
	if !strings.Contains(err.Error(), "space") && !strings.Contains(err.Error(), "disk") && !s.server.ended() {
		t.Errorf("with a full disk, enqueue says %q; want that the disk is full", err)
	}
	if said := s.server.output(t); !strings.Contains(said, "space") {
		t.Errorf("the server's log does not say that the disk is full:\n%s", tail(said))
	}
	if s.isReady(ctx) {
		t.Error("the server says that it is ready")
	}
	s.await(ctx, "the server ends", s.server.ended)
	if code := s.server.cmd.ProcessState.ExitCode(); code <= 0 || !strings.Contains(s.server.output(t), "free disk space") {
		t.Errorf("it ended with code %d, and says:\n%s", code, tail(s.server.output(t)))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// As the error says: free space, then start again.
	s.serve()
	s.ready(ctx)
	if _, err := s.big(ctx); err != nil {
		t.Errorf("with room again, enqueue says: %v", err)
	}
	for _, id := range append(before, more...) {
		s.job(ctx, id)
	}
}

// smallDisk mounts a small file system at the data folder.
func (s *site) smallDisk(options string) {
	s.t.Helper()
	if os.Getuid() != 0 {
		s.t.Skip("mounting a small disk needs root")
	}
	if err := os.Mkdir(s.path("data"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", s.path("data"), "tmpfs", 0, options)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		s.t.Skip("this root may not mount a small disk (a container without CAP_SYS_ADMIN)")
	}
	if err != nil {
		s.t.Fatal("mount: ", err)
	}
	s.t.Cleanup(func() {
		s.server.kill()
		if err := syscall.Unmount(s.path("data"), syscall.MNT_DETACH); err != nil {
			s.t.Error("unmount: ", err)
		}
	})
}

// big enqueues a job with a payload of 48 KiB.
func (s *site) big(ctx context.Context) ([]haulier.ID, error) {
	spec := haulier.Spec{Type: "big", Payload: []byte(strings.Repeat("x", 48<<10))}
	results, err := s.client.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{spec}}})
	if err != nil {
		return nil, err
	}
	return results[0].IDs, results[0].Err
}

// fill enqueues a few jobs.
func (s *site) fill(ctx context.Context) []haulier.ID {
	s.t.Helper()
	var all []haulier.ID
	for range 5 {
		ids, err := s.big(ctx)
		if err != nil {
			s.t.Fatal("enqueue: ", err)
		}
		all = append(all, ids...)
	}
	return all
}

// stuff writes a file until the disk is full, and returns its name.
func (s *site) stuff() string {
	s.t.Helper()
	name := filepath.Join(s.path("data"), "filler")
	f, err := os.Create(name)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for b := make([]byte, size); err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			s.t.Fatal("fill the disk: ", err)
		}
		err = nil
	}
	return name
}

// enqueueUntilRefused enqueues until that fails; it returns what was acknowledged and the error.
func (s *site) enqueueUntilRefused(ctx context.Context) ([]haulier.ID, error) {
	s.t.Helper()
	var all []haulier.ID
	for range 10_000 {
		ids, err := s.big(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, ids...)
	}
	s.t.Fatal("a full disk took 10000 jobs")
	return nil, nil
}

package e2e_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/services"
)

// TestDiskFull gives the server a small disk of its own, fills it, and makes room again.
func TestDiskFull(t *testing.T) {
	s := newSite(t)
	s.smallDisk("64m")
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	s.serve()
	s.ready(ctx)
	before := s.fill(ctx)
	filler := services.FillDisk(t, s.path("data"))
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
func (s *site) smallDisk(size string) {
	s.t.Helper()
	if err := os.Mkdir(s.path("data"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	services.SmallDisk(s.t, s.path("data"), size)
	s.t.Cleanup(func() { s.server.kill() })
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

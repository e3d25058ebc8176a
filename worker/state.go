package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/haulier/haulier"
)

// state is the worker's state folder. A nil dir keeps nothing.
//
//	lock      held by the worker as long as it lives; holds its pid
//	session   the id of its session, for the next worker to resume
//
// Executors keep their own files there.
type state struct {
	dir  string
	lock *os.File
}

// lockState makes this worker the only one of the folder. ErrConflict: there is another.
func lockState(dir string) (*state, error) {
	if dir == "" {
		return &state{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(f.Name())
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("state folder %s: %w: another worker uses it (pid %s); stop that one, or give this one a folder of its own", dir, haulier.ErrConflict, strings.TrimSpace(string(pid)))
		}
		return nil, fmt.Errorf("state folder %s: lock: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintln(f, os.Getpid())
	}
	return &state{dir: dir, lock: f}, nil
}

func (s *state) unlock() {
	if s.lock != nil {
		s.lock.Close()
	}
}

func (s *state) path() string { return filepath.Join(s.dir, "session") }

// session is the id that was saved, or NilID.
func (s *state) session() haulier.ID {
	if s.dir == "" {
		return haulier.NilID
	}
	b, err := os.ReadFile(s.path())
	if err != nil {
		return haulier.NilID
	}
	id, err := haulier.ParseID(strings.TrimSpace(string(b)))
	if err != nil {
		return haulier.NilID // torn by a power cut, which no command survived either
	}
	return id
}

// save keeps the session's id for the next worker.
func (s *state) save(id haulier.ID) error {
	if s.dir == "" {
		return nil
	}
	tmp := s.path() + ".new"
	err := os.WriteFile(tmp, []byte(id.String()+"\n"), 0o600)
	if err == nil {
		err = os.Rename(tmp, s.path())
	}
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	return nil
}

// forget removes the id: the session was closed.
func (s *state) forget() {
	if s.dir != "" {
		os.Remove(s.path())
	}
}

package pebble

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// Jobs implements haulier.Store.
func (s *Store) Jobs(_ context.Context, ids []haulier.ID) ([]*haulier.Job, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	defer s.shown()
	jobs := make([]*haulier.Job, len(ids))
	if _, err := s.find(ids, jobs); err != nil {
		return nil, err
	}
	return jobs, nil
}

// find fills in the jobs with the ids, and returns the generation of which each of them is at least.
func (s *Store) find(ids []haulier.ID, jobs []*haulier.Job) (generation uint64, err error) {
	var missing []int
	var sessions []haulier.ID
	s.mu.Lock()
	generation = s.generation
	for i, id := range ids {
		j, session, found := s.look(id)
		if found {
			jobs[i] = j
			continue
		}
		missing = append(missing, i)
		sessions = append(sessions, session)
	}
	s.mu.Unlock()
	if len(missing) == 0 {
		return generation, nil
	}
	r := s.newJobReader(len(missing))
	defer r.close()
	for k, i := range missing {
		j, moved, err := r.readOwned(ids[i], sessions[k])
		if moved {
			j, err = s.findAgain(ids[i])
		}
		if err != nil {
			return 0, err
		}
		jobs[i] = j
	}
	return generation, nil
}

// look finds a job in memory as it is visible, or the session under which it
// stands on disk. The caller holds mu.
func (s *Store) look(id haulier.ID) (j *haulier.Job, session haulier.ID, found bool) {
	e := s.cache.byID[id]
	switch {
	case e == nil:
		return nil, s.owned[id], false
	case e.generation < s.generation:
		return e.job, haulier.NilID, true
	default:
		return e.before, haulier.NilID, e.known
	}
}

// findAgain reads a job that left its session between two looks.
func (s *Store) findAgain(id haulier.ID) (*haulier.Job, error) {
	for {
		s.mu.Lock()
		j, session, found := s.look(id)
		s.mu.Unlock()
		if found {
			return j, nil
		}
		if j, moved, err := s.readJob(id, session); !moved {
			return j, err
		}
	}
}

// readJob reads a job from disk: nil when there is none. moved: it is no longer with the session.
func (s *Store) readJob(id, session haulier.ID) (j *haulier.Job, moved bool, err error) {
	r := s.newJobReader(1)
	defer r.close()
	return r.readOwned(id, session)
}

// jobReader reads jobs from disk. When there are several, ascending ids are the cheapest.
type jobReader struct {
	s              *Store
	several        bool
	jobs, statuses *pdb.Iterator
}

// fewReads is up to how many single reads are cheaper than an iterator.
const fewReads = 4

func (s *Store) newJobReader(n int) *jobReader { return &jobReader{s: s, several: n > fewReads} }

func (r *jobReader) close() {
	for _, it := range []*pdb.Iterator{r.jobs, r.statuses} {
		if it != nil {
			it.Close()
		}
	}
}

// readOwned reads a job that belongs to the session, or to none when that is nil.
func (r *jobReader) readOwned(id, session haulier.ID) (j *haulier.Job, moved bool, err error) {
	if session.IsNil() {
		j, err = r.read(id, true)
		return j, false, err
	}
	if j, err = r.read(id, false); j == nil || err != nil {
		return nil, false, err
	}
	found, err := r.s.get(ownedKey(session, id), func(v []byte) error {
		if len(v) < 4 {
			return haulier.ErrCorrupt
		}
		return readStatus(j, v[4:])
	})
	return j, err == nil && !found, err
}

// read reads a job that belongs to no session; stored: its status may have a record of its own.
func (r *jobReader) read(id haulier.ID, stored bool) (*haulier.Job, error) {
	j := new(haulier.Job)
	found, err := r.get(&r.jobs, spaceJob, id, func(v []byte) error {
		err := wire.ReadJob(v, j)
		j.Payload, j.Result = bytes.Clone(j.Payload), bytes.Clone(j.Result)
		return err
	})
	if err != nil || !found {
		return nil, err
	}
	if stored {
		_, err = r.get(&r.statuses, spaceStatus, id, func(v []byte) error { return readStatus(j, v) })
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

func readStatus(j *haulier.Job, v []byte) error {
	j.Status = haulier.Status{}
	err := wire.ReadStatus(v, &j.Status)
	j.Result = bytes.Clone(j.Result)
	return err
}

// get calls f with the value of the id's key, which f must not keep.
func (r *jobReader) get(it **pdb.Iterator, space byte, id haulier.ID, f func([]byte) error) (found bool, err error) {
	key := idKey(space, id)
	if !r.several {
		return r.s.get(key, f)
	}
	if *it == nil {
		*it, err = r.s.db.NewIter(&pdb.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
		if err != nil {
			return false, corrupt(err)
		}
	}
	if !(*it).SeekGE(key) || !bytes.Equal((*it).Key(), key) {
		return false, corrupt((*it).Error())
	}
	return true, named(key, f((*it).Value()))
}

// get calls f with the value of a key, which f must not keep.
func (s *Store) get(key []byte, f func([]byte) error) (found bool, err error) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pdb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, corrupt(err)
	}
	defer closer.Close()
	return true, named(key, f(v))
}

func (s *Store) has(key []byte) (bool, error) {
	return s.get(key, func([]byte) error { return nil })
}

func named(key []byte, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("record %q: %w", key, err)
}

// corrupt translates an error of a read by Pebble.
func corrupt(err error) error {
	switch {
	case err == nil:
		return nil
	case pdb.IsCorruptionError(err):
		return damaged(err)
	default:
		return fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
	}
}

// damaged says what to do about an error of Pebble's, whose text may have several lines.
func damaged(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("%w: %s: restore the folder from a copy", haulier.ErrCorrupt, line)
}

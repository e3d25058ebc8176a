package mem

import (
	"context"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// Commit implements haulier.Store. A batch that names a job or document twice is
// ErrInvalid, since no driver need allow that.
func (s *Store) Commit(_ context.Context, b *haulier.Batch) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	changes, err := s.commit(b)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.tell(changes)
	return nil
}

func (s *Store) commit(b *haulier.Batch) ([]haulier.JobChange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := s.checkJobs(b); err != nil {
		return nil, err
	}
	if err := s.checkDocs(b.Docs); err != nil {
		return nil, err
	}
	changes := make([]haulier.JobChange, 0, len(b.Insert)+len(b.Update)+len(b.Delete))
	for i := range b.Insert {
		changes = append(changes, s.write(&haulier.Job{Spec: b.Insert[i].Spec, Status: b.Insert[i].Status}))
	}
	for i := range b.Update {
		u := &b.Update[i]
		changes = append(changes, s.write(&haulier.Job{Spec: s.jobs[u.Spec.ID].Spec, Status: u.Status}))
	}
	for _, d := range b.Delete {
		j := s.jobs[d.ID]
		s.remove(d.ID)
		changes = append(changes, haulier.JobChange{Spec: &j.Spec, Before: j.State})
	}
	for i := range b.Docs {
		s.writeDoc(&b.Docs[i])
	}
	if b.Tell {
		changes = append(changes, haulier.JobChange{})
	}
	return changes, nil
}

// write puts a job and says what that changed.
func (s *Store) write(j *haulier.Job) haulier.JobChange {
	c := haulier.JobChange{Spec: &j.Spec, Status: j.Status}
	if old := s.jobs[j.ID]; old != nil {
		c.Before = old.State
	}
	s.put(j)
	return c
}

func (s *Store) checkJobs(b *haulier.Batch) error {
	named := make(map[haulier.ID]bool, len(b.Insert)+len(b.Update)+len(b.Delete))
	expect := func(id haulier.ID, rev uint64) error {
		if named[id] {
			return fmt.Errorf("job %v: %w: the batch names it twice", id, haulier.ErrInvalid)
		}
		named[id] = true
		if j := s.jobs[id]; j == nil || j.Rev != rev {
			return fmt.Errorf("job %v: %w: it is not at revision %d", id, haulier.ErrConflict, rev)
		}
		return nil
	}
	for i := range b.Insert {
		id := b.Insert[i].ID
		if s.jobs[id] != nil || named[id] {
			// Without CheckIDs the caller has promised that this does not happen.
			return fmt.Errorf("job %v: %w: it exists", id, haulier.ErrConflict)
		}
		named[id] = true
	}
	for i := range b.Update {
		if err := expect(b.Update[i].Spec.ID, b.Update[i].Expect); err != nil {
			return err
		}
	}
	for _, d := range b.Delete {
		if err := expect(d.ID, d.Expect); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) checkDocs(writes []haulier.DocWrite) error {
	named := make(map[docKey]bool, len(writes))
	for i := range writes {
		w := &writes[i]
		key := docKey{w.Kind, w.Key}
		if named[key] {
			return fmt.Errorf("document %s %s: %w: the batch names it twice", w.Kind, w.Key, haulier.ErrInvalid)
		}
		named[key] = true
		// A document that is not there has Rev 0.
		if w.Expect != haulier.AnyRev && s.docs[key].Rev != w.Expect {
			return fmt.Errorf("document %s %s: %w: it is not at revision %d", w.Kind, w.Key, haulier.ErrConflict, w.Expect)
		}
		if w.Kind == haulier.DocSession {
			if _, err := haulier.ParseID(w.Key); err != nil {
				return fmt.Errorf("document %s: %w", w.Kind, err)
			}
		}
	}
	return nil
}

func (s *Store) writeDoc(w *haulier.DocWrite) {
	key := docKey{w.Kind, w.Key}
	session, _ := haulier.ParseID(w.Key)
	if w.Value == nil {
		delete(s.docs, key)
		if w.Kind == haulier.DocSession {
			delete(s.leases, session)
		}
		return
	}
	s.docs[key] = haulier.Doc{Kind: w.Kind, Key: w.Key, Rev: s.docs[key].Rev + 1, Value: w.Value}
	if w.Kind == haulier.DocSession {
		s.leases[session] = time.Now().Add(w.Lease)
	}
}

// Claim implements haulier.Store.
func (s *Store) Claim(_ context.Context, session haulier.ID, by string, takes []haulier.Take) ([]haulier.Job, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	jobs, changes, err := s.claim(session, by, takes)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	s.tell(changes)
	return jobs, nil
}

func (s *Store) claim(session haulier.ID, by string, takes []haulier.Take) (jobs []haulier.Job, changes []haulier.JobChange, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, nil, err
	}
	if err := s.live(session); err != nil {
		return nil, nil, err
	}
	for _, t := range takes {
		at := place{state: haulier.Pending, lane: t.Lane, priority: t.Priority}
		for range t.N {
			line := s.lines[at]
			if line == nil {
				break
			}
			old := s.jobs[line.entries[0].id]
			next, err := old.Next(haulier.Event{Kind: haulier.EventClaim, Session: session, By: by}, time.Now())
			if err != nil {
				return nil, nil, err // a pending job always admits a claim
			}
			j := &haulier.Job{Spec: old.Spec, Status: next}
			changes = append(changes, s.write(j))
			jobs = append(jobs, *j)
		}
	}
	return jobs, changes, nil
}

// Renew implements haulier.Store.
func (s *Store) Renew(_ context.Context, session haulier.ID, ttl time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	if err := s.live(session); err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	s.leases[session] = time.Now().Add(ttl)
	return nil
}

// live is ErrLeaseLost when there is no such session.
func (s *Store) live(session haulier.ID) error {
	if _, ok := s.leases[session]; !ok {
		return fmt.Errorf("session %v: %w: there is no such session; open a new one", session, haulier.ErrLeaseLost)
	}
	return nil
}

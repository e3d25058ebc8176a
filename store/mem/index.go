package mem

import (
	"bytes"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// place names the line that a job stands in. There is one for each state, and
// within it for what the state's index orders by before time and id:
//
//	pending             lane, priority
//	scheduled, blocked  -
//	claimed, running    session (as one state: Claimed)
//	terminal            lane
type place struct {
	state    haulier.State
	lane     haulier.Lane
	priority int
	session  haulier.ID
}

// entry is a job in a line.
type entry struct {
	at time.Time // RunAt, PurgeAt, or zero where the id alone orders
	id haulier.ID
}

// stand is where a job stands.
func stand(j *haulier.Job) (place, entry) {
	switch {
	case j.State == haulier.Pending:
		return place{state: haulier.Pending, lane: j.Lane(), priority: j.Priority}, entry{j.Status.RunAt, j.ID}
	case j.State == haulier.Scheduled:
		return place{state: haulier.Scheduled}, entry{j.Status.RunAt, j.ID}
	case j.State.Owned():
		return place{state: haulier.Claimed, session: j.Session}, entry{id: j.ID}
	case j.State.Terminal():
		return place{state: j.State, lane: j.Lane()}, entry{j.PurgeAt, j.ID}
	}
	return place{state: haulier.Blocked}, entry{id: j.ID}
}

// line is a list of jobs by time, then id.
type line struct{ entries []entry }

func compareEntries(a, b entry) int {
	if c := a.at.Compare(b.at); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

func (l *line) add(e entry) {
	i, _ := slices.BinarySearchFunc(l.entries, e, compareEntries)
	l.entries = slices.Insert(l.entries, i, e)
}

func (l *line) remove(e entry) {
	i, found := slices.BinarySearchFunc(l.entries, e, compareEntries)
	switch {
	case !found:
		panic("mem: a job does not stand where it should")
	case i == 0: // the usual case, which must not move all the others
		l.entries = l.entries[1:]
	default:
		l.entries = slices.Delete(l.entries, i, i+1)
	}
}

// put makes j the job of its id, in place of what was there. The caller holds mu.
func (s *Store) put(j *haulier.Job) {
	if !s.drop(j.ID) {
		s.all.add(entry{id: j.ID})
	}
	at, e := stand(j)
	if s.lines[at] == nil {
		s.lines[at] = &line{}
	}
	s.lines[at].add(e)
	s.counts[tally{j.Lane(), j.State}]++
	s.jobs[j.ID] = j
}

// remove forgets a job. The caller holds mu.
func (s *Store) remove(id haulier.ID) {
	if s.drop(id) {
		s.all.remove(entry{id: id})
		delete(s.jobs, id)
	}
}

// drop takes a job out of its line and count, if there is one.
func (s *Store) drop(id haulier.ID) bool {
	j := s.jobs[id]
	if j == nil {
		return false
	}
	at, e := stand(j)
	s.lines[at].remove(e)
	if len(s.lines[at].entries) == 0 {
		delete(s.lines, at)
	}
	s.counts[tally{j.Lane(), j.State}]--
	return true
}

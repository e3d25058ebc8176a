package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/haulier/haulier"
)

// removed stands for the state of a job that is gone.
const removed haulier.State = 0xff

// tally counts the jobs of a map by state. Safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	jobs     map[haulier.ID]tallied
	n        map[haulier.State]int // of jobs that are ours
	total    int
	repeated int
	isAll    bool // total will not grow
}

type tallied struct {
	state haulier.State
	ours  bool // it is of our lines: events may come of others, and before the id is known
	final bool // what events still say is old
}

func newTally() *tally {
	return &tally{jobs: map[haulier.ID]tallied{}, n: map[haulier.State]int{}}
}

// known takes a job among ours.
func (t *tally) known(id haulier.ID, repeated bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.jobs[id]
	if j.ours {
		return
	}
	if j.state == 0 {
		j.state = haulier.Pending
	}
	j.ours = true
	t.jobs[id] = j
	t.n[j.state]++
	t.total++
	if repeated {
		t.repeated++
	}
}

// seen notes a job's state, as an event or a look tells; zero: it is gone.
func (t *tally) seen(id haulier.ID, s haulier.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(id, s, false)
}

// final notes how a job ended; nil: it is gone.
func (t *tally) final(id haulier.ID, j *haulier.Job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := removed
	if j != nil {
		s = j.State
	}
	t.set(id, s, true)
}

func (t *tally) set(id haulier.ID, s haulier.State, final bool) {
	j := t.jobs[id]
	if j.final && !final {
		return
	}
	if s == 0 {
		s = removed
	}
	if j.ours {
		t.n[j.state]--
		t.n[s]++
	}
	j.state, j.final = s, final
	t.jobs[id] = j
}

// complete notes that all jobs are known.
func (t *tally) complete() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isAll = true
}

// unended lists our jobs that have not ended, as far as is known.
func (t *tally) unended() []haulier.ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []haulier.ID
	for id, j := range t.jobs {
		if j.ours && !j.state.Terminal() {
			ids = append(ids, id)
		}
	}
	return ids
}

// waiting is one of our jobs when all that have not ended wait to be claimed; otherwise it is nil.
func (t *tally) waiting() (one haulier.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, j := range t.jobs {
		if !j.ours || j.state.Terminal() {
			continue
		}
		if j.state != haulier.Pending {
			return haulier.NilID
		}
		one = id
	}
	return one
}

// counted is a tally at one moment.
type counted struct {
	total, repeated, ended int
	all                    bool
	states                 map[haulier.State]int
}

func (t *tally) counts() counted {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := counted{total: t.total, repeated: t.repeated, all: t.isAll, states: map[haulier.State]int{}}
	for s, n := range t.n {
		if n == 0 {
			continue
		}
		c.states[s] = n
		if s.Terminal() {
			c.ended += n
		}
	}
	return c
}

// unhappy is how many jobs ended otherwise than well.
func (c *counted) unhappy() int { return c.ended - c.states[haulier.Succeeded] }

// names are the counts by the states' names.
func (c *counted) names() map[string]int {
	out := map[string]int{}
	for s, n := range c.states {
		out[stateName(s)] = n
	}
	return out
}

// words are the counts as people read them.
func (c *counted) words() string {
	var parts []string
	for _, s := range append(append([]haulier.State{}, haulier.States...), removed) {
		if n := c.states[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, stateName(s)))
		}
	}
	if len(parts) == 0 {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

func stateName(s haulier.State) string {
	if s == removed {
		return "removed"
	}
	return s.String()
}

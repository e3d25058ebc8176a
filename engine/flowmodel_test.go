package engine_test

import (
	"cmp"
	"slices"

	"github.com/haulier/haulier"
)

// phase is a job's state as far as others are concerned.
type phase string

const (
	waits     phase = "waits" // for jobs that it needs
	ready     phase = "ready" // to run, when a key and a worker are free
	runs      phase = "runs"  // claimed or running
	succeeded phase = "succeeded"
	failed    phase = "failed"
	cancelled phase = "cancelled"
	collapsed phase = "collapsed"
)

func phaseOf(j *haulier.Job) phase {
	switch j.State {
	case haulier.Blocked:
		if j.Gate == "" {
			return waits
		}
		return ready
	case haulier.Scheduled, haulier.Pending:
		return ready
	case haulier.Claimed, haulier.Running:
		return runs
	case haulier.Succeeded:
		return succeeded
	case haulier.Failed:
		return failed
	case haulier.Cancelled:
		return cancelled
	}
	return collapsed
}

func (p phase) ended() bool   { return p != waits && p != ready && p != runs }
func (p phase) waiting() bool { return p == waits || p == ready }

// meets reports whether an end is what a need asks for.
func (p phase) meets(on haulier.Condition) bool {
	switch on {
	case haulier.OnFailed:
		return p == failed || p == cancelled
	case haulier.OnFinished:
		return p == succeeded || p == failed || p == cancelled
	case impossible:
		return false
	}
	return p == succeeded
}

const impossible haulier.Condition = "impossible"

// modelJob is a job as the model sees it.
type modelJob struct {
	id       haulier.ID
	age      int // newer jobs have more
	flow     haulier.Flow
	none     bool // nothing to run
	phase    phase
	links    []*link // needs that are not met
	survivor *modelJob
	byNeed   bool // cancelled for the sake of a job that it needs
}

// link is a need that is not met.
type link struct {
	parent *modelJob
	on     haulier.Condition
	barred bool // the parent has ended otherwise
}

func (j *modelJob) barred() (n int) {
	for _, l := range j.links {
		if l.barred {
			n++
		}
	}
	return n
}

// model is flow as docs/flow.md tells it, carried out at once and in memory: no
// commits, no documents, no effects that come later. Keys are left out: whatever waits at one is ready.
type model struct {
	jobs   []*modelJob // by age
	byID   map[haulier.ID]*modelJob
	newest map[string]*modelJob // of collapse keys
	owner  map[string]*modelJob // of unique keys
	rest   []func()             // what changes mean for others, still to be carried out
}

// run carries out what changes mean for others: first what the latest of them brought.
func (m *model) run() {
	for len(m.rest) > 0 {
		f, others := m.rest[0], m.rest[1:]
		m.rest = nil
		f()
		m.rest = append(m.rest, others...)
	}
}

func (m *model) later(f func()) { m.rest = append(m.rest, f) }

func newModel() *model {
	return &model{byID: map[haulier.ID]*modelJob{}, newest: map[string]*modelJob{}, owner: map[string]*modelJob{}}
}

func (j *modelJob) last() *modelJob {
	for j != nil && j.phase == collapsed {
		j = j.survivor
	}
	return j
}

// keeps reports whether a job keeps others of its unique key out.
func (j *modelJob) keeps() bool {
	if j.flow.Unique.Scope == haulier.UniqueActive {
		return !j.phase.ended()
	}
	return j.phase.waiting()
}

// taken is who else has j's unique key.
func (m *model) taken(j *modelJob) *modelJob {
	if j.flow.Unique == nil {
		return nil
	}
	if o := m.owner[j.flow.Unique.Key]; o != nil && o != j && o.keeps() {
		return o
	}
	return nil
}

// add adds the jobs of a request; it returns who answers for each, nil: the whole request is refused.
func (m *model) add(specs []haulier.Spec) []*modelJob {
	out := make([]*modelJob, len(specs))
	defer m.run()
	var fresh []*modelJob
	refs := map[string]*modelJob{}
	for i := range specs {
		j := &modelJob{flow: *specs[i].Flow, none: specs[i].Task.None != nil, phase: ready, age: len(m.jobs) + len(fresh)}
		out[i] = j
		if o := m.taken(j); o != nil {
			switch {
			case j.flow.Unique.Duplicate == haulier.DuplicateReject:
				return nil
			case j.flow.Unique.Duplicate != haulier.DuplicateReplace || !o.phase.waiting() || slices.Contains(fresh, o):
				out[i] = o
				refs[j.flow.Ref] = o
				continue
			}
			m.end(o, cancelled)
		}
		if j.flow.Unique != nil {
			m.owner[j.flow.Unique.Key] = j
		}
		refs[j.flow.Ref] = j
		fresh = append(fresh, j)
		if j.none && len(j.flow.Needs) == 0 {
			j.phase = succeeded
		}
	}
	m.jobs = append(m.jobs, fresh...)
	for _, j := range fresh {
		if !j.phase.ended() {
			m.tie(j, refs)
		}
	}
	for _, j := range fresh {
		if j.flow.Collapse != "" && j.phase != cancelled {
			m.collapse(j)
		}
	}
	return out
}

// tie ties a new job to those that it needs.
func (m *model) tie(j *modelJob, refs map[string]*modelJob) {
	for _, n := range j.flow.Needs {
		p := refs[n.Ref]
		if n.Ref == "" {
			p = m.byID[n.Job]
		}
		m.link(j, p.last(), cmp.Or(n.On, haulier.OnSucceeded))
	}
	for _, l := range slices.Clone(j.links) {
		switch {
		case l.parent.phase.meets(l.on):
			j.drop(l)
		case l.parent.phase.ended():
			l.barred = true
		}
	}
	if len(j.links) > 0 {
		j.phase = waits
	}
	m.settle(j)
}

// link makes j need a job, perhaps for the second time.
func (m *model) link(j, parent *modelJob, on haulier.Condition) *link {
	for _, l := range j.links {
		if l.parent == parent {
			l.on = both(l.on, on)
			return l
		}
	}
	l := &link{parent: parent, on: on}
	j.links = append(j.links, l)
	return l
}

func both(a, b haulier.Condition) haulier.Condition {
	switch {
	case a == b, a == haulier.OnFinished:
		return b
	case b == haulier.OnFinished:
		return a
	}
	return impossible
}

func (j *modelJob) drop(l *link) {
	j.links = slices.DeleteFunc(j.links, func(x *link) bool { return x == l })
}

// settle brings a job into line with its needs.
func (m *model) settle(j *modelJob) {
	switch {
	case j.phase.waiting() && j.barred() > 0:
		j.byNeed = true
		m.end(j, cancelled)
	case j.phase == cancelled && j.byNeed && j.barred() == 0:
		if m.taken(j) == nil {
			m.again(j)
		}
	case j.phase == waits && len(j.links) == 0:
		j.phase = ready
		m.settle(j)
	case j.phase == ready && j.none:
		m.end(j, succeeded)
	}
}

// children are those that need p, by age.
func (m *model) children(p *modelJob) map[*modelJob]*link {
	out := map[*modelJob]*link{}
	for _, j := range m.jobs {
		for _, l := range j.links {
			if l.parent == p {
				out[j] = l
			}
		}
	}
	return out
}

func (m *model) eachChild(p *modelJob, f func(*modelJob, *link)) {
	of := m.children(p)
	for _, j := range m.jobs {
		if l := of[j]; l != nil {
			f(j, l)
			m.settle(j)
		}
	}
}

// end ends a job; those that need it are told.
func (m *model) end(j *modelJob, p phase) {
	j.phase = p
	if p != cancelled {
		j.byNeed = false
	}
	m.later(func() { m.tell(j) })
}

// tell brings those that need a job into line with its phase.
func (m *model) tell(j *modelJob) {
	m.eachChild(j, func(child *modelJob, l *link) {
		switch {
		case child.phase == collapsed || j.phase == collapsed:
		case j.phase.meets(l.on):
			child.drop(l)
		default:
			l.barred = j.phase.ended()
		}
	})
}

// again lets an ended job run once more, and those come back that its end cancelled.
func (m *model) again(j *modelJob) {
	j.phase, j.byNeed = ready, false
	if len(j.links) > 0 {
		j.phase = waits
	}
	if j.flow.Unique != nil {
		m.owner[j.flow.Unique.Key] = j
	}
	if m.outrun(j); j.phase.ended() {
		return
	}
	m.settle(j)
	m.later(func() { m.tell(j) })
}

// retry is again by hand; false: it is refused.
func (m *model) retry(j *modelJob) bool {
	if j.barred() > 0 || m.taken(j) != nil {
		return false
	}
	if slices.ContainsFunc(m.rivals(j), func(r *modelJob) bool { return r.phase.waiting() }) {
		return false
	}
	m.again(j)
	m.run()
	return true
}

// collapse makes j the newest of its key: those that wait are replaced by it.
func (m *model) collapse(j *modelJob) {
	m.newest[j.flow.Collapse] = j
	for _, old := range m.jobs {
		if old.age < j.age && old.flow.Collapse == j.flow.Collapse && old.phase.waiting() {
			m.replace(old, j)
		}
	}
}

// outrun looks whether a job that waits again has been replaced meanwhile.
func (m *model) outrun(j *modelJob) {
	if j.flow.Collapse == "" || !j.phase.waiting() {
		return
	}
	if n := m.newest[j.flow.Collapse].last(); n == nil || n.age <= j.age {
		m.collapse(j)
		return
	}
	for _, r := range m.rivals(j) {
		if m.replace(j, r); j.phase == collapsed {
			return
		}
	}
}

// rivals are the newer jobs that make j superfluous, the newest first.
func (m *model) rivals(j *modelJob) (out []*modelJob) {
	if j.flow.Collapse == "" {
		return nil
	}
	n := m.newest[j.flow.Collapse].last()
	for _, r := range slices.Backward(m.jobs) {
		if r.flow.Collapse == j.flow.Collapse && r.age > j.age && (!r.phase.ended() || r == n && r.phase == succeeded) {
			out = append(out, r)
		}
	}
	return out
}

// replace ends old in favour of by, which takes over those that need it, unless by waits for it.
func (m *model) replace(old, by *modelJob) {
	if m.needs(by, old) {
		return
	}
	old.phase, old.survivor = collapsed, by
	m.later(func() {
		by := by.last()
		m.eachChild(old, func(child *modelJob, l *link) {
			child.drop(l)
			if moved := m.link(child, by, l.on); by.phase.meets(moved.on) {
				child.drop(moved)
			} else {
				moved.barred = by.phase.ended()
			}
		})
	})
}

// needs reports whether j waits for other, be it by way of others.
func (m *model) needs(j, other *modelJob) bool {
	if j.phase.ended() {
		return false
	}
	return slices.ContainsFunc(j.links, func(l *link) bool {
		p := l.parent.last()
		return p == other || m.needs(p, other)
	})
}

package workflow

import (
	"fmt"

	"github.com/haulier/haulier"
)

// node is a job of a run: a permutation of one of the text, or a meeting point.
type node struct {
	job   *job // nil: a meeting point
	perm  []string
	ref   string // Flow.Ref
	name  string // for people
	needs []need
}

// need is a node that comes before, by its place in the plan.
type need struct {
	node int
	on   haulier.Condition
}

// planner makes the nodes of the jobs that are in.
type planner struct {
	nodes []node
	at    map[*job]int // first node of the job
}

// plan multiplies the jobs out and ties them together; each node comes after those it needs.
func (w *Workflow) plan(in func(*job) bool) []node {
	p := &planner{at: map[*job]int{}}
	wait := map[*job][]need{}
	for _, s := range w.order {
		if s.link != nil {
			p.tie(s.link, in, wait)
			continue
		}
		if in(s.job) {
			p.add(s.job, wait[s.job])
			delete(wait, s.job)
		}
	}
	return p.nodes
}

// add makes the nodes of a job.
func (p *planner) add(j *job, needs []need) {
	p.at[j] = len(p.nodes)
	needs = distinct(needs)
	for _, perm := range j.perms {
		n := node{job: j, perm: perm, ref: j.name + j.suffix(perm), name: j.name, needs: needs}
		if len(perm) > 0 {
			n.name = fmt.Sprintf("%s[%s]", j.name, j.shown(perm))
		}
		p.nodes = append(p.nodes, n)
	}
}

// distinct drops what is needed twice, as by the order and by requires.
func distinct(needs []need) []need {
	seen := make(map[int]bool, len(needs))
	out := needs[:0]
	for _, n := range needs {
		if !seen[n.node] {
			seen[n.node] = true
			out = append(out, n)
		}
	}
	return out
}

// tie notes what the jobs of l.to need. The jobs of l.from have their nodes.
func (p *planner) tie(l *link, in func(*job) bool, wait map[*job][]need) {
	var from []int
	for _, j := range l.from {
		if in(j) {
			for i := range j.perms {
				from = append(from, p.at[j]+i)
			}
		}
	}
	for _, when := range conditions {
		to := 0
		for _, j := range l.to {
			if in(j) && j.when == when {
				to += len(j.perms)
			}
		}
		needs := p.before(l, from, to, when)
		for _, j := range l.to {
			if in(j) && j.when == when {
				wait[j] = append(wait[j], needs...)
			}
		}
	}
}

// before is what each of to jobs needs of the nodes from: all of them, or the point where they meet.
func (p *planner) before(l *link, from []int, to int, when haulier.Condition) []need {
	if !meets(len(from), to, when) {
		return all(from, when)
	}
	ref := l.meeting(when)
	on, then := haulier.OnSucceeded, haulier.OnSucceeded // of the meeting point, and of those that need it
	switch when {
	case haulier.OnFailed:
		then = haulier.OnFailed
	case haulier.OnFinished:
		on = haulier.OnFinished
	}
	p.nodes = append(p.nodes, node{ref: ref, name: ref, needs: all(from, on)})
	return []need{{len(p.nodes) - 1, then}}
}

func all(from []int, on haulier.Condition) []need {
	out := make([]need, len(from))
	for i, n := range from {
		out[i] = need{n, on}
	}
	return out
}

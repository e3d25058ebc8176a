package workflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/haulier/haulier"
)

// link says that all jobs of to come after all jobs of from. There is one for each set of from.
type link struct {
	n        int // its place in Workflow.links, from 1
	from, to []*job
}

// step is a job or a link, in the order of Workflow.order.
type step struct {
	job  *job
	link *link
}

// join makes one link of those that come from the same jobs.
func join(raw []rawLink) []*link {
	at := map[string]*link{}
	var out []*link
	for _, r := range raw {
		names := make([]string, len(r.from))
		for i, j := range r.from {
			names[i] = j.name
		}
		slices.Sort(names)
		key := strings.Join(names, " ")
		l := at[key]
		if l == nil {
			l = &link{n: len(out) + 1, from: r.from}
			at[key] = l
			out = append(out, l)
		}
		for _, j := range r.to {
			if !slices.Contains(l.to, j) {
				l.to = append(l.to, j)
			}
		}
	}
	return out
}

// sort puts jobs and links into an order in which each comes after what it waits for. Nil: there is none, which was told.
func (b *builder) sort() []step {
	waits := map[*job]int{}         // links to come
	leads := make(map[*job][]*link) // links from the job
	left := make(map[*link]int, 0)  // jobs to come
	out := make([]step, 0, len(b.w.jobs)+len(b.w.links))
	for _, l := range b.w.links {
		left[l] = len(l.from)
		for _, j := range l.from {
			leads[j] = append(leads[j], l)
		}
		for _, j := range l.to {
			waits[j]++
		}
	}
	var ready []*job
	for _, j := range b.w.jobs {
		if waits[j] == 0 {
			ready = append(ready, j)
		}
	}
	done := 0
	for ; done < len(ready); done++ {
		j := ready[done]
		out = append(out, step{job: j})
		for _, l := range leads[j] {
			if left[l]--; left[l] > 0 {
				continue
			}
			out = append(out, step{link: l})
			for _, next := range l.to {
				if waits[next]--; waits[next] == 0 {
					ready = append(ready, next)
				}
			}
		}
	}
	if done < len(b.w.jobs) {
		b.cycle(waits)
		return nil
	}
	return out
}

// cycle tells of a circle among the jobs that still wait.
func (b *builder) cycle(waits map[*job]int) {
	before := map[*job]*job{} // one that each still waits for
	for _, l := range b.w.links {
		for _, j := range l.from {
			if waits[j] == 0 {
				continue
			}
			for _, next := range l.to {
				before[next] = j
			}
			break
		}
	}
	var at *job
	for _, j := range b.w.jobs {
		if waits[j] > 0 {
			at = j
			break
		}
	}
	for range b.w.jobs { // now it is within the circle, not before it
		at = before[at]
	}
	circle := []string{at.name}
	for j := before[at]; j != at; j = before[j] {
		circle = append(circle, j.name)
	}
	circle = append(circle, at.name)
	slices.Reverse(circle)
	place := at.at
	for j, first := at, true; first || j != at; j, first = before[j], false {
		for _, n := range j.requires {
			if n.Value == before[j].name {
				place = position{n.Line, n.Column}
			}
		}
	}
	if len(circle) > 12 {
		circle = append(append(circle[:6:6], "…"), circle[len(circle)-5:]...)
	}
	b.failAt(place, "the jobs wait for each other in a cycle, %s: take one of the names out of requires", strings.Join(circle, " → "))
}

// directNeeds is up to how many needs between two sets of jobs are written
// out, so that each job gets the results of those before it. With more the sets meet in a job without a task.
const directNeeds = 64

// meets reports whether so many jobs meet in a job without a task before the others start.
func meets(from, to int, when haulier.Condition) bool {
	if from < 2 || to < 1 {
		return false
	}
	// That one of several has failed is told by the meeting point, which fails with it.
	return when == haulier.OnFailed || to > 1 && from*to > directNeeds
}

// conditions in a fixed order.
var conditions = []haulier.Condition{haulier.OnSucceeded, haulier.OnFailed, haulier.OnFinished}

// meeting names the job in which the jobs of a link meet.
func (l *link) meeting(when haulier.Condition) string {
	name := "meet." + strconv.Itoa(l.n)
	if when != haulier.OnSucceeded {
		name += "." + string(when)
	}
	return name
}

// weight is what a workflow comes to.
type weight struct{ nodes, needs, bytes int }

// weigh counts without making anything.
func (w *Workflow) weigh() (c weight) {
	for _, j := range w.jobs {
		c.nodes += len(j.perms)
		c.bytes += len(j.perms) * j.size()
	}
	for _, l := range w.links {
		from := 0
		for _, j := range l.from {
			from += len(j.perms)
		}
		for _, when := range conditions {
			to := 0
			for _, j := range l.to {
				if j.when == when {
					to += len(j.perms)
				}
			}
			if meets(from, to, when) {
				c.nodes, c.needs = c.nodes+1, c.needs+from+to
			} else {
				c.needs += from * to
			}
		}
	}
	return c
}

package workflow

import (
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// builder puts the jobs of a workflow into their order.
type builder struct {
	*reader
	w    *Workflow
	used map[*job]int // line at which the job stands in the order
	raw  []rawLink
}

// rawLink says that all jobs of to come after all of from.
type rawLink struct{ from, to []*job }

// jobs reads the mapping of that name.
func (b *builder) jobs(n *yaml.Node) {
	for _, p := range b.pairs(n, "jobs") {
		if len(b.w.jobs) == MaxJobs {
			b.fail(p.node, "there are more than %d jobs: split the workflow", MaxJobs)
			return
		}
		if why := badName(p.key, ""); why != "" {
			b.fail(p.node, "the job's name %s", why)
			continue
		}
		b.add(b.job(p.key, p.node, p.value))
	}
}

func (b *builder) add(j *job) {
	b.w.jobs = append(b.w.jobs, j)
	b.w.byName[j.name] = j
}

// steps reads the list called workflow.
func (b *builder) steps(n *yaml.Node) {
	// Once a job says what it runs, one that is not described is more likely a slip of the pen than a function.
	known := slices.ContainsFunc(b.w.jobs, func(j *job) bool { return j.described })
	b.sequence(n, "workflow", !known)
}

// ends are the jobs with which a step begins, and those with which it ends.
type ends struct{ first, last []*job }

// sequence reads steps of which each comes after the one before.
func (b *builder) sequence(n *yaml.Node, what string, create bool) (e ends) {
	for _, c := range b.list(n, what) {
		s := b.step(c, create)
		if len(s.first) == 0 {
			continue // told already
		}
		if len(e.last) > 0 {
			b.raw = append(b.raw, rawLink{e.last, s.first})
		} else {
			e.first = s.first
		}
		e.last = s.last
	}
	return e
}

// step reads a job's name, a sequence, or a parallel.
func (b *builder) step(n *yaml.Node, create bool) (e ends) {
	switch n.Kind {
	case yaml.SequenceNode:
		return b.sequence(n, "a sequence", create)
	case yaml.MappingNode:
		b.fields(n, "a step", map[string]func(*yaml.Node){"parallel": func(v *yaml.Node) {
			for _, c := range b.list(v, "parallel") {
				s := b.step(c, create)
				e.first, e.last = append(e.first, s.first...), append(e.last, s.last...)
			}
		}})
		if len(n.Content) == 0 {
			b.fail(n, "the step is empty: name a job, or several as parallel")
		}
		return e
	}
	j := b.named(n, create)
	if j == nil {
		return ends{}
	}
	return ends{[]*job{j}, []*job{j}}
}

// named finds the job that a step names.
func (b *builder) named(n *yaml.Node, create bool) *job {
	name := b.name(n, "a step", "")
	if name == "" {
		return nil
	}
	j := b.w.byName[name]
	switch {
	case j == nil && !create:
		b.unknown(n, name)
		return nil
	case j == nil && len(b.w.jobs) == MaxJobs:
		b.fail(n, "there are more than %d jobs: split the workflow", MaxJobs)
		return nil
	case j == nil:
		j = newJob(name, position{n.Line, n.Column})
		b.add(j)
	case b.used[j] > 0:
		b.fail(n, "job %s stands in the workflow for the second time, after line %d: a job runs once in a run, so define another of its own name", name, b.used[j])
		return nil
	}
	b.used[j] = max(n.Line, 1)
	return j
}

// unknown says that a name is that of no job.
func (b *builder) unknown(n *yaml.Node, name string) {
	hint := "describe it under jobs"
	for _, j := range b.w.jobs {
		if strings.EqualFold(j.name, name) || slices.Equal(sorted(j.name), sorted(name)) {
			hint = "is " + j.name + " meant?"
			break
		}
	}
	b.fail(n, "there is no job %s: %s", name, hint)
}

func sorted(v string) []byte {
	out := []byte(v)
	slices.Sort(out)
	return out
}

// finish ties the jobs together and checks the whole.
func (b *builder) finish() {
	for _, j := range b.w.jobs {
		b.requirements(j)
		b.sources(j)
		b.blockers(j)
		if j.cron != nil {
			b.periodically(b.w, j.cron, j.name)
		}
	}
	for _, j := range b.w.jobs {
		if b.used[j] == 0 && !j.detached {
			b.failAt(j.at, "job %s is never used: name it in workflow, give it requires, or make it detached", j.name)
		}
	}
	if len(b.errs) > 0 {
		return
	}
	b.w.links = join(b.raw)
	if b.w.order = b.sort(); b.w.order != nil {
		b.count()
	}
}

// requirements ties a job to those that it requires by name.
func (b *builder) requirements(j *job) {
	for _, n := range j.requires {
		other := b.w.byName[n.Value]
		switch other {
		case nil:
			b.unknown(n, n.Value)
		case j:
			b.fail(n, "job %s requires itself: remove it", j.name)
		default:
			b.raw = append(b.raw, rawLink{[]*job{other}, []*job{j}})
			b.used[j], b.used[other] = max(b.used[j], 1), max(b.used[other], 1)
		}
	}
}

// blockers checks the names in blocked_by. One with a full stop is that of another workflow's job.
func (b *builder) blockers(j *job) {
	for _, n := range j.blockedBy {
		other, dotted := b.w.byName[n.Value], strings.Contains(n.Value, ".")
		switch {
		case dotted:
			b.label(n, "blocked_by")
		case other == nil:
			b.unknown(n, n.Value)
		case other == j:
			b.fail(n, "job %s is kept from running beside itself anyway, unless it is concurrent: remove it", j.name)
		case other.task.idle():
			b.fail(n, "job %s has nothing to run, so it blocks nobody: remove it", n.Value)
		}
	}
}

// count refuses a workflow that comes to too much when its matrices are multiplied out.
func (b *builder) count() {
	c := b.w.weigh()
	at := position{}
	if len(b.w.jobs) > 0 {
		at = b.w.jobs[0].at
	}
	switch {
	case c.nodes > MaxJobs:
		b.failAt(at, "the workflow comes to %d jobs with all permutations and meeting points: at most %d; make a matrix smaller or split the workflow", c.nodes, MaxJobs)
	case c.needs > MaxNeeds:
		b.failAt(at, "the jobs wait for each other %d times: at most %d; let them meet in a job that has the task none", c.needs, MaxNeeds)
	case c.bytes > MaxRendered:
		b.failAt(at, "tasks and payloads come to %d bytes with all permutations: at most %d; put scripts into files", c.bytes, MaxRendered)
	}
}

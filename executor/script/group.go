package script

import (
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

const (
	maxBatch   = 100                    // jobs of a batch
	spawnWorth = 20 * time.Millisecond  // of work that waits for each context, before another is started
	patience   = 250 * time.Millisecond // that a group without a context waits before one of another gives way to it
)

// groupKey says which jobs may share a context.
type groupKey struct {
	tenant, lang string
	engine       string // engine id; empty: digest counts
	digest       string
}

func keyOf(a *attempt) groupKey {
	k := groupKey{tenant: a.job.Tenant, lang: a.handler.Lang, engine: a.handler.Engine}
	if k.engine == "" {
		k.digest = a.handler.Digest
	}
	return k
}

// group is a line of jobs and the contexts that they may run in. It is guarded by the executor's lock.
type group struct {
	key       groupKey
	queue     []*attempt
	idle      []*process    // contexts that wait for jobs
	processes int           // contexts
	coming    int           // of these, those that will look for jobs in a moment
	took      time.Duration // by a job, of late; zero: not known yet
}

// enqueue puts an attempt in line.
func (x *Executor) enqueue(a *attempt) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		a.finish(executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: "the worker has ended", Stopped: true})
		return
	}
	key := keyOf(a)
	g := x.groups[key]
	if g == nil {
		g = &group{key: key}
		x.groups[key] = g
	}
	a.queuedAt = time.Now()
	g.queue = append(g.queue, a)
	x.dispatch(g)
}

// dispatch sees to it that a context comes for what waits in the group. It is called with the lock held.
func (x *Executor) dispatch(g *group) {
	if x.closed || g.coming >= len(g.queue) {
		return
	}
	if n := len(g.idle); n > 0 {
		g.idle[n-1].call()
		return
	}
	if g.processes > 0 && g.took > 0 && time.Duration(len(g.queue))*g.took < spawnWorth*time.Duration(g.processes) {
		return // those that are there will be done sooner
	}
	if len(x.processes) < x.cfg.Processes {
		x.spawn(g)
		return
	}
	if g.processes > 0 {
		return
	}
	for _, other := range x.groups { // who waits for nothing makes room
		if n := len(other.idle); n > 0 && len(other.queue) == 0 {
			other.idle[n-1].retire = true
			other.idle[n-1].call()
			return
		}
	}
}

// spawn starts a context. It is called with the lock held.
func (x *Executor) spawn(g *group) {
	x.made++
	g.processes++
	g.coming++
	p := newProcess(x, g, x.made)
	x.processes[p] = true
	x.wg.Go(p.run)
}

// left is called when a context has ended, and starts others for what waits, the oldest first.
func (x *Executor) left(p *process) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p.arrive()
	delete(x.processes, p)
	p.g.processes--
	var waiting []*group
	for key, g := range x.groups {
		switch {
		case len(g.queue) > 0:
			waiting = append(waiting, g)
		case g.processes == 0:
			delete(x.groups, key)
		}
	}
	slices.SortFunc(waiting, func(a, b *group) int { return a.queue[0].queuedAt.Compare(b.queue[0].queuedAt) })
	for _, g := range waiting {
		x.dispatch(g)
	}
}

// starved reports whether another group has waited for a context and there is no room for one. It is called with the lock held.
func (x *Executor) starved(g *group, since time.Duration) bool {
	if len(x.processes) < x.cfg.Processes {
		return false
	}
	for _, other := range x.groups {
		if other != g && other.processes == 0 && len(other.queue) > 0 && time.Since(other.queue[0].queuedAt) >= since {
			return true
		}
	}
	return false
}

// take takes the next batch off the line: jobs of one handler, about as many as will be done in the time of a batch, and not
// more than a fair share when other contexts are there. It is called with the lock held.
func (g *group) take(p *process, most int) []*attempt {
	n := 1
	if g.took > 0 {
		n = int(min(p.x.cfg.Batch/max(g.took, 1), maxBatch))
	}
	share := (len(g.queue) + g.processes - 1) / g.processes
	n = max(1, min(n, share, most))
	digest := g.queue[0].handler.Digest
	var batch, rest []*attempt
	for i, a := range g.queue {
		if len(batch) == n {
			rest = append(rest, g.queue[i:]...)
			break
		}
		if a.handler.Digest != digest {
			rest = append(rest, a)
			continue
		}
		a.in = p
		batch = append(batch, a)
	}
	g.queue = rest
	return batch
}

// giveBack puts attempts that have not run in front of the line.
func (x *Executor) giveBack(g *group, list []*attempt) {
	if len(list) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var back []*attempt
	for _, a := range list {
		a.in = nil
		if x.closed || a.stopping {
			a.finish(stopped())
			continue
		}
		back = append(back, a)
	}
	g.queue = append(back, g.queue...)
}

func stopped() executor.Result {
	return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: "stopped", Stopped: true}
}

// end stops an attempt; now: also when its turn has not come yet.
func (x *Executor) end(a *attempt, now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	a.stopping = true
	p := a.in
	if p == nil {
		if a.handler != nil {
			if g := x.groups[keyOf(a)]; g != nil {
				g.queue = slices.DeleteFunc(g.queue, func(b *attempt) bool { return b == a })
			}
		}
		a.finish(stopped())
		return
	}
	if now || p.current == a {
		p.ended = true
		p.kill()
	}
}

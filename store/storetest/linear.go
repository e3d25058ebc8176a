package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/haulier/haulier"
)

var crewTime = flag.Duration("crew.time", 1200*time.Millisecond, "for how long the clients of RunCrew are at work, in each of its tests")

// Crew is what several servers have of one store: a handle each.
type Crew struct {
	Stores []haulier.Store // the suite closes them
	// Cut breaks connections between handles, but not the first one, and the store; they can be made again at once. Nil: there are none.
	Cut func()
}

// RunCrew tests that what concurrent clients are told by the handles of one store is linearizable: each call takes effect, and each
// record that a read brings was so, at one moment between call and answer. A write without an answer takes effect once at
// any time, or never. open returns handles on a new, empty store.
//
// A history that can't be explained so is kept, with a page that shows it.
func RunCrew(t *testing.T, open func(t *testing.T) Crew) {
	c := open(t)
	t.Cleanup(func() {
		for _, s := range c.Stores {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	told(t, c.Stores)
	j := &judge{t: t}
	ended, stop := context.WithCancel(t.Context())
	defer stop()
	var quiet sync.RWMutex // locked while connections must stay
	var cutter sync.WaitGroup
	if c.Cut != nil {
		cutter.Go(func() { cutNowAndThen(ended, &quiet, c.Cut) })
	}
	for begin := time.Now(); time.Since(begin) < *crewTime && !t.Failed(); j.rounds++ {
		j.round(t.Context(), &c, &quiet)
	}
	stop()
	cutter.Wait()
	t.Logf("%d operations in %d rounds; %d without an answer; histories checked in %v", j.operations, j.rounds, j.unknown, j.checking.Round(time.Millisecond))
	if !t.Failed() {
		Check(t.Context(), t, c.Stores[0])
	}
}

// told looks whether each handle is told when another has written what it keeps in mind.
func told(t *testing.T, stores []haulier.Store) {
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	heard := make(chan struct{}, len(stores)*len(stores))
	for _, s := range stores {
		s.Watch(ctx, func(changes []haulier.JobChange) {
			for _, c := range changes {
				if c.Spec == nil {
					heard <- struct{}{}
				}
			}
		})
	}
	for i, s := range stores {
		doc := haulier.DocWrite{Kind: "other", Key: name("told", i), Value: []byte("x")}
		if err := s.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{doc}, Tell: true}); err != nil {
			t.Fatal(err)
		}
		for range stores {
			select {
			case <-heard:
			case <-ctx.Done():
				t.Fatalf("what handle %d has written is not told at all of %d handles", i, len(stores))
			}
		}
	}
}

func cutNowAndThen(ctx context.Context, quiet sync.Locker, cut func()) {
	for {
		select {
		case <-time.After(time.Duration(20+rand.IntN(100)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
		quiet.Lock()
		cut()
		quiet.Unlock()
	}
}

// judge collects histories and looks whether they can be explained.
type judge struct {
	t                           *testing.T
	rounds, operations, unknown int
	checking                    time.Duration
}

// Each round has cells of its own, so that histories are short.
const (
	crewCells   = 4
	crewClients = 6
	crewSteps   = 60 // of each client in a round
)

// round lets clients work over new cells, and judges what they were told.
func (j *judge) round(ctx context.Context, c *Crew, quiet *sync.RWMutex) {
	begin := time.Now()
	var cells []*cell
	for range crewCells {
		cells = append(cells, newCell(begin))
	}
	var wg sync.WaitGroup
	var clients []*client
	for i := range crewClients {
		cl := &client{t: j.t, cut: c.Cut != nil, number: i, s: c.Stores[i%len(c.Stores)], begin: begin, places: make([]place, len(cells))}
		clients = append(clients, cl)
		wg.Go(func() { cl.work(ctx, cells) })
	}
	wg.Wait()
	quiet.Lock()
	defer quiet.Unlock()
	for i, s := range c.Stores {
		last := &client{t: j.t, cut: c.Cut != nil, number: crewClients + i, s: s, begin: begin, places: make([]place, len(cells))}
		clients = append(clients, last)
		last.lookAgain(ctx, cells)
	}
	for i := range cells {
		var history []porcupine.Operation
		for _, cl := range clients {
			history = append(history, cl.places[i].told...)
		}
		j.judge(promised(history))
	}
}

// promised leaves out what may be ahead of writes that were under way when it was answered: counts, and claims that got nothing.
func promised(history []porcupine.Operation) (out []porcupine.Operation) {
	for i := range history {
		o := &history[i]
		in, answer := o.Input.(input), o.Output.(output)
		ahead := in.does >= counting || in.does == claims && answer.seen == contents{}
		if !ahead || !slices.ContainsFunc(history, func(w porcupine.Operation) bool {
			return w.Input.(input).does <= claims && w.Return != never && w.Call <= o.Return && o.Return <= w.Return && w.ClientId != o.ClientId
		}) {
			out = append(out, *o)
		}
	}
	return out
}

// checkMost bounds the search for an explanation of one history.
const checkMost = 30 * time.Second

// judge fails the test when a history can't be explained, and keeps it.
func (j *judge) judge(history []porcupine.Operation) {
	j.operations += len(history)
	for i := range history {
		if history[i].Output.(output).verdict == unknown {
			j.unknown++
		}
	}
	begin := time.Now()
	result, found := porcupine.CheckOperationsVerbose(cellModel, history, checkMost)
	j.checking += time.Since(begin)
	if result == porcupine.Ok {
		return
	}
	dir, err := os.MkdirTemp("", "haulier-history-")
	if err == nil {
		err = porcupine.VisualizePath(cellModel, found, filepath.Join(dir, "history.html"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "history.txt"), []byte(historyText(history, &found)), 0o600)
	}
	if err != nil {
		j.t.Errorf("the history can't be kept: %v", err)
	}
	if result == porcupine.Unknown {
		j.t.Errorf("a history of %d operations was not judged within %v; it is in %s", len(history), checkMost, dir)
		return
	}
	j.t.Errorf("a history of %d operations can't be explained by any order of them; it is in %s", len(history), dir)
}

// historyText is the longest order that explains a part of a history, and what is left.
func historyText(history []porcupine.Operation, found *porcupine.LinearizationInfo) string {
	var longest []int
	for _, partition := range found.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	var b strings.Builder
	line := func(o *porcupine.Operation) {
		end := "never"
		if o.Return != never {
			end = time.Duration(o.Return).String()
		}
		fmt.Fprintf(&b, "%d\t%v\t%s\t%s\n", o.ClientId, time.Duration(o.Call), end, describe(o.Input, o.Output))
	}
	placed := map[int]bool{}
	for _, i := range longest {
		placed[i] = true
		line(&history[i])
	}
	b.WriteString("and then, in no order:\n")
	for i := range history {
		if !placed[i] {
			line(&history[i])
		}
	}
	return b.String()
}

// cell is a few records that change together, and nothing else does: a tenant with a session, jobs of one lane, and documents.
type cell struct {
	lane    haulier.Lane
	session haulier.ID
	jobs    [cellJobs]haulier.Job // as they are inserted
	now     time.Time

	// The id of a removed job must not come back, so no job is removed while one may yet be inserted.
	inserts  sync.RWMutex
	removing atomic.Bool
	lost     atomic.Bool // an insert has no answer
}

func newCell(now time.Time) *cell {
	now = now.UTC().Truncate(time.Microsecond)
	c := &cell{session: haulier.NewID(now), now: now}
	c.lane = lane("c"+c.session.String(), "q", "x")
	f := &fixture{now: now}
	for i := range c.jobs {
		c.jobs[i] = f.job(c.lane)
	}
	return c
}

func (g *cell) docKey(k int) string { return fmt.Sprintf("%s/%d", g.lane.Tenant, k-cellJobs) }

// place is what a client has of a cell.
type place struct {
	known contents // as it last saw them
	left  bool     // it has had no answer to a write here
	told  []porcupine.Operation
}

// client does this and that in cells, and notes what it is told.
type client struct {
	t      *testing.T
	cut    bool // calls may fail
	number int
	s      haulier.Store
	begin  time.Time
	tags   int
	places []place // by cell
}

func (c *client) work(ctx context.Context, cells []*cell) {
	for range crewSteps {
		i := rand.IntN(len(cells))
		if c.places[i].left {
			continue
		}
		switch k := rand.IntN(10); {
		case k < 4:
			c.write(ctx, cells[i], &c.places[i])
		case k < 6:
			c.claim(ctx, cells[i], &c.places[i])
		default:
			c.look(ctx, cells[i], &c.places[i], looks[rand.IntN(len(looks))])
		}
	}
}

// tag names a write.
func (c *client) tag() string {
	c.tags++
	return fmt.Sprintf("%d.%d", c.number, c.tags)
}

// clock is an instant of the history.
func (c *client) clock() int64 { return int64(time.Since(c.begin)) }

// never is the end of a call without an answer.
const never = math.MaxInt64

func (c *client) note(p *place, call int64, in input, out output) {
	end := c.clock()
	if out.verdict == unknown {
		end, p.left = never, true
	}
	// What one read says of several records are operations at the same time, which the page shows only for different clients.
	p.told = append(p.told, porcupine.Operation{ClientId: c.number*(cellKeys+2) + in.key, Input: in, Call: call, Output: out, Return: end})
}

// verdictOf reads an error of a write.
func (c *client) verdictOf(err error) verdict {
	switch {
	case err == nil:
		return done
	case errors.Is(err, haulier.ErrConflict):
		return conflict
	case errors.Is(err, haulier.ErrLeaseLost):
		return noSession
	case !c.cut || !errors.Is(err, haulier.ErrUnavailable):
		c.t.Errorf("unexpected error: %v", err)
	}
	return unknown
}

// write commits changes of some records of a cell, at the revisions that the client knows.
func (c *client) write(ctx context.Context, g *cell, p *place) {
	in := input{does: commits, key: cellKeys}
	var b haulier.Batch
	inserts := false
	for _, k := range rand.Perm(cellKeys)[:1+rand.IntN(3)] {
		known, tag := p.known[k], c.tag()
		switch {
		case k >= cellJobs:
			in.writes = append(in.writes, c.writeDoc(g, &b, k, known, tag))
		case known.rev == 0 && g.removing.Load():
		case known.rev == 0:
			inserts = true
			j := g.jobs[k]
			j.Worker = tag
			b.Insert = append(b.Insert, j)
			in.writes = append(in.writes, cellWrite{key: k, to: record{j.Rev, j.State, tag}})
		case known.state.Terminal() && c.mayRemove(g):
			b.Delete = append(b.Delete, haulier.JobDelete{ID: g.jobs[k].ID, Expect: known.rev})
			in.writes = append(in.writes, cellWrite{key: k, expect: known.rev})
		default:
			next := g.jobs[k]
			next.Status = g.anyState(next.Status)
			next.Rev, next.Worker = known.rev+1, tag
			b.Update = append(b.Update, haulier.JobUpdate{Spec: &next.Spec, Expect: known.rev, Status: next.Status})
			in.writes = append(in.writes, cellWrite{key: k, expect: known.rev, to: record{next.Rev, next.State, tag}})
		}
	}
	if len(in.writes) == 0 {
		return
	}
	b.CheckIDs, b.Sync = inserts, rand.IntN(4) == 0
	if inserts {
		g.inserts.RLock()
		defer g.inserts.RUnlock()
		if g.removing.Load() {
			return
		}
	}
	call := c.clock()
	out := output{verdict: c.verdictOf(c.s.Commit(ctx, &b))}
	c.note(p, call, in, out)
	if out.verdict == unknown && inserts {
		g.lost.Store(true)
	}
	if out.verdict == done {
		_, p.known = in.step(p.known, out)
	}
}

// writeDoc changes, makes or removes a document, that of the session too.
func (c *client) writeDoc(g *cell, b *haulier.Batch, k int, known record, tag string) cellWrite {
	w := haulier.DocWrite{Kind: "other", Expect: known.rev, Value: []byte(tag)}
	if k == cellSession {
		w = openSession(g.session, time.Hour)
		w.Expect, w.Value = known.rev, []byte(tag)
	} else {
		w.Key = g.docKey(k)
	}
	to := record{rev: 1, tag: tag}
	remove := rand.IntN(3) == 0
	if rand.IntN(3) == 0 || remove && known.rev == 0 {
		w.Expect = haulier.AnyRev
	}
	if remove {
		w.Value, to = nil, record{}
	}
	b.Docs = append(b.Docs, w)
	return cellWrite{key: k, expect: w.Expect, to: to}
}

// anyState puts a job of the cell into some state.
func (g *cell) anyState(s haulier.Status) haulier.Status {
	states := []haulier.State{haulier.Pending, haulier.Pending, haulier.Pending, haulier.Scheduled, haulier.Blocked, haulier.Running, haulier.Succeeded}
	to := states[rand.IntN(len(states))]
	at := g.now
	if to != haulier.Pending {
		at = at.Add(time.Hour)
	}
	return stateOf(s, to, at, g.session)
}

// mayRemove reports whether jobs of the cell may be removed, and keeps others from being inserted from now on.
func (c *client) mayRemove(g *cell) bool {
	if rand.IntN(2) == 0 || g.lost.Load() {
		return false
	}
	g.inserts.Lock()
	defer g.inserts.Unlock()
	g.removing.Store(true)
	return !g.lost.Load()
}

func (c *client) claim(ctx context.Context, g *cell, p *place) {
	in := input{does: claims, key: cellKeys, tag: c.tag()}
	call := c.clock()
	jobs, err := c.s.Claim(ctx, g.session, in.tag, []haulier.Take{take(g.lane, 0, 1+rand.IntN(2))})
	out := output{verdict: c.verdictOf(err)}
	if out.verdict == unknown {
		for k := range cellJobs { // any of them may have been taken
			c.note(p, call, input{does: grasps, key: k, tag: in.tag}, out)
		}
		return
	}
	for i := range jobs {
		out.seen[g.keyOf(jobs[i].ID)] = recordOf(&jobs[i])
	}
	c.note(p, call, in, out)
	if out.verdict == done {
		_, p.known = in.step(p.known, out)
		for k, r := range out.seen {
			if r.rev > 0 {
				p.known[k] = r
			}
		}
	}
}

func (g *cell) keyOf(id haulier.ID) int {
	for k := range g.jobs {
		if g.jobs[k].ID == id {
			return k
		}
	}
	return 0 // which then has a revision that can't be explained
}

// looks are the ways to read. Each returns what it says of some records of a cell.
var looks = []func(ctx context.Context, s haulier.Store, g *cell) ([]answered, error){lookAtJobs, lookAtDocs, listDocs, listTenant, listState, listSession, count}

// answered is what was asked, and the answer.
type answered struct {
	in  input
	out output
}

func (c *client) look(ctx context.Context, g *cell, p *place, ask func(context.Context, haulier.Store, *cell) ([]answered, error)) bool {
	call := c.clock()
	answers, err := ask(ctx, c.s, g)
	if err != nil {
		_ = c.verdictOf(err) // which fails the test when there is no reason to fail
		return false
	}
	for _, a := range answers {
		c.note(p, call, a.in, a.out)
		if a.in.does == sees && (a.out.seen[a.in.key].rev > 0 || a.in.among == anyState) {
			p.known[a.in.key] = a.out.seen[a.in.key]
		}
	}
	return true
}

// lookAgain reads all there is, in every way, when the clients have ended.
func (c *client) lookAgain(ctx context.Context, cells []*cell) {
	end := time.Now().Add(20 * time.Second)
	for i, g := range cells {
		for _, ask := range append(slices.Clone(looks), countPending) { // bands leave out what a claim may be about to take
			for !c.look(ctx, g, &c.places[i], ask) {
				if time.Now().After(end) {
					c.t.Error("the store can't be read for 20 seconds, though nothing is cut")
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		}
	}
}

func saw(k int, among states, r record) answered {
	a := answered{in: input{does: sees, key: k, among: among}}
	a.out.seen[k] = r
	return a
}

func lookAtJobs(ctx context.Context, s haulier.Store, g *cell) (out []answered, err error) {
	jobs, err := s.Jobs(ctx, idsOf(g.jobs[:]))
	if err != nil {
		return nil, err
	}
	for k, j := range jobs {
		out = append(out, saw(k, anyState, recordOf(j)))
	}
	return out, nil
}

func lookAtDocs(ctx context.Context, s haulier.Store, g *cell) (out []answered, err error) {
	k := cellJobs + rand.IntN(cellKeys-cellJobs)
	kind, key := haulier.DocKind("other"), g.docKey(k)
	if k == cellSession {
		kind, key = haulier.DocSession, g.session.String()
	}
	d, err := s.Doc(ctx, kind, key)
	if err != nil && !errors.Is(err, haulier.ErrNotFound) {
		return nil, err
	}
	return []answered{saw(k, anyState, record{rev: d.Rev, tag: string(d.Value)})}, nil
}

func listDocs(ctx context.Context, s haulier.Store, g *cell) (out []answered, err error) {
	docs, err := s.Docs(ctx, "other", g.lane.Tenant+"/", "", 10)
	if err != nil {
		return nil, err
	}
	for k := cellJobs; k < cellSession; k++ {
		var r record
		for _, d := range docs {
			if d.Key == g.docKey(k) {
				r = record{rev: d.Rev, tag: string(d.Value)}
			}
		}
		out = append(out, saw(k, anyState, r))
	}
	return out, nil
}

// list reads all jobs of the cell that the query selects.
func list(ctx context.Context, s haulier.Store, g *cell, q haulier.Query, among states) (out []answered, err error) {
	q.Limit, q.Max = 100, math.MaxInt32 // one page
	page, err := s.List(ctx, q)
	if err != nil {
		return nil, err
	}
	for k := range g.jobs {
		var r record
		for _, j := range page.Jobs {
			if j.ID == g.jobs[k].ID {
				r = recordOf(j)
			}
		}
		out = append(out, saw(k, among, r))
	}
	return out, nil
}

func listTenant(ctx context.Context, s haulier.Store, g *cell) ([]answered, error) {
	return list(ctx, s, g, haulier.Query{Tenant: g.lane.Tenant}, anyState)
}

func listState(ctx context.Context, s haulier.Store, g *cell) ([]answered, error) {
	state := []haulier.State{haulier.Pending, haulier.Scheduled, haulier.Blocked, haulier.Claimed, haulier.Running, haulier.Succeeded}[rand.IntN(6)]
	return list(ctx, s, g, haulier.Query{State: state, Lanes: []haulier.Lane{g.lane}}, only(state))
}

func listSession(ctx context.Context, s haulier.Store, g *cell) ([]answered, error) {
	return list(ctx, s, g, haulier.Query{Session: g.session}, only(haulier.Claimed, haulier.Running))
}

func count(ctx context.Context, s haulier.Store, g *cell) ([]answered, error) {
	counts, err := s.Counts(ctx)
	if err != nil {
		return nil, err
	}
	a := answered{in: input{does: counting, key: cellKeys}}
	for _, n := range counts {
		if n.Lane == g.lane {
			a.out.counts[n.State] += n.N
		}
	}
	return []answered{a}, nil
}

func countPending(ctx context.Context, s haulier.Store, g *cell) ([]answered, error) {
	heads, err := s.Bands(ctx)
	if err != nil {
		return nil, err
	}
	a := answered{in: input{does: countingPending, key: cellKeys}}
	for _, h := range heads {
		if h.Lane == g.lane {
			a.out.counts[haulier.Pending] += h.N
		}
	}
	return []answered{a}, nil
}

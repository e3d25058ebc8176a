package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
	"github.com/haulier/haulier/wire"
)

// Fault is something in a store that can't be.
type Fault struct {
	// What is of which sort: corrupt, order, index, count, band, session, job, or the kind of a document.
	What     string `json:"what"`
	Of       string `json:"of"` // job, lane, session, or key of the document
	Text     string `json:"text"`
	Repaired bool   `json:"repaired,omitempty"`
	Advice   string `json:"advice,omitempty"` // what to do when it is not repaired
}

// CheckOptions of Check.
type CheckOptions struct {
	Repair   bool
	Found    func(Fault)                // nil: nobody is told
	Progress func(what string, n int64) // nil: nobody is told; n of what were looked at
}

// Checked is what Check has looked at and found.
type Checked struct {
	Jobs     int64 `json:"jobs"`
	Docs     int64 `json:"docs"`
	Faults   int64 `json:"faults"`
	Repaired int64 `json:"repaired"`
}

// Check looks through a store at which nobody works: whether each job stands in one index, counts are the facts, and documents
// fit the jobs. With Repair it puts right what commits can, and leaves what follows for other jobs to the next server. It takes
// memory by lanes, sessions and keys, not by jobs. The error is of the store; faults are none.
func Check(ctx context.Context, store haulier.Store, o CheckOptions) (Checked, error) {
	if err := errors.Join(AtRest(ctx, store), whole(ctx, store)); err != nil {
		return Checked{}, err
	}
	now, err := store.Now(ctx)
	if err != nil {
		return Checked{}, err
	}
	c := &checker{
		store: store, o: o, now: now, changes: &Engine{store: store, effects: newBacklog()},
		sessions: map[haulier.ID]bool{}, ending: map[haulier.ID]bool{},
		states: map[haulier.State]*digest{}, owned: map[haulier.ID]*digest{}, counts: map[haulier.Count]int64{}, bands: map[haulier.Band]haulier.BandHead{},
	}
	c.flow = flow.NewCheck(store, now, c.flowFault)
	for _, step := range []func(context.Context) error{c.checkWork, c.checkSessions, c.checkOwners} {
		if err := c.step(ctx, step); err != nil {
			return c.out, err
		}
	}
	if err := c.step(ctx, c.checkJobs); err != nil {
		return c.out, err
	}
	if c.listed { // or else the facts are not known
		for _, step := range []func(context.Context) error{c.checkStates, c.checkSessionIndex, c.checkCounts, c.checkBands, c.flow.Run} {
			if err := c.step(ctx, step); err != nil {
				return c.out, err
			}
		}
	}
	for _, kind := range DocKinds {
		if err := c.step(ctx, func(ctx context.Context) error { return c.checkDocs(ctx, kind) }); err != nil {
			return c.out, err
		}
	}
	return c.out, nil
}

// What to do about faults that commits can't put right.
const (
	adviceRebuild = "copy the store to a new one, which builds all indexes and counts anew: haulier store copy"
	adviceRestore = "this is damage of the disk or database: restore a backup, or what an export still reads"
	adviceRepair  = "haulier store check --repair"
	adviceNewer   = "a newer program may have written it: check with that"
)

type checker struct {
	store   haulier.Store
	o       CheckOptions
	now     time.Time
	changes *Engine // no more of it than changes of jobs need
	flow    *flow.Check
	out     Checked
	listed  bool // all jobs could be read

	sessions map[haulier.ID]bool // that are there
	ending   map[haulier.ID]bool // whose jobs are being returned
	// What the jobs say:
	states map[haulier.State]*digest
	owned  map[haulier.ID]*digest // by session
	counts map[haulier.Count]int64
	bands  map[haulier.Band]haulier.BandHead
}

// digest tells whether two listings have the same jobs, in whatever order.
type digest struct {
	n   int64
	sum uint64
}

func (d *digest) add(id haulier.ID) {
	h := sha256.Sum256(id[:])
	d.n++
	d.sum += binary.LittleEndian.Uint64(h[:])
}

// of returns the digest of a key, which it makes when there is none.
func of[K comparable](m map[K]*digest, k K) *digest {
	if m[k] == nil {
		m[k] = &digest{}
	}
	return m[k]
}

// step takes damage for a fault.
func (c *checker) step(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	if errors.Is(err, haulier.ErrCorrupt) {
		c.fault(Fault{What: "corrupt", Text: err.Error(), Advice: adviceRestore})
		return nil
	}
	return err
}

func (c *checker) fault(f Fault) {
	c.out.Faults++
	if f.Repaired {
		c.out.Repaired++
		f.Advice = ""
	}
	if c.o.Found != nil {
		c.o.Found(f)
	}
}

func (c *checker) progress(what string, n int64) {
	if c.o.Progress != nil {
		c.o.Progress(what, n)
	}
}

// mend tells of a fault, after it was repaired by a commit when that is wanted.
func (c *checker) mend(ctx context.Context, f Fault, repair func(ctx context.Context, b *haulier.Batch) error) error {
	f.Advice = adviceRepair
	if c.o.Repair {
		b := haulier.Batch{Sync: true}
		err := repair(ctx, &b)
		if err == nil {
			err = c.store.Commit(ctx, &b)
		}
		if err != nil {
			return fmt.Errorf("repair %s %s: %w", f.What, f.Of, err)
		}
		f.Repaired = true
	}
	c.fault(f)
	return nil
}

func (c *checker) remove(ctx context.Context, d *haulier.Doc, text string) error {
	return c.mend(ctx, Fault{What: string(d.Kind), Of: d.Key, Text: text}, func(_ context.Context, b *haulier.Batch) error {
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: d.Kind, Key: d.Key, Expect: d.Rev})
		return nil
	})
}

func (c *checker) flowFault(ctx context.Context, f flow.Fault) error {
	return c.mend(ctx, Fault{What: f.What, Of: f.Of, Text: f.Text}, f.Repair)
}

// each calls look for all documents of a kind, some at a time.
func (c *checker) each(ctx context.Context, kind haulier.DocKind, look func(context.Context, []haulier.Doc) error) error {
	for after := ""; ; {
		docs, err := c.store.Docs(ctx, kind, "", after, 200)
		if err != nil || len(docs) == 0 {
			return err
		}
		after = docs[len(docs)-1].Key
		if err := look(ctx, docs); err != nil {
			return err
		}
	}
}

// list calls look for all jobs of a query, a page at a time.
func (c *checker) list(ctx context.Context, q haulier.Query, look func(context.Context, []*haulier.Job) error) error {
	for q.Limit = 500; ; {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return err
		}
		if err := look(ctx, page.Jobs); err != nil {
			return err
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

func (c *checker) checkWork(ctx context.Context) error {
	return c.each(ctx, haulier.DocWork, func(ctx context.Context, docs []haulier.Doc) error {
		for i := range docs {
			d := &docs[i]
			op := opOf(d)
			var err error
			switch op {
			case flow.WorkOp:
				err = c.flow.Work(d)
			case returnOp:
				var end sessionEnd
				err = json.Unmarshal(d.Value, &end)
				c.ending[end.Session] = true
			case flow.SignalOp:
				err = json.Unmarshal(d.Value, &flow.Signal{})
			case thawOp:
				err = json.Unmarshal(d.Value, &thawWork{})
			default:
				err = json.Unmarshal(d.Value, &operation{})
				if err == nil && operationStates[op] == nil {
					c.fault(Fault{What: "work", Of: d.Key, Text: fmt.Sprintf("is of a sort that nobody knows: %q", op), Advice: adviceNewer})
				}
			}
			if err != nil {
				if err := c.remove(ctx, d, "its bytes do not decode: what it was about does not happen"); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkSessions reads the sessions. No server starts while one can't be read: then it goes, and its jobs are returned.
func (c *checker) checkSessions(ctx context.Context) error {
	return c.each(ctx, haulier.DocSession, func(ctx context.Context, docs []haulier.Doc) error {
		for i := range docs {
			d := &docs[i]
			var v sessionDoc
			id, err := haulier.ParseID(d.Key)
			if err == nil {
				err = json.Unmarshal(d.Value, &v)
			}
			if err != nil || v.ID != id {
				if err := c.remove(ctx, d, "its bytes do not decode to the session of its key"); err != nil {
					return err
				}
				continue
			}
			c.sessions[id] = true
		}
		return nil
	})
}

// checkOwners finds jobs whose session does not exist, and returns them as those of a lost worker.
func (c *checker) checkOwners(ctx context.Context) error {
	for _, state := range []haulier.State{haulier.Claimed, haulier.Running} {
		err := c.list(ctx, haulier.Query{State: state}, func(ctx context.Context, jobs []*haulier.Job) error {
			for _, j := range jobs {
				if !j.State.Owned() || c.sessions[j.Session] || c.ending[j.Session] {
					continue
				}
				f := Fault{What: "session", Of: j.Session.String(), Text: fmt.Sprintf("does not exist, and has job %v, which is %v", j.ID, j.State), Advice: adviceRepair}
				if c.o.Repair {
					n, err := c.changes.applyEach(ctx, []*haulier.Job{j}, func(j *haulier.Job) haulier.Event {
						return haulier.Event{Kind: haulier.EventLost, Session: j.Session, By: "check"}
					}, true)
					if err != nil {
						return fmt.Errorf("return job %v: %w", j.ID, err)
					}
					f.Repaired = n > 0
				}
				c.fault(f)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkJobs reads all jobs, and gathers what they say.
func (c *checker) checkJobs(ctx context.Context) error {
	last := haulier.NilID
	err := c.list(ctx, haulier.Query{}, func(ctx context.Context, jobs []*haulier.Job) error {
		ids := make([]haulier.ID, len(jobs))
		for i, j := range jobs {
			ids[i] = j.ID
			if !last.IsNil() && bytes.Compare(j.ID[:], last[:]) >= 0 {
				c.fault(Fault{What: "order", Of: j.ID.String(), Text: "is listed twice, or out of order, among all jobs", Advice: adviceRebuild})
			}
			last = j.ID
		}
		again, err := c.store.Jobs(ctx, ids)
		if err != nil {
			return err
		}
		for i, j := range jobs {
			if again[i] == nil || !bytes.Equal(wire.AppendJob(nil, j), wire.AppendJob(nil, again[i])) {
				c.fault(Fault{What: "index", Of: j.ID.String(), Text: "is another job when it is listed than when it is read alone", Advice: adviceRebuild})
			}
			c.job(j)
		}
		c.out.Jobs += int64(len(jobs))
		c.progress("jobs", c.out.Jobs)
		return nil
	})
	c.listed = err == nil
	return err
}

// job takes in what one job says.
func (c *checker) job(j *haulier.Job) {
	of(c.states, j.State).add(j.ID)
	c.counts[haulier.Count{Lane: j.Lane(), State: j.State}]++
	c.flow.Add(j)
	if j.State == haulier.Pending {
		k := haulier.Band{Lane: j.Lane(), Priority: j.Priority}
		h := c.bands[k]
		if h.N == 0 || j.Status.RunAt.Before(h.Since) {
			h.Since = j.Status.RunAt
		}
		h.N++
		c.bands[k] = h
	}
	fault := func(text string) {
		c.fault(Fault{What: "job", Of: j.ID.String(), Text: text, Advice: "cancel it: haulier jobs cancel"})
	}
	switch {
	case j.State.Owned():
		of(c.owned, j.Session).add(j.ID)
	case !j.Session.IsNil():
		fault(fmt.Sprintf("is %v, and has a session", j.State))
	case j.State == haulier.Blocked && (j.Standing == nil || j.Gate == "" && j.NeedsLeft == 0 && j.Frozen == ""):
		fault("is blocked by nothing")
	}
	if j.Standing != nil && len(j.Held) > 0 && !j.State.Owned() {
		fault(fmt.Sprintf("is %v, and holds the keys %v", j.State, j.Held))
	}
}

// checkStates compares the index of each state with the jobs.
func (c *checker) checkStates(ctx context.Context) error {
	for _, state := range haulier.States {
		var found digest
		err := c.list(ctx, haulier.Query{State: state}, func(ctx context.Context, jobs []*haulier.Job) error {
			ids := make([]haulier.ID, len(jobs))
			for i, j := range jobs {
				ids[i] = j.ID
				found.add(j.ID)
			}
			there, err := c.store.Jobs(ctx, ids)
			if err != nil {
				return err
			}
			for i, j := range there {
				switch {
				case j == nil:
					c.index(state, ids[i], "does not exist")
				case j.State != state:
					c.index(state, ids[i], fmt.Sprintf("is %v", j.State))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if want := of(c.states, state); *want != found {
			c.fault(Fault{What: "index", Of: state.String(), Text: fmt.Sprintf("lists %d jobs, and %d jobs are %v", found.n, want.n, state), Advice: adviceRebuild})
			if err := c.absent(ctx, state); err != nil {
				return err
			}
		}
		c.progress("jobs by state", found.n)
	}
	return nil
}

func (c *checker) index(state haulier.State, id haulier.ID, text string) {
	c.fault(Fault{What: "index", Of: id.String(), Text: fmt.Sprintf("stands in the index of %v jobs, and %s", state, text), Advice: adviceRebuild})
}

// atOnce is how many jobs absent keeps in mind.
const atOnce = 500_000

// absent names jobs that do not stand in the index of their state once, in as many rounds as memory asks for.
func (c *checker) absent(ctx context.Context, state haulier.State) error {
	rounds := max(uint64(of(c.states, state).n/atOnce), 0) + 1
	for round := range rounds {
		seen := map[haulier.ID]int{}
		mine := func(id haulier.ID) bool { return binary.BigEndian.Uint64(id[8:])%rounds == round }
		err := c.list(ctx, haulier.Query{}, func(_ context.Context, jobs []*haulier.Job) error {
			for _, j := range jobs {
				if j.State == state && mine(j.ID) {
					seen[j.ID] = 0
				}
			}
			return nil
		})
		if err == nil {
			err = c.list(ctx, haulier.Query{State: state}, func(_ context.Context, jobs []*haulier.Job) error {
				for _, j := range jobs {
					if n, ok := seen[j.ID]; ok {
						seen[j.ID] = n + 1
					}
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
		for _, id := range slices.SortedFunc(maps.Keys(seen), func(a, b haulier.ID) int { return bytes.Compare(a[:], b[:]) }) {
			if n := seen[id]; n != 1 {
				c.fault(Fault{What: "index", Of: id.String(), Text: fmt.Sprintf("is %v, and stands %d times in the index of its state", state, n), Advice: adviceRebuild})
			}
		}
	}
	return nil
}

// checkSessionIndex compares the listing by session with the jobs.
func (c *checker) checkSessionIndex(ctx context.Context) error {
	for id := range c.sessions {
		of(c.owned, id)
	}
	for id, want := range c.owned {
		var found digest
		err := c.list(ctx, haulier.Query{Session: id}, func(_ context.Context, jobs []*haulier.Job) error {
			for _, j := range jobs {
				found.add(j.ID)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if found != *want {
			c.fault(Fault{What: "index", Of: id.String(), Text: fmt.Sprintf("the session is listed with %d jobs, and %d or others are its own", found.n, want.n), Advice: adviceRebuild})
		}
	}
	return nil
}

func (c *checker) checkCounts(ctx context.Context) error {
	kept, err := c.store.Counts(ctx)
	if err != nil {
		return err
	}
	left := maps.Clone(c.counts)
	for _, k := range kept {
		n := k.N
		k.N = 0
		if n != left[k] {
			c.count("count", fmt.Sprintf("%v %v", k.Lane, k.State), n, left[k])
		}
		delete(left, k)
	}
	for k, n := range left {
		c.count("count", fmt.Sprintf("%v %v", k.Lane, k.State), 0, n)
	}
	return nil
}

func (c *checker) count(what, lane string, kept, fact int64) {
	c.fault(Fault{What: what, Of: lane, Text: fmt.Sprintf("is kept as %d, and there are %d jobs", kept, fact), Advice: adviceRebuild})
}

func (c *checker) checkBands(ctx context.Context) error {
	heads, err := c.store.Bands(ctx)
	if err != nil {
		return err
	}
	left := maps.Clone(c.bands)
	for _, h := range heads {
		name := fmt.Sprintf("%v priority %d", h.Lane, h.Priority)
		want := left[h.Band]
		if h.N != want.N {
			c.count("band", name, h.N, want.N)
		} else if h.Since.After(want.Since) {
			c.fault(Fault{What: "band", Of: name, Text: fmt.Sprintf("has jobs since %v, and the first waits since %v", h.Since, want.Since), Advice: adviceRebuild})
		}
		delete(left, h.Band)
	}
	for b, h := range left {
		c.count("band", fmt.Sprintf("%v priority %d", b.Lane, b.Priority), 0, h.N)
	}
	return nil
}

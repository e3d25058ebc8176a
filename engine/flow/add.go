package flow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
)

// keptNeeds is how many of its needs a job's spec keeps, to be shown; all of them are documents.
const keptNeeds = 200

// Add adds new jobs, whose status is that of Spec.First, with what their flow asks for. It
// returns the id that answers each: its own, or that of a job that was there before.
func (t *Tx) Add(ctx context.Context, jobs []haulier.Job) ([]haulier.ID, error) {
	ids := make([]haulier.ID, len(jobs))
	refs, err := t.refs(jobs)
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(jobs))
	for i := range jobs {
		if ids[i], added[i], err = t.addOne(ctx, jobs[i]); err != nil {
			return nil, inJob(i, err)
		}
	}
	for i := range jobs {
		if !added[i] || jobs[i].Flow == nil || len(jobs[i].Needs) == 0 {
			continue
		}
		j := t.jobs[ids[i]]
		if j.job.State.Terminal() {
			continue // replaced by a later one of the request
		}
		w := *j.job.Flow
		needs := slices.Clone(w.Needs)
		for k := range needs {
			if needs[k].Ref != "" {
				needs[k].Job = ids[refs[needs[k].Ref]]
			}
		}
		w.Needs = needs
		j.job.Flow = &w
		if err := t.need(ctx, &j.job, needs); err != nil {
			return nil, inJob(i, err)
		}
		w.Needs = needs[:min(len(needs), keptNeeds)]
	}
	for i := range jobs {
		j := t.jobs[ids[i]]
		if !added[i] || j.job.Flow == nil || j.job.Collapse == "" {
			continue
		}
		if err := t.collapse(ctx, &j.job); err != nil {
			return nil, inJob(i, err)
		}
	}
	return ids, t.settle(ctx)
}

// refs finds the jobs that the needs speak of, and refuses circles.
func (t *Tx) refs(jobs []haulier.Job) (map[string]int, error) {
	at := map[string]int{}
	for i := range jobs {
		if jobs[i].Flow == nil || jobs[i].Ref == "" {
			continue
		}
		if _, ok := at[jobs[i].Ref]; ok {
			return nil, inJob(i, field("ref", fmt.Sprintf("%q is the name of two jobs of the request", jobs[i].Ref)))
		}
		at[jobs[i].Ref] = i
	}
	left := make([]int, len(jobs))       // needs within the request
	children := make([][]int, len(jobs)) // who needs it
	for i := range jobs {
		if jobs[i].Flow == nil {
			continue
		}
		for k := range jobs[i].Needs {
			n := &jobs[i].Needs[k]
			if n.Ref == "" {
				continue
			}
			p, ok := at[n.Ref]
			if !ok {
				return nil, inJob(i, field(fmt.Sprintf("needs[%d].ref", k), fmt.Sprintf("%q names no job of the request", n.Ref)))
			}
			left[i]++
			children[p] = append(children[p], i)
		}
	}
	return at, circle(jobs, left, children)
}

// circle is an error when the jobs can't be put into an order in which each comes after what it needs.
func circle(jobs []haulier.Job, left []int, children [][]int) error {
	var ready []int
	for i, n := range left {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, c := range children[i] {
			if left[c]--; left[c] == 0 {
				ready = append(ready, c)
			}
		}
	}
	if done == len(jobs) {
		return nil
	}
	i := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	return inJob(i, field("needs", fmt.Sprintf("job %q needs itself, by way of others: take one of the needs out of the circle", jobs[i].Ref)))
}

// addOne adds a job, as far as it is unique.
func (t *Tx) addOne(ctx context.Context, j haulier.Job) (id haulier.ID, added bool, err error) {
	if j.Flow == nil {
		t.insert(j)
		return j.ID, true, nil
	}
	if j.Unique != nil {
		other, err := t.claim(ctx, &j)
		if err != nil || !other.IsNil() {
			return other, false, err
		}
	}
	in := t.insert(j)
	if len(j.Needs) == 0 {
		err = t.skip(ctx, in)
	}
	return j.ID, true, err
}

// kept is the document of a key that one job has.
type kept struct {
	Job haulier.ID `json:"job"`
}

// UniqueKey is the key by which a job is unique: the one that is given, or a digest of its type and payload.
func UniqueKey(s *haulier.Spec) (string, error) {
	u := s.Unique
	if u.Key != "" {
		return u.Key, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", len(s.Type), s.Type)
	if len(u.Fields) == 0 {
		fmt.Fprintf(h, "%s %s", s.Blob, s.Payload)
		return "~" + hex.EncodeToString(h.Sum(nil)[:16]), nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(s.Payload, &all); err != nil {
		return "", field("unique.fields", "need a payload that is a JSON object")
	}
	for _, name := range u.Fields {
		v, ok := all[name]
		if !ok {
			v = json.RawMessage("-")
		}
		fmt.Fprintf(h, "%q %s\n", name, compact(v))
	}
	return "~" + hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// compact is a JSON value in the one form that values of the same meaning share.
func compact(v json.RawMessage) []byte {
	var x any
	if json.Unmarshal(v, &x) != nil {
		return v
	}
	b, err := json.Marshal(x)
	if err != nil {
		return v
	}
	return b
}

// claim takes the job's unique key, or returns the job that has it.
func (t *Tx) claim(ctx context.Context, j *haulier.Job) (other haulier.ID, err error) {
	old, name, err := t.taken(ctx, j)
	if err != nil {
		return haulier.NilID, err
	}
	if old != nil {
		if free, err := t.duplicate(ctx, j, old, name); err != nil || !free {
			return old.ID, err
		}
	}
	t.put(DocUnique, name, encode(kept{j.ID}))
	return haulier.NilID, nil
}

// keeps reports whether a job still keeps others of its key out.
func (t *Tx) keeps(old *haulier.Job) bool {
	if old.Flow == nil || old.Unique == nil {
		return false
	}
	if old.State == haulier.Cancelled || old.State == haulier.Collapsed {
		return false
	}
	switch old.Unique.Scope {
	case haulier.UniqueForever:
		return true
	case haulier.UniquePeriod:
		return t.now.Before(old.CreatedAt.Add(time.Duration(old.Unique.For)))
	case haulier.UniqueActive:
		return !old.State.Terminal()
	}
	return old.State.Waits()
}

// duplicate decides what becomes of j, of whose key old is. free: the key is j's now.
func (t *Tx) duplicate(ctx context.Context, j, old *haulier.Job, name string) (free bool, err error) {
	switch j.Unique.Duplicate {
	case haulier.DuplicateReject:
		return false, fmt.Errorf("unique: %w: job %v has the key %q and is %v", haulier.ErrConflict, old.ID, name[len(j.Tenant)+1:], old.State)
	case haulier.DuplicateReplace:
		if !old.State.Waits() || t.jobs[old.ID].rev == 0 {
			return false, nil // it runs, or is of the same request
		}
		err := t.change(ctx, old, haulier.Event{Kind: haulier.EventCancel, By: "server", Error: "replaced by " + j.ID.String()})
		return true, err
	}
	return false, nil
}

// line is the document of a collapse key: the newest job, and those that it could not replace since it waits for them.
type line struct {
	Job   haulier.ID   `json:"job"`
	Older []haulier.ID `json:"older,omitempty"`
}

// maxOlder bounds line.Older.
const maxOlder = 100

// collapse makes j the newest of its key, and lets it replace those before that still wait.
func (t *Tx) collapse(ctx context.Context, j *haulier.Job) error {
	v, err := t.newest(ctx, j)
	if err != nil {
		return err
	}
	now := line{Job: j.ID}
	for _, id := range append(v.Older, v.Job) {
		if id.IsNil() || id == j.ID {
			continue
		}
		old, err := t.Job(ctx, id)
		if err != nil {
			return err
		}
		if old == nil || !old.State.Waits() {
			continue
		}
		if err := t.replace(ctx, old, j); err != nil {
			return err
		}
		if t.jobs[id].job.State.Waits() && len(now.Older) < maxOlder {
			now.Older = append(now.Older, id)
		}
	}
	t.put(DocCollapse, lockKey(j.Tenant, j.Collapse), encode(now))
	return nil
}

// newest is what stands at j's collapse key.
func (t *Tx) newest(ctx context.Context, j *haulier.Job) (v line, err error) {
	name := lockKey(j.Tenant, j.Collapse)
	b, err := t.get(ctx, DocCollapse, name)
	if err != nil {
		return v, err
	}
	return v, decode(DocCollapse, name, b, &v)
}

// replace ends a job in favour of a newer one, which takes over those that need it; not
// so when the newer one waits for the older: then both have to run.
func (t *Tx) replace(ctx context.Context, old, by *haulier.Job) error {
	if waits, err := t.waitsFor(ctx, by, old); err != nil || waits {
		return err
	}
	if old.Standing != nil && old.Needed {
		if err := t.inherit(ctx, old, by); err != nil {
			return err
		}
		if by.State.Terminal() {
			t.later(Rest{Do: doEnded, Job: by.ID})
		}
	}
	return t.change(ctx, old, haulier.Event{Kind: haulier.EventCollapse, Other: by.ID, By: "server"})
}

// maxWalk bounds the jobs that waitsFor looks at; in a larger tangle nothing is replaced.
const maxWalk = 1000

// waitsFor reports whether j needs the other job, be it by way of others.
func (t *Tx) waitsFor(ctx context.Context, j, other *haulier.Job) (bool, error) {
	if j.State.Terminal() || j.Flow == nil || other.Standing == nil || !other.Needed {
		return false, nil
	}
	seen := map[haulier.ID]bool{j.ID: true}
	for todo := []*haulier.Job{j}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.Flow == nil || at.State.Terminal() {
			continue
		}
		for i := range at.Needs {
			p, err := t.survivor(ctx, at.Needs[i].Job)
			switch {
			case err != nil:
				return false, err
			case p == nil || seen[p.ID]:
				continue
			case p.ID == other.ID || len(seen) == maxWalk:
				return true, nil
			}
			seen[p.ID] = true
			todo = append(todo, p)
		}
	}
	return false, nil
}

// inherit moves what needs old to by.
func (t *Tx) inherit(ctx context.Context, old, by *haulier.Job) error {
	prefix := old.ID.String() + "/"
	for after := prefix; ; {
		edges, err := t.list(ctx, DocNeed, prefix, after, 500)
		if err != nil || len(edges) == 0 {
			return err
		}
		for _, d := range edges {
			after = d.Key
			t.put(DocNeed, d.Key, nil)
			if err := t.move(ctx, d.Key[len(prefix):], by, d.Value); err != nil {
				return err
			}
		}
		if err := t.needed(ctx, by); err != nil {
			return err
		}
	}
}

// move makes a job need by, unless it does already: then one of its needs falls away.
func (t *Tx) move(ctx context.Context, child string, by *haulier.Job, on []byte) error {
	key := by.ID.String() + "/" + child
	v, err := t.get(ctx, DocNeed, key)
	if err != nil {
		return err
	}
	if v == nil {
		t.put(DocNeed, key, on)
		return nil
	}
	id, err := haulier.ParseID(child)
	if err != nil {
		return fmt.Errorf("need %s: %w: %w", key, haulier.ErrCorrupt, err)
	}
	t.put(DocNeed, key, both(v, on))
	j, err := t.Job(ctx, id)
	if err != nil || j == nil || j.Standing == nil || j.NeedsLeft == 0 || j.State != haulier.Blocked && j.State != haulier.Cancelled {
		return err
	}
	return t.change(ctx, j, haulier.Event{Kind: haulier.EventServed, N: 1, By: "server"})
}

// never is a condition that no end meets, as of who needs the success of one job and the failure of its replacement.
const never = "never"

// both is the condition that asks for two.
func both(a, b []byte) []byte {
	switch {
	case string(a) == string(haulier.OnFinished) || string(a) == string(b):
		return b
	case string(b) == string(haulier.OnFinished):
		return a
	}
	return []byte(never)
}

// outrun ends a job that was to run again when a newer one of its collapse key waits, runs or has succeeded.
func (t *Tx) outrun(ctx context.Context, j *haulier.Job) error {
	v, err := t.newest(ctx, j)
	if err != nil || v.Job.IsNil() || v.Job == j.ID {
		return err
	}
	newest, err := t.survivor(ctx, v.Job)
	if err != nil || newest == nil || newest.ID == j.ID {
		return err
	}
	if !newest.State.Terminal() || newest.State == haulier.Succeeded {
		if err := t.replace(ctx, j, newest); err != nil {
			return err
		}
	}
	if now := t.jobs[j.ID]; now.job.State.Waits() && !slices.Contains(v.Older, j.ID) && len(v.Older) < maxOlder {
		v.Older = append(v.Older, j.ID)
		t.put(DocCollapse, lockKey(j.Tenant, j.Collapse), encode(v))
	}
	return nil
}

// again takes back what an ended job that runs again had given up.
func (t *Tx) again(ctx context.Context, j *haulier.Job) error {
	if j.Standing != nil && j.NeedsLeft > 0 {
		if p, err := t.barredBy(ctx, j, haulier.NilID); err != nil || p != nil {
			if err == nil {
				err = fmt.Errorf("job %v: %w: it needs job %v, which has %v: run that one again", j.ID, haulier.ErrConflict, p.ID, p.State)
			}
			return err
		}
	}
	if j.Unique != nil {
		other, name, err := t.taken(ctx, j)
		if err != nil {
			return err
		}
		if other != nil {
			return fmt.Errorf("job %v: %w: job %v has its unique key by now", j.ID, haulier.ErrConflict, other.ID)
		}
		t.put(DocUnique, name, encode(kept{j.ID}))
	}
	return t.skip(ctx, j)
}

// taken is the other job that has j's unique key, nil when there is none, and the name of the key's document.
func (t *Tx) taken(ctx context.Context, j *haulier.Job) (other *haulier.Job, name string, err error) {
	key, err := UniqueKey(&j.Spec)
	if err != nil {
		return nil, "", err
	}
	name = lockKey(j.Tenant, key)
	v, err := t.get(ctx, DocUnique, name)
	if err != nil || v == nil {
		return nil, name, err
	}
	var k kept
	if err := decode(DocUnique, name, v, &k); err != nil || k.Job == j.ID {
		return nil, name, err
	}
	other, err = t.Job(ctx, k.Job)
	if other != nil && !t.keeps(other) {
		other = nil
	}
	return other, name, err
}

// then adds the job that follows one that has succeeded.
func (t *Tx) then(ctx context.Context, j *haulier.Job) error {
	id := haulier.NewID(t.now)
	s := haulier.Spec{
		ID: id, Tenant: j.Tenant, Queue: j.Queue, Type: j.Flow.Then, Payload: j.Result, Priority: j.Priority, CreatedAt: t.now,
		MaxAttempts: haulier.DefaultMaxAttempts, Labels: j.Labels, Group: j.Group, Parent: j.ID,
	}
	t.insert(haulier.Job{Spec: s, Status: s.First(t.now, "job "+j.ID.String())})
	return nil
}

// Forget adds to b the removal of what a job that is deleted leaves behind.
func Forget(ctx context.Context, store haulier.Store, j *haulier.Job, b *haulier.Batch) error {
	if j.Standing != nil && j.Needed {
		prefix := j.ID.String() + "/"
		edges, err := store.Docs(ctx, DocNeed, prefix, prefix, haulier.MaxBatch)
		if err != nil {
			return err
		}
		for _, d := range edges {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: DocNeed, Key: d.Key, Expect: haulier.AnyRev})
		}
	}
	if j.Flow == nil {
		return nil
	}
	t := Begin(store, j.FinishedAt)
	if j.Unique != nil {
		key, err := UniqueKey(&j.Spec)
		if err != nil {
			return nil //nolint:nilerr // a job that was accepted has a key
		}
		if err := t.forget(ctx, DocUnique, lockKey(j.Tenant, key), j.ID); err != nil {
			return err
		}
	}
	if j.Collapse != "" {
		if err := t.forget(ctx, DocCollapse, lockKey(j.Tenant, j.Collapse), j.ID); err != nil {
			return err
		}
	}
	_, err := t.Flush(b)
	return err
}

// forget removes a key's document when it names the job.
func (t *Tx) forget(ctx context.Context, kind haulier.DocKind, name string, id haulier.ID) error {
	v, err := t.get(ctx, kind, name)
	if err != nil || v == nil {
		return err
	}
	var k kept
	if err := decode(kind, name, v, &k); err != nil || k.Job != id {
		return err
	}
	t.put(kind, name, nil)
	return nil
}

// inJob says which job of a request an error is about.
func inJob(i int, err error) error {
	var f *haulier.FieldError
	if errors.As(err, &f) {
		return &haulier.FieldError{Field: fmt.Sprintf("jobs[%d].%s", i, f.Field), Msg: f.Msg, Kind: f.Kind}
	}
	return fmt.Errorf("jobs[%d]: %w", i, err)
}

package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
	"github.com/haulier/haulier/engine/flow"
)

// DocWindow is the kind of a window's document. Its key is tenant/name.
const DocWindow haulier.DocKind = "window"

// thawOp is the op of a work document about jobs that are to be looked at again, since their window has changed.
const thawOp = "thaw"

type thawWork struct {
	Op     string `json:"op"`
	Tenant string `json:"tenant"`
	Window string `json:"window"`
}

const (
	maxWindowed = 100                  // queues and types of a window
	neverOpens  = 365 * 24 * time.Hour // after this a window that does not open again is looked at once more
)

// windows is the view of the windows, by tenant.
type windows struct {
	mu   sync.RWMutex
	puts int
	of   map[string][]*calendarOf
}

// calendarOf is a window with what its rules say.
type calendarOf struct {
	haulier.Window
	when *calendar.Window
}

func (w *windows) any() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.of) > 0
}

// put sets a window of the view, or takes it away.
func (w *windows) put(tenant, name string, c *calendarOf) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.puts++
	list := slices.DeleteFunc(slices.Clone(w.of[tenant]), func(x *calendarOf) bool { return x.Name == name })
	if c != nil {
		list = append(list, c)
	}
	if w.of == nil {
		w.of = map[string][]*calendarOf{}
	}
	if w.of[tenant] = list; len(list) == 0 {
		delete(w.of, tenant)
	}
}

func (w *windows) list(tenant string) []*calendarOf {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.of[tenant]
}

// keeps reports whether a job keeps to the window.
func (c *calendarOf) keeps(j *haulier.Job) bool {
	return slices.Contains(c.Queues, j.Queue) || slices.Contains(c.Types, j.Type) || j.Flow != nil && slices.Contains(j.Flow.Windows, c.Name)
}

// frozen says which window keeps a job from starting now.
func (w *windows) frozen(j *haulier.Job) (flow.Freeze, bool) {
	if j.Flow != nil && j.Flow.Force || j.Standing != nil && j.Forced {
		return flow.Freeze{}, false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	now := time.Now()
	var all []*calendar.Window
	var by *calendarOf
	for _, c := range w.of[j.Tenant] {
		if c.keeps(j) {
			all = append(all, c.when)
			if by == nil && c.when.Closed(now) {
				by = c
			}
		}
	}
	if by == nil {
		return flow.Freeze{}, false
	}
	until, ok := calendar.NextOpen(all, now)
	if !ok {
		until = now.Add(neverOpens)
	}
	return flow.Freeze{Window: by.Name, Until: until.UTC(), Newest: by.Newest}, true
}

// loadWindows reads the windows: those of other servers, and those before this one.
func (e *Engine) loadWindows(ctx context.Context) error {
	for ctx.Err() == nil {
		e.windows.mu.RLock()
		puts := e.windows.puts
		e.windows.mu.RUnlock()
		of := map[string][]*calendarOf{}
		if err := e.eachWindow(ctx, "", func(c *calendarOf) { of[c.Tenant] = append(of[c.Tenant], c) }); err != nil {
			return err
		}
		changed, ok := e.windows.loaded(of, puts)
		if !ok {
			continue
		}
		for _, c := range changed { // while this server did not know, it may have sent jobs to wait
			if err := e.lookAgain(ctx, c.Tenant, c.Name); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// loaded replaces the view, unless it was changed since the count of puts was read, and returns the windows that are not as they were.
func (w *windows) loaded(of map[string][]*calendarOf, puts int) (changed []*calendarOf, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.puts != puts {
		return nil, false
	}
	for tenant, list := range w.of {
		for _, old := range list {
			if !slices.ContainsFunc(of[tenant], func(c *calendarOf) bool { return reflect.DeepEqual(c.Window, old.Window) }) {
				changed = append(changed, old)
			}
		}
	}
	w.of = of
	return changed, true
}

func (e *Engine) eachWindow(ctx context.Context, prefix string, f func(*calendarOf)) error {
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocWindow, prefix, after, 200)
		if err != nil || len(docs) == 0 {
			return err
		}
		for i := range docs {
			after = docs[i].Key
			c := new(calendarOf)
			if err := json.Unmarshal(docs[i].Value, &c.Window); err != nil {
				return fmt.Errorf("window %s: %w: %w", after, haulier.ErrCorrupt, err)
			}
			if c.when, err = compileWindow(&c.Window); err != nil { // a zone that this machine does not know
				return fmt.Errorf("window %s: %w", after, err)
			}
			f(c)
		}
	}
}

func compileWindow(w *haulier.Window) (*calendar.Window, error) {
	return calendar.NewWindow(calendar.Definition{Mode: calendar.Mode(w.Mode), Zone: w.Zone, Rules: w.Rules})
}

// SetWindow implements haulier.Planner.
func (e *Engine) SetWindow(ctx context.Context, w haulier.Window) (haulier.Window, error) {
	w.Tenant, w.WindowStanding = tenantOr(w.Tenant), haulier.WindowStanding{}
	if err := first(
		func() error { return checkName("tenant", w.Tenant) },
		func() error { return checkName("name", w.Name) },
		func() error { return checkWindowed("queues", w.Queues) },
		func() error { return checkWindowed("types", w.Types) },
	); err != nil {
		return w, err
	}
	when, err := compileWindow(&w)
	if err != nil {
		return w, err
	}
	value, err := json.Marshal(&w)
	if err != nil {
		return w, err
	}
	if err := e.putWindow(ctx, w.Tenant, w.Name, haulier.AnyRev, value, &calendarOf{w, when}); err != nil {
		return w, err
	}
	e.windowStanding(&w, when)
	return w, nil
}

// putWindow writes a window, together with the work of looking again at the jobs that wait for it.
func (e *Engine) putWindow(ctx context.Context, tenant, name string, expect uint64, value []byte, c *calendarOf) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	work, err := json.Marshal(thawWork{Op: thawOp, Tenant: tenant, Window: name})
	if err != nil {
		return err
	}
	key := haulier.NewID(now).String()
	b := haulier.Batch{Sync: true, Tell: true, Docs: []haulier.DocWrite{
		{Kind: DocWindow, Key: tenant + "/" + name, Expect: expect, Value: value}, {Kind: haulier.DocWork, Key: key, Value: work},
	}}
	if err := e.store.Commit(ctx, &b); err != nil {
		return fmt.Errorf("window %s: %w", name, err)
	}
	e.windows.put(tenant, name, c)
	e.effects.add(key)
	return nil
}

func checkWindowed(name string, list []string) error {
	if len(list) > maxWindowed {
		return &haulier.FieldError{Field: name, Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has more than %d names", maxWindowed)}
	}
	for i, v := range list {
		if err := checkName(fmt.Sprintf("%s[%d]", name, i), v); err != nil {
			return err
		}
	}
	return nil
}

// thaw lets the jobs be looked at again that wait for a window, and removes its work document.
func (e *Engine) thaw(ctx context.Context, d *haulier.Doc) error {
	var w thawWork
	if err := json.Unmarshal(d.Value, &w); err != nil {
		return fmt.Errorf("work %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	if err := e.lookAgain(ctx, w.Tenant, w.Window); err != nil {
		return err
	}
	err := e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocWork, Key: d.Key, Expect: haulier.AnyRev}}})
	if err != nil {
		return fmt.Errorf("work %s: %w", d.Key, err)
	}
	return nil
}

// lookAgain makes the jobs pending that wait for a window.
func (e *Engine) lookAgain(ctx context.Context, tenant, window string) error {
	prefix := tenant + "/" + window + "/"
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, flow.DocFrozen, prefix, after, pageSize)
		if err != nil || len(docs) == 0 {
			return err
		}
		ids := make([]haulier.ID, 0, len(docs))
		for i := range docs {
			after = docs[i].Key
			id, err := haulier.ParseID(strings.TrimPrefix(after, prefix))
			if err != nil {
				return fmt.Errorf("frozen %s: %w: %w", after, haulier.ErrCorrupt, err)
			}
			ids = append(ids, id)
		}
		jobs, err := e.present(ctx, ids)
		if err != nil {
			return err
		}
		if _, err := e.applyEach(ctx, jobs, func(*haulier.Job) haulier.Event {
			return haulier.Event{Kind: haulier.EventDue, By: "window " + window}
		}, false); err != nil {
			return err
		}
	}
}

// Windows implements haulier.Planner.
func (e *Engine) Windows(ctx context.Context, tenant string) ([]haulier.Window, error) {
	var out []haulier.Window
	err := e.eachWindow(ctx, tenantOr(tenant)+"/", func(c *calendarOf) {
		w := c.Window
		e.windowStanding(&w, c.when)
		out = append(out, w)
	})
	for i := range out {
		prefix := out[i].Tenant + "/" + out[i].Name + "/"
		docs, failed := e.store.Docs(ctx, flow.DocFrozen, prefix, prefix, 1000)
		out[i].Frozen, err = len(docs), cmp.Or(err, failed)
	}
	if err != nil {
		return nil, fmt.Errorf("windows: %w", err)
	}
	return out, nil
}

func (e *Engine) windowStanding(w *haulier.Window, when *calendar.Window) {
	now := time.Now()
	w.Closed = when.Closed(now)
	next := when.NextClose
	if w.Closed {
		next = when.NextOpen
	}
	if at, ok := next(now); ok {
		w.Until = at.UTC()
	}
}

// DeleteWindow implements haulier.Planner.
func (e *Engine) DeleteWindow(ctx context.Context, tenant, name string) error {
	tenant = tenantOr(tenant)
	for range conflictTries {
		d, err := e.store.Doc(ctx, DocWindow, tenant+"/"+name)
		if err != nil {
			return fmt.Errorf("window %s: %w", name, err)
		}
		if err = e.putWindow(ctx, tenant, name, d.Rev, nil, nil); !errors.Is(err, haulier.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("window %s: %w: others keep changing it; try again", name, haulier.ErrConflict)
}

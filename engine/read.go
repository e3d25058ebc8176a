package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/haulier/haulier"
)

// Get implements haulier.Operator.
func (e *Engine) Get(ctx context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	jobs, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("get jobs: %w", err)
	}
	for i, j := range jobs {
		if j != nil && tenant != "" && j.Tenant != tenant {
			jobs[i] = nil
		}
	}
	return jobs, nil
}

// cursor is where a listing goes on: in which of the filter's states, and where in it.
type cursor struct {
	State haulier.State `json:"s,omitzero"`
	At    string        `json:"a,omitempty"`
}

// maxList bounds a page.
const maxList = 1000

// List implements haulier.Operator. Filters by group or labels look at a
// bounded number of jobs a call: a page may be short, even empty, when more follow.
func (e *Engine) List(ctx context.Context, f haulier.Filter, after string, limit int) (haulier.Page, error) {
	if limit < 1 || limit > maxList {
		return haulier.Page{}, field("limit", fmt.Sprintf("is %d: it goes from 1 to %d", limit, maxList))
	}
	cur, err := parseCursor(after)
	if err != nil {
		return haulier.Page{}, err
	}
	var lanes []haulier.Lane
	states := slices.Clone(f.States)
	if f.Queue != "" || f.Type != "" || len(states) > 0 && f.Tenant != "" {
		if lanes, err = e.lanes(ctx, &f); err != nil || len(lanes) == 0 {
			return haulier.Page{}, err
		}
		if len(states) == 0 {
			states = haulier.States
		}
	}
	if len(states) == 0 {
		return e.listAll(ctx, &f, cur, limit)
	}
	slices.Sort(states)
	return e.listStates(ctx, &f, slices.Compact(states), lanes, cur, limit)
}

func (e *Engine) listAll(ctx context.Context, f *haulier.Filter, cur cursor, limit int) (haulier.Page, error) {
	page, err := e.store.List(ctx, haulier.Query{Tenant: f.Tenant, Cursor: cur.At, Limit: limit})
	if err != nil {
		return haulier.Page{}, fmt.Errorf("list jobs: %w", err)
	}
	out := haulier.Page{Jobs: selected(f, page.Jobs)}
	if page.Next != "" {
		out.Next = formatCursor(cursor{At: page.Next})
	}
	return out, nil
}

// listStates lists the states one after the other, in the order of a job's life.
func (e *Engine) listStates(ctx context.Context, f *haulier.Filter, states []haulier.State, lanes []haulier.Lane, cur cursor, limit int) (haulier.Page, error) {
	var out haulier.Page
	looks := 0
	for _, st := range states {
		if st < cur.State {
			continue
		}
		at := ""
		if st == cur.State {
			at = cur.At
		}
		for {
			if len(out.Jobs) >= limit || looks > 10 {
				out.Next = formatCursor(cursor{State: st, At: at})
				return out, nil
			}
			page, err := e.store.List(ctx, haulier.Query{State: st, Lanes: lanes, Cursor: at, Limit: limit - len(out.Jobs)})
			if err != nil {
				return out, fmt.Errorf("list jobs: %w", err)
			}
			looks++
			out.Jobs = append(out.Jobs, selected(f, page.Jobs)...)
			if at = page.Next; at == "" {
				break
			}
		}
	}
	return out, nil
}

func selected(f *haulier.Filter, jobs []*haulier.Job) []*haulier.Job {
	var out []*haulier.Job
	for _, j := range jobs {
		if f.Selects(&j.Spec, j.State) {
			out = append(out, j)
		}
	}
	return out
}

// lanes lists the lanes that the filter's tenant, queue and type select, from the kept counters.
func (e *Engine) lanes(ctx context.Context, f *haulier.Filter) ([]haulier.Lane, error) {
	counts, err := e.store.Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("list lanes: %w", err)
	}
	seen := map[haulier.Lane]bool{}
	var lanes []haulier.Lane
	for _, c := range counts {
		l := c.Lane
		if seen[l] || f.Tenant != "" && f.Tenant != l.Tenant || f.Queue != "" && f.Queue != l.Queue || f.Type != "" && f.Type != l.Type {
			continue
		}
		seen[l] = true
		lanes = append(lanes, l)
	}
	slices.SortFunc(lanes, haulier.Lane.Compare)
	return lanes, nil
}

func parseCursor(s string) (cursor, error) {
	var c cursor
	if s == "" {
		return c, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, field("cursor", "is none that a listing gave; leave it out to begin anew")
	}
	return c, nil
}

func formatCursor(c cursor) string {
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// Counts implements haulier.Operator.
func (e *Engine) Counts(ctx context.Context, tenant string) ([]haulier.Count, error) {
	all, err := e.store.Counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("counts: %w", err)
	}
	var out []haulier.Count
	for _, c := range all {
		if c.N != 0 && (tenant == "" || c.Tenant == tenant) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Sessions implements haulier.Operator.
func (e *Engine) Sessions(_ context.Context, tenant string) ([]haulier.Session, error) {
	out := e.sessions.list(tenant)
	held := e.sessions.holding()
	for i := range out {
		out[i].Holding = held[out[i].ID]
	}
	slices.SortFunc(out, func(a, b haulier.Session) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return out, nil
}

package e2e_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/haulier/haulier"
)

// facts is everything that the server and the ledger say.
type facts struct {
	t        testing.TB
	jobs     map[haulier.ID]*haulier.Job
	children map[haulier.ID][]haulier.ID // by parent
	labelled map[string]int              // number of jobs by label of their request
	counts   map[laneState]int64
	ledger   map[haulier.Ref]*deeds
}

type laneState struct {
	haulier.Lane
	haulier.State
}

func (s *site) facts(ctx context.Context) *facts {
	s.t.Helper()
	f := &facts{
		t: s.t, jobs: map[haulier.ID]*haulier.Job{}, children: map[haulier.ID][]haulier.ID{},
		labelled: map[string]int{}, counts: map[laneState]int64{}, ledger: readLedger(s.t, s.ledger),
	}
	for cursor := ""; ; {
		page, err := s.client.List(ctx, haulier.Filter{Tenant: haulier.DefaultTenant}, cursor, 1000)
		if err != nil {
			s.t.Fatal("list jobs: ", err)
		}
		for _, j := range page.Jobs {
			f.jobs[j.ID] = j
			f.labelled[j.Labels["request"]]++
			if !j.Parent.IsNil() {
				f.children[j.Parent] = append(f.children[j.Parent], j.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	counts, err := s.client.Counts(ctx, haulier.DefaultTenant)
	if err != nil {
		s.t.Fatal("counts: ", err)
	}
	for _, c := range counts {
		if c.N != 0 {
			f.counts[laneState{c.Lane, c.State}] = c.N
		}
	}
	return f
}

func (f *facts) check(l *load) {
	f.t.Helper()
	f.checkRequests(l)
	ends := map[haulier.State]int{}
	for _, j := range f.jobs {
		ends[j.State]++
		f.checkJob(j)
	}
	f.checkCounts()
	attempts := 0
	for ref := range f.ledger {
		if f.jobs[ref.Job] == nil {
			f.t.Errorf("attempt %d of job %v ran, but the server does not know the job", ref.Attempt, ref.Job)
		}
		attempts++
	}
	f.t.Logf("%d jobs ended: %v; %d attempts did something", len(f.jobs), ends, attempts)
}

// checkRequests: what was acknowledged is there, and each request was carried out whole or not at all.
func (f *facts) checkRequests(l *load) {
	acknowledged, unknown := 0, 0
	for _, r := range l.requests {
		have := f.labelled[r.label]
		switch {
		case r.ids != nil && have != len(r.Jobs):
			f.t.Errorf("request %s: acknowledged with %d jobs, the server has %d", r.label, len(r.Jobs), have)
		case r.ids == nil && have != 0 && have != len(r.Jobs):
			f.t.Errorf("request %s: %d of its %d jobs are there; want all or none", r.label, have, len(r.Jobs))
		}
		if r.ids == nil {
			unknown++
		}
		for _, id := range r.ids {
			acknowledged++
			if f.jobs[id] == nil {
				f.t.Errorf("request %s: its acknowledged job %v is gone", r.label, id)
			}
		}
	}
	f.t.Logf("%d requests, of which %d were never acknowledged; %d jobs acknowledged", len(l.requests), unknown, acknowledged)
}

// checkJob: it ended once, after attempts that its history and the ledger agree on.
func (f *facts) checkJob(j *haulier.Job) {
	ends := 0
	for _, c := range j.History {
		if c.State.Terminal() {
			ends++
		}
	}
	if !j.State.Terminal() || ends != 1 {
		f.t.Errorf("job %v is %v and its history tells of %d ends: %+v", j.ID, j.State, ends, j.History)
	}
	if j.State == haulier.Failed && !strings.HasPrefix(j.Reason, "poison:") || j.State != haulier.Failed && j.State != haulier.Succeeded {
		f.t.Errorf("job %v ended %v: %s: %+v", j.ID, j.State, j.Reason, j.History)
	}
	for a := 1; a <= j.Attempt; a++ {
		d := f.ledger[haulier.Ref{Job: j.ID, Attempt: a}]
		if d != nil && (len(d.begun) != 1 || len(d.ended) > 1) {
			f.t.Errorf("attempt %d of job %v began in the ledger's lines %v and ended in %v: it ran twice", a, j.ID, d.begun, d.ended)
		}
	}
	last := f.ledger[haulier.Ref{Job: j.ID, Attempt: j.Attempt}]
	if j.State == haulier.Succeeded && (last == nil || len(last.ended) != 1) {
		f.t.Errorf("job %v succeeded in attempt %d, which did not do its work: %+v", j.ID, j.Attempt, last)
	}
	if over := f.ledger[haulier.Ref{Job: j.ID, Attempt: j.Attempt + 1}]; over != nil {
		f.t.Errorf("job %v: attempt %d ran, of which the server does not know", j.ID, j.Attempt+1)
	}
	f.checkChildren(j)
}

// checkChildren: follow-on jobs are there exactly when the finish that adds them is.
func (f *facts) checkChildren(j *haulier.Job) {
	want := 0
	if j.State == haulier.Succeeded && strings.Contains(string(j.Payload), `"child":true`) {
		want = 1
	}
	if got := len(f.children[j.ID]); got != want {
		f.t.Errorf("job %v is %v and has %d follow-on jobs, want %d", j.ID, j.State, got, want)
	}
}

// checkCounts: the counters that commits keep agree with the jobs that are there.
func (f *facts) checkCounts() {
	counted := map[laneState]int64{}
	for _, j := range f.jobs {
		counted[laneState{j.Lane(), j.State}]++
	}
	if !maps.Equal(counted, f.counts) {
		f.t.Errorf("the counters say %v, the jobs are %v", f.counts, counted)
	}
}

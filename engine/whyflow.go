package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// named is how many other jobs an explanation names.
const named = 5

// flow says what the job's ties to other jobs mean for it.
func (w *why) flow(ctx context.Context) error {
	s := w.j.Standing
	if s == nil {
		return nil
	}
	switch {
	case !s.Survivor.IsNil():
		w.say("a newer job of its collapse key took its place: %v", s.Survivor)
	case !s.Cause.IsNil():
		w.say("it was cancelled for the sake of job %v, which it needs: run that one again, and it comes back", s.Cause)
	case w.j.State == haulier.Blocked && s.NeedsLeft > 0:
		return w.needs(ctx)
	case s.Frozen != "" && w.j.State == haulier.Scheduled:
		w.frozen()
	case s.Gate != "" && w.j.State.Waits():
		return w.gate(ctx)
	}
	return nil
}

// needs names the jobs that are awaited.
func (w *why) needs(ctx context.Context) error {
	var list []string
	if w.j.Flow != nil {
		for i := range w.j.Needs {
			n := &w.j.Needs[i]
			jobs, err := w.e.store.Jobs(ctx, []haulier.ID{n.Job})
			if err != nil {
				return fmt.Errorf("why: %w", err)
			}
			if jobs[0] == nil || jobs[0].State.Terminal() && n.On.Met(jobs[0].State) {
				continue
			}
			if len(list) == named {
				list = append(list, "…")
				break
			}
			list = append(list, fmt.Sprintf("%v (%v)", n.Job, jobs[0].State))
		}
	}
	w.say("it waits for %s that it needs%s", numbered(w.j.NeedsLeft, "job"), colon(strings.Join(list, ", ")))
	return nil
}

// frozen says which window a job waits for.
func (w *why) frozen() {
	for _, c := range w.e.windows.list(w.j.Tenant) {
		if c.Name == w.j.Frozen && c.Newest {
			w.say("window %s is closed; a newer job of its queue and type replaces it", w.j.Frozen)
			return
		}
	}
	w.say("window %s is closed until %s: it starts then, or at once with `haulier jobs force %s`", w.j.Frozen, w.j.Status.RunAt.Format(time.RFC3339), w.j.ID)
}

// gate says who holds the key at which the job waits.
func (w *why) gate(ctx context.Context) error {
	l, lim, err := flow.Standing(ctx, w.e.store, w.j.Tenant, w.j.Gate)
	if err != nil {
		return fmt.Errorf("why: %w", err)
	}
	if w.j.State == haulier.Pending {
		w.say("key %s was freed for it: a worker takes it when it has a free slot", w.j.Gate)
		return nil
	}
	var list []string
	for i, id := range l.Holders {
		if i == named {
			list = append(list, "…")
			break
		}
		list = append(list, id.String())
	}
	w.say("it waits for key %s, held by %s%s; %d wait there", w.j.Gate, numbered(l.Held, "job"), colon(strings.Join(list, ", ")), l.Waiting)
	if lim == nil || lim.Rate == 0 {
		return nil
	}
	place, err := flow.Place(ctx, w.e.store, w.j, w.j.Gate)
	if err != nil {
		return fmt.Errorf("why: %w", err)
	}
	at := w.now
	if l.Free.After(at) {
		at = l.Free
	}
	w.x.Expected = at.Add(time.Duration(place) * flow.Gap(lim)).UTC()
	w.say("its rate allows a start each %v: it is the turn of this job at %s at the earliest", flow.Gap(lim), w.x.Expected.Format(time.RFC3339))
	return nil
}

func numbered(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// Why implements haulier.Operator.
func (e *Engine) Why(ctx context.Context, tenant string, id haulier.ID) (haulier.Explanation, error) {
	jobs, err := e.Get(ctx, tenant, []haulier.ID{id})
	if err != nil {
		return haulier.Explanation{}, err
	}
	if jobs[0] == nil {
		return haulier.Explanation{}, fmt.Errorf("job %v: %w", id, haulier.ErrNotFound)
	}
	now, err := e.now(ctx)
	if err != nil {
		return haulier.Explanation{}, err
	}
	w := why{e: e, j: jobs[0], now: now}
	w.x = haulier.Explanation{Job: id, State: w.j.State, Since: w.j.UpdatedAt}
	err = w.explain(ctx)
	return w.x, err
}

// why is one explanation in the making.
type why struct {
	e   *Engine
	j   *haulier.Job
	now time.Time
	x   haulier.Explanation
}

func (w *why) say(format string, args ...any) {
	w.x.Reasons = append(w.x.Reasons, fmt.Sprintf(format, args...))
}

func (w *why) explain(ctx context.Context) error {
	j := w.j
	switch {
	case j.State.Terminal():
		w.say("it has ended: %s%s", j.State, colon(j.Reason))
	case j.State.Owned():
		w.owned()
	case j.State == haulier.Scheduled:
		w.x.Expected = j.Status.RunAt
		w.say("later: it is to start in %v, at %s", j.Status.RunAt.Sub(w.now).Round(time.Millisecond), j.Status.RunAt.Format(time.RFC3339))
		w.last(j.Error)
		w.paused()
		w.workers()
	case j.State == haulier.Pending:
		if err := w.pending(ctx); err != nil {
			return err
		}
	}
	return w.flow(ctx)
}

// pending says what stands between a pending job and its claim.
func (w *why) pending(ctx context.Context) error {
	w.x.Since = w.j.Status.RunAt
	if w.e.hold.active() {
		w.say("the machine went down: workers first say what they run, for at most one lease")
	}
	w.paused()
	if w.handler() {
		w.workers()
	}
	ahead, err := w.ahead(ctx)
	if err != nil {
		return err
	}
	w.x.Ahead = ahead
	switch {
	case ahead > 0:
		w.say("%d jobs of its lane come first", ahead)
	case len(w.x.Reasons) == 0:
		w.say("it is next in its lane: a worker takes it when it has a free slot")
	}
	w.last(w.j.Reason)
	return nil
}

// last says how the attempt before ended, or else why the job waits.
func (w *why) last(how string) {
	switch {
	case w.j.Outcome != "":
		w.say("the %s ended as %s%s", tries(w.j), w.j.Outcome, colon(how))
	case w.j.Reason != "" && (w.j.Standing == nil || w.j.Gate == ""):
		w.say("%s", w.j.Reason)
	}
}

// ahead counts the pending jobs of the lane with a higher priority, and those of
// its own that are known to be older: at most one page of them is looked at.
func (w *why) ahead(ctx context.Context) (int64, error) {
	bands, err := w.e.store.Bands(ctx)
	if err != nil {
		return 0, fmt.Errorf("why: %w", err)
	}
	lane := w.j.Lane()
	var higher, own int64
	for _, b := range bands {
		switch {
		case b.Lane == lane && b.Priority > w.j.Priority:
			higher += b.N
		case b.Lane == lane && b.Priority == w.j.Priority:
			own = b.N
		}
	}
	at, err := w.place(ctx, higher)
	if err != nil {
		return 0, err
	}
	if at < 0 { // beyond the page: at least a page, at most all others
		return higher + min(own-1, maxList), nil
	}
	return at, nil
}

// place finds the job among the first of its lane; -1: not among the first maxList.
func (w *why) place(ctx context.Context, higher int64) (int64, error) {
	if higher >= maxList {
		return higher, nil
	}
	page, err := w.e.store.List(ctx, haulier.Query{State: haulier.Pending, Lanes: []haulier.Lane{w.j.Lane()}, Limit: maxList})
	if err != nil {
		return 0, fmt.Errorf("why: %w", err)
	}
	for i, j := range page.Jobs {
		if j.ID == w.j.ID {
			return int64(i), nil
		}
	}
	return -1, nil
}

func (w *why) paused() {
	if d := w.e.queues.get(w.j.Tenant, w.j.Queue); d.Paused {
		w.say("queue %s is paused since %s%s: resume it with `haulier queues resume %s`", w.j.Queue, d.PausedAt.Format(time.RFC3339), by(d.PausedBy), w.j.Queue)
	}
}

// handler says when there is none for the job, and reports whether that is not so.
func (w *why) handler() bool {
	lane := w.j.Lane()
	if lane.Kind != haulier.KindScript || w.e.handlers.of(lane) != nil {
		return true
	}
	until := ""
	if !w.j.RetryUntil.IsZero() {
		until = ", until its deadline at " + w.j.RetryUntil.Format(time.RFC3339)
	}
	w.say("type %s has no handler: it waits for one%s; `haulier handlers set %s` makes it", lane.Type, until, lane.Type)
	return false
}

// workers says which live sessions could run the job, or what they lack.
func (w *why) workers() {
	lane := w.j.Lane()
	var able, full int
	lacks := map[string]bool{}
	all := w.e.sessions.list("")
	for i := range all {
		s := &all[i]
		if _, ok := w.e.sched.runs(s, lane); !ok {
			lacks[lack(s, lane)] = true
			continue
		}
		if s.Draining {
			lacks["is draining"] = true
			continue
		}
		able++
		if s.Jobs >= s.Concurrency {
			full++
		}
	}
	w.x.Workers = able
	switch {
	case len(all) == 0:
		w.say("no worker is connected: start one with `haulier worker`")
	case able == 0:
		if label := lackedByAll(all, lane); label != "" {
			w.say("no worker has label %s: start one that can run it with `haulier worker --label %s`", label, label)
			return
		}
		w.say("no worker can run it: of %d connected, each %s", len(all), strings.Join(slices.Sorted(maps.Keys(lacks)), ", or "))
	case full == able:
		w.say("all %d workers that can run it are busy", able)
	}
}

// lackedByAll is a label which the lane's jobs ask for and that no session has, as key=value; "": there is none.
func lackedByAll(all []haulier.Session, l haulier.Lane) string {
	for k, v := range l.ParseRunsOn() {
		one := haulier.Lane{RunsOn: k + "=" + v}
		if !slices.ContainsFunc(all, func(s haulier.Session) bool { _, lacks := s.Lacks(one); return !lacks }) {
			return one.RunsOn
		}
	}
	return ""
}

// lack says in words why a session does not run a lane.
func lack(s *haulier.Session, l haulier.Lane) string {
	_, star := s.Queues["*"]
	_, listed := s.Queues[l.Queue]
	switch {
	case !s.Serves(l.Tenant):
		return fmt.Sprintf("does not serve tenant %s", l.Tenant)
	case !has(s.Kinds, l.Kind):
		return fmt.Sprintf("does not run %s tasks", l.Kind)
	case !star && !listed:
		return fmt.Sprintf("does not listen to queue %s", l.Queue)
	}
	if label, lacks := s.Lacks(l); lacks {
		return fmt.Sprintf("does not have label %s", label)
	}
	if l.Kind == haulier.KindScript && (len(s.Types) == 0 || has(s.Types, l.Type)) {
		return "does not have the language of its handler"
	}
	return fmt.Sprintf("does not know type %s", l.Type)
}

func (w *why) owned() {
	j := w.j
	verb := "is being prepared"
	if j.State == haulier.Running {
		verb = "runs"
		w.x.Since = j.StartedAt
	}
	w.say("it %s on worker %s, attempt %d%s", verb, j.Worker, j.Attempt, colon(j.Step))
	if j.Cancelling {
		w.say("it is being cancelled: its worker has not acknowledged yet%s", colon(j.Reason))
	}
	s, err := w.e.sessions.get(j.Session)
	if err != nil {
		return
	}
	w.x.Workers = 1
	if info := s.snapshot(); !info.Connected {
		w.x.Expected = info.SeenAt.Add(time.Duration(info.Lease))
		w.say("its worker is not connected, last seen %v ago: when its lease of %v is over, the job runs again", w.now.Sub(info.SeenAt).Round(time.Second), info.Lease)
	}
}

func tries(j *haulier.Job) string { return fmt.Sprintf("attempt %d of %d", j.Tries(), j.MaxAttempts) }

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func by(s string) string {
	if s == "" {
		return ""
	}
	return " by " + s
}

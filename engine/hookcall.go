package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

const (
	maxHookBody = 16 << 20 // bytes of what a hook is told, and of what it answers
	hookTries   = 3
	hookPause   = 100 * time.Millisecond // before the second try, and twice that before the third
)

// call asks a hook, again when it could not be reached, and returns what it says about each job: nil allows all. What a
// hook says after the fact is not read. status is that of HTTP, 0 when there was none.
func (e *Engine) call(ctx context.Context, h *haulier.Hook, m *webhook.Message) (list []webhook.Reply, status int, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	if len(body) > maxHookBody {
		return nil, 0, fmt.Errorf("%w: what it would be told has %d bytes, at most %d: enqueue fewer jobs at once", haulier.ErrTooLarge, len(body), maxHookBody)
	}
	header := map[string]string{"Content-Type": "application/json"}
	if h.Secret != "" {
		key, err := e.keyOf(ctx, h.Tenant, h.Secret)
		if err != nil {
			return nil, 0, fmt.Errorf("it can't be signed: %w", err)
		}
		maps.Copy(header, webhook.Sign(key, haulier.NewID(time.Now()).String(), time.Now(), body))
	}
	most := time.Duration(h.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%w: it took longer than %v", haulier.ErrUnavailable, most))
	defer cancel()
	req := webhook.Request{URL: h.URL, Header: header, Body: body, Most: maxHookBody}
	for try := 1; ; try++ {
		a, err := e.hooks.client.Do(ctx, &req)
		if a != nil {
			status = a.Status
		}
		again, err := heard(a, err)
		if err == nil {
			if m.Event == haulier.AfterEnqueue || m.Event == haulier.AfterPerform {
				return nil, status, nil
			}
			list, err = webhook.ParseReply(a.Body, len(m.Jobs))
			return list, status, err
		}
		if !again || try == hookTries || !paused(ctx, hookPause<<(try-1)) {
			return nil, status, err
		}
	}
}

// heard says whether a hook has answered as one does, and if not, whether to ask again.
func heard(a *webhook.Answer, err error) (again bool, _ error) {
	switch {
	case errors.Is(err, haulier.ErrForbidden) || errors.Is(err, haulier.ErrInvalid):
		return false, err
	case errors.Is(err, haulier.ErrUnavailable):
		return false, err // its time is over
	case err != nil:
		return true, fmt.Errorf("%w: %w", haulier.ErrUnavailable, err)
	case a.Cut:
		return false, fmt.Errorf("%w: its answer is longer than %d bytes", haulier.ErrTooLarge, maxHookBody)
	case a.Status/100 == 2:
		return false, nil
	case a.Status/100 == 5 || a.Status == http.StatusTooManyRequests || a.Status == http.StatusRequestTimeout || a.Status == http.StatusTooEarly:
		return true, fmt.Errorf("%w: it answered %d %s", haulier.ErrUnavailable, a.Status, http.StatusText(a.Status))
	}
	return false, fmt.Errorf("it answered %d %s", a.Status, http.StatusText(a.Status))
}

func paused(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// remote is a hook that is called over HTTP, as an EnqueueHook.
type remote struct {
	e *Engine
	h haulier.Hook
}

// HookName implements haulier.EnqueueHook.
func (r *remote) HookName() string { return r.h.Name }

// BeforeEnqueue implements haulier.EnqueueHook.
func (r *remote) BeforeEnqueue(ctx context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
	if !r.h.On(haulier.BeforeEnqueue) {
		return nil, nil
	}
	list, err := r.ask(ctx, haulier.BeforeEnqueue, jobs)
	if err != nil || list == nil {
		return nil, r.e.tolerated(&r.h, err)
	}
	verdicts := make([]haulier.Verdict, len(jobs))
	for i := range list {
		changed := *jobs[i]
		if err := list[i].Apply(&changed); err != nil {
			return nil, r.e.tolerated(&r.h, err)
		}
		verdicts[i] = list[i].Verdict
		*jobs[i] = changed
	}
	return verdicts, nil
}

// AfterEnqueue implements haulier.EnqueueHook.
func (r *remote) AfterEnqueue(ctx context.Context, jobs []*haulier.Spec) error {
	if !r.h.On(haulier.AfterEnqueue) {
		return nil
	}
	_, err := r.ask(ctx, haulier.AfterEnqueue, jobs)
	return r.e.tolerated(&r.h, err)
}

func (r *remote) ask(ctx context.Context, event haulier.HookEvent, jobs []*haulier.Spec) ([]webhook.Reply, error) {
	m := webhook.Message{Event: event, Hook: r.h.Name, Jobs: make([]webhook.Job, len(jobs))}
	for i := range jobs {
		m.Jobs[i] = webhook.JobOf(jobs[i])
	}
	list, _, err := r.e.call(ctx, &r.h, &m)
	return list, err
}

// tolerated is the error of a hook, unless it is to be ignored.
func (e *Engine) tolerated(h *haulier.Hook, err error) error {
	if err == nil || h.OnError != haulier.HookIgnore {
		return err
	}
	e.log.Warn("a hook failed, which it is set to ignore", "hook", h.Name, "tenant", h.Tenant, "err", err)
	return nil
}

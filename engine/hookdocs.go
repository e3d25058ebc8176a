package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// DocHook is the kind of a hook's document. Its key is tenant/name.
const DocHook haulier.DocKind = "hook"

// hooksEvery is how often the hooks that were set at other servers are looked for.
const hooksEvery = 10 * time.Second

// keepHooks keeps the view of hooks as the store has it.
func (e *Engine) keepHooks(ctx context.Context) error {
	tick := time.NewTicker(hooksEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := e.loadHooks(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("hooks that others set are not known", "err", err)
		}
	}
}

// loadHooks reads all hooks. One reads at a time, so that the view never goes back.
func (e *Engine) loadHooks(ctx context.Context) error {
	e.hooks.loading.Lock()
	defer e.hooks.loading.Unlock()
	seen := map[string][]haulier.Hook{}
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, DocHook, "", after, 500)
		if err != nil {
			return fmt.Errorf("hooks: %w", err)
		}
		if len(docs) == 0 {
			break
		}
		for i := range docs {
			after = docs[i].Key
			h, err := parseHook(&docs[i])
			if err != nil {
				return err
			}
			seen[h.Tenant] = append(seen[h.Tenant], h)
		}
	}
	if len(seen) == 0 {
		seen = nil
	}
	e.hooks.set.Store(&seen)
	return nil
}

func parseHook(d *haulier.Doc) (h haulier.Hook, err error) {
	if err := json.Unmarshal(d.Value, &h); err != nil {
		return h, fmt.Errorf("hook %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	return h, nil
}

// of lists a tenant's hooks; it costs nothing when there are none.
func (h *hooks) of(tenant string) []haulier.Hook { return (*h.set.Load())[tenant] }

func (h *hooks) any() bool { return len(h.own) > 0 || *h.set.Load() != nil }

// SetHook implements haulier.Gatekeeper.
func (e *Engine) SetHook(ctx context.Context, h haulier.Hook) (haulier.Hook, error) {
	h.Tenant = tenantOr(h.Tenant)
	if h.OnError == "" {
		h.OnError = haulier.HookFail
	}
	if h.Timeout == 0 {
		h.Timeout = haulier.Duration(haulier.DefaultHookTimeout)
	}
	if err := e.checkHook(&h); err != nil {
		return h, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return h, err
	}
	h.UpdatedAt = now.UTC().Truncate(time.Second)
	value, err := json.Marshal(h)
	if err != nil {
		return h, fmt.Errorf("hook %s: %w: %w", h.Name, haulier.ErrInvalid, err)
	}
	w := haulier.DocWrite{Kind: DocHook, Key: h.Tenant + "/" + h.Name, Expect: haulier.AnyRev, Value: value}
	if err := e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true, Tell: true}); err != nil {
		return h, fmt.Errorf("hook %s: %w", h.Name, err)
	}
	return h, e.loadHooks(ctx)
}

func (e *Engine) checkHook(h *haulier.Hook) error {
	for i, ev := range h.Events {
		if !slices.Contains(haulier.HookEvents, ev) {
			return field(fmt.Sprintf("events[%d]", i), fmt.Sprintf("%.20q is none of before_enqueue, after_enqueue, before_perform, after_perform", ev))
		}
	}
	known := slices.ContainsFunc(e.hooks.of(h.Tenant), func(o haulier.Hook) bool { return o.Name == h.Name })
	switch {
	case len(h.Events) == 0:
		return field("events", "is empty: say when the hook is called")
	case h.Timeout < 0 || time.Duration(h.Timeout) > haulier.MaxHookTimeout:
		return field("timeout", fmt.Sprintf("must be positive, and at most %v", haulier.MaxHookTimeout))
	case h.OnError != haulier.HookFail && h.OnError != haulier.HookIgnore:
		return field("on_error", fmt.Sprintf("%.20q is neither fail nor ignore", h.OnError))
	case !known && len(e.hooks.of(h.Tenant)) >= haulier.MaxHooks:
		return field("name", fmt.Sprintf("is one too many: a tenant has at most %d hooks", haulier.MaxHooks))
	}
	return first(
		func() error { return checkURL("url", h.URL) },
		func() error { return checkName("tenant", h.Tenant) },
		func() error { return checkName("name", h.Name) },
		func() error { return optional("secret", h.Secret) },
		func() error { return checkNames("queues", h.Queues) },
		func() error { return checkNames("types", h.Types) },
	)
}

func checkNames(name string, list []string) error {
	if len(list) > haulier.MaxHooks {
		return field(name, fmt.Sprintf("has %d names: at most %d", len(list), haulier.MaxHooks))
	}
	for i, v := range list {
		if err := checkName(fmt.Sprintf("%s[%d]", name, i), v); err != nil {
			return err
		}
	}
	return nil
}

// Hooks implements haulier.Gatekeeper.
func (e *Engine) Hooks(ctx context.Context, tenant string) ([]haulier.Hook, error) {
	if err := e.loadHooks(ctx); err != nil {
		return nil, err
	}
	return e.hooks.of(tenantOr(tenant)), nil
}

// Hook implements haulier.Gatekeeper.
func (e *Engine) Hook(ctx context.Context, tenant, name string) (haulier.Hook, error) {
	d, err := e.store.Doc(ctx, DocHook, tenantOr(tenant)+"/"+name)
	if err != nil {
		return haulier.Hook{}, fmt.Errorf("hook %s: %w", name, err)
	}
	return parseHook(&d)
}

// DeleteHook implements haulier.Gatekeeper.
func (e *Engine) DeleteHook(ctx context.Context, tenant, name string) error {
	if err := e.deleteDoc(ctx, DocHook, tenantOr(tenant), name); err != nil {
		return err
	}
	return e.loadHooks(ctx)
}

// TestHook implements haulier.Gatekeeper.
func (e *Engine) TestHook(ctx context.Context, tenant, name string, event haulier.HookEvent) (haulier.HookTrial, error) {
	h, err := e.Hook(ctx, tenant, name)
	if err != nil {
		return haulier.HookTrial{}, err
	}
	if event == "" {
		event = h.Events[0]
	}
	if !slices.Contains(haulier.HookEvents, event) {
		return haulier.HookTrial{}, field("event", fmt.Sprintf("%.20q is none of before_enqueue, after_enqueue, before_perform, after_perform", event))
	}
	s := haulier.Spec{Tenant: h.Tenant, Queue: haulier.DefaultQueue, Type: "test"}
	m := webhook.Message{Event: event, Hook: h.Name, Test: true, Jobs: []webhook.Job{webhook.JobOf(&s)}}
	begin := time.Now()
	list, status, err := e.call(ctx, &h, &m)
	out := haulier.HookTrial{Status: status, Took: haulier.Duration(time.Since(begin).Round(time.Millisecond))}
	switch {
	case err != nil:
		out.Error = err.Error()
	case len(list) > 0:
		out.Verdict = list[0].Verdict
	}
	if out.Action == "" && err == nil {
		out.Action = haulier.ActionAllow
	}
	return out, nil
}

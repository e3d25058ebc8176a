package client_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/haulier/haulier"
)

func TestHooksAndSecretsOverTheNetwork(t *testing.T) {
	c := dial(t, serve(t, newEngine(t), nil, "127.0.0.1:0").addr, "")
	ctx := t.Context()
	made, err := c.SetSecret(ctx, "", "ops", "")
	if err != nil || !strings.HasPrefix(made.Value, "whsec_") {
		t.Fatal(made, err)
	}
	if kept, err := c.SetSecret(ctx, "", "ops", made.Value); err != nil || kept.Value != "" {
		t.Fatal(kept, err)
	}
	if list, err := c.Secrets(ctx, ""); err != nil || len(list) != 1 || list[0].Name != "ops" || list[0].Value != "" {
		t.Fatal(list, err)
	}
	h, err := c.SetHook(ctx, haulier.Hook{Name: "gate", URL: "http://127.0.0.1:9/", Events: []haulier.HookEvent{haulier.BeforePerform, haulier.AfterPerform}, Secret: "ops"})
	if err != nil || h.OnError != haulier.HookFail || h.Tenant != haulier.DefaultTenant {
		t.Fatal(h, err)
	}
	if got, err := c.Hook(ctx, "", "gate"); err != nil || got.URL != h.URL || len(got.Events) != 2 {
		t.Fatal(got, err)
	}
	if list, err := c.Hooks(ctx, ""); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	trial, err := c.TestHook(ctx, "", "gate", haulier.AfterPerform)
	if err != nil || !strings.Contains(trial.Error, "--allow-private") {
		t.Fatal(trial, err)
	}
	id := add(t, c, haulier.Spec{Type: "mail"})[0]
	s := worker(t, c)
	j := claim(t, c, s.ID, 1)[0]
	if j.ID != id || j.Hooked != haulier.HookedBefore|haulier.HookedAfter {
		t.Fatalf("claimed %+v", j)
	}
	b, err := json.Marshal(j)
	var back haulier.Job
	if err = errors.Join(err, json.Unmarshal(b, &back)); err != nil || back.Hooked != j.Hooked {
		t.Errorf("as JSON %s, %v", b, err)
	}
	a, err := c.AskHooks(ctx, s.ID, haulier.HookCall{Ref: haulier.Ref{Job: id, Attempt: j.Attempt}, Event: haulier.BeforePerform})
	if err != nil || a.Hook != "gate" || !strings.Contains(a.Error, "--allow-private") {
		t.Errorf("answered %+v, %v", a, err)
	}
	if _, err := c.AskHooks(ctx, s.ID, haulier.HookCall{Ref: haulier.Ref{Job: id, Attempt: 9}, Event: haulier.BeforePerform}); !errors.Is(err, haulier.ErrLeaseLost) {
		t.Errorf("another attempt: %v", err)
	}
	if err := errors.Join(c.DeleteHook(ctx, "", "gate"), c.DeleteSecret(ctx, "", "ops")); err != nil {
		t.Error(err)
	}
	if err := c.DeleteSecret(ctx, "", "ops"); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

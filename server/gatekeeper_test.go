package server_test

import (
	"context"

	"github.com/haulier/haulier"
)

func (r *recorder) SetHook(_ context.Context, h haulier.Hook) (haulier.Hook, error) {
	return h, r.note("set hook %q %q %s", h.Tenant, h.Name, h.URL)
}

func (r *recorder) Hooks(_ context.Context, tenant string) ([]haulier.Hook, error) {
	return nil, r.note("hooks %q", tenant)
}

func (r *recorder) Hook(_ context.Context, tenant, name string) (haulier.Hook, error) {
	return haulier.Hook{Tenant: tenant, Name: name}, r.note("hook %q %q", tenant, name)
}

func (r *recorder) DeleteHook(_ context.Context, tenant, name string) error {
	return r.note("delete hook %q %q", tenant, name)
}

func (r *recorder) TestHook(_ context.Context, tenant, name string, event haulier.HookEvent) (haulier.HookTrial, error) {
	return haulier.HookTrial{}, r.note("test hook %q %q %s", tenant, name, event)
}

func (r *recorder) SetSecret(_ context.Context, tenant, name, value string) (haulier.Secret, error) {
	return haulier.Secret{Tenant: tenant, Name: name}, r.note("set secret %q %q %q", tenant, name, value)
}

func (r *recorder) Secrets(_ context.Context, tenant string) ([]haulier.Secret, error) {
	return nil, r.note("secrets %q", tenant)
}

func (r *recorder) DeleteSecret(_ context.Context, tenant, name string) error {
	return r.note("delete secret %q %q", tenant, name)
}

func (r *recorder) AskHooks(_ context.Context, _ haulier.ID, c haulier.HookCall) (haulier.HookAnswer, error) {
	return haulier.HookAnswer{}, r.note("ask hooks %v %d %s", c.Job, c.Attempt, c.Event)
}

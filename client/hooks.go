package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/haulier/haulier"
)

func hookPath(name, verb string) string { return "/v1/hooks/" + url.PathEscape(name) + verb }

func secretPath(name string) string { return "/v1/secrets/" + url.PathEscape(name) }

// SetHook implements haulier.Gatekeeper.
func (c *Client) SetHook(ctx context.Context, h haulier.Hook) (out haulier.Hook, err error) {
	err = c.send(ctx, &call{method: http.MethodPut, path: hookPath(h.Name, ""), query: tenantQuery(h.Tenant), repeat: true}, h, &out)
	return out, err
}

// Hooks implements haulier.Gatekeeper.
func (c *Client) Hooks(ctx context.Context, tenant string) ([]haulier.Hook, error) {
	var out struct {
		Hooks []haulier.Hook `json:"hooks"`
	}
	err := c.get(ctx, "/v1/hooks", tenant, &out)
	return out.Hooks, err
}

// Hook implements haulier.Gatekeeper.
func (c *Client) Hook(ctx context.Context, tenant, name string) (out haulier.Hook, err error) {
	err = c.get(ctx, hookPath(name, ""), tenant, &out)
	return out, err
}

// DeleteHook implements haulier.Gatekeeper.
func (c *Client) DeleteHook(ctx context.Context, tenant, name string) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: hookPath(name, ""), query: tenantQuery(tenant)}, nil, nil)
}

// TestHook implements haulier.Gatekeeper.
func (c *Client) TestHook(ctx context.Context, tenant, name string, event haulier.HookEvent) (out haulier.HookTrial, err error) {
	q := tenantQuery(tenant)
	if event != "" {
		if q == nil {
			q = url.Values{}
		}
		q.Set("event", string(event))
	}
	err = c.send(ctx, &call{method: http.MethodPost, path: hookPath(name, "/test"), query: q}, nil, &out)
	return out, err
}

// SetSecret implements haulier.Gatekeeper. Without a value it is not repeated when its answer was lost.
func (c *Client) SetSecret(ctx context.Context, tenant, name, value string) (out haulier.Secret, err error) {
	in := struct {
		Value string `json:"value,omitempty"`
	}{value}
	err = c.send(ctx, &call{method: http.MethodPut, path: secretPath(name), query: tenantQuery(tenant), repeat: value != ""}, in, &out)
	return out, err
}

// Secrets implements haulier.Gatekeeper.
func (c *Client) Secrets(ctx context.Context, tenant string) ([]haulier.Secret, error) {
	var out struct {
		Secrets []haulier.Secret `json:"secrets"`
	}
	err := c.get(ctx, "/v1/secrets", tenant, &out)
	return out.Secrets, err
}

// DeleteSecret implements haulier.Gatekeeper.
func (c *Client) DeleteSecret(ctx context.Context, tenant, name string) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: secretPath(name), query: tenantQuery(tenant)}, nil, nil)
}

// AskHooks implements haulier.Consumer.
func (c *Client) AskHooks(ctx context.Context, session haulier.ID, h haulier.HookCall) (out haulier.HookAnswer, err error) {
	in := struct {
		Job     haulier.ID        `json:"job"`
		Attempt int               `json:"attempt"`
		Event   haulier.HookEvent `json:"event"`
		Outcome haulier.Outcome   `json:"outcome,omitempty"`
		Code    int               `json:"code,omitempty"`
		Error   string            `json:"error,omitempty"`
		Result  []byte            `json:"result_bytes,omitempty"`
	}{h.Job, h.Attempt, h.Event, h.End.Outcome, h.End.Code, h.End.Error, h.End.Result}
	err = c.send(ctx, &call{method: http.MethodPost, path: sessionPath(session, "/hooks"), repeat: true}, in, &out)
	return out, err
}

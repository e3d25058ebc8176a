package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/haulier/haulier"
)

// get reads a list that a tenant's view has.
func (c *Client) get(ctx context.Context, path, tenant string, out any) error {
	return c.send(ctx, &call{method: http.MethodGet, path: path, query: tenantQuery(tenant), repeat: true}, nil, out)
}

// Queues implements haulier.Operator.
func (c *Client) Queues(ctx context.Context, tenant string) ([]haulier.QueueStatus, error) {
	var out struct {
		Queues []haulier.QueueStatus `json:"queues"`
	}
	err := c.get(ctx, "/v1/queues", tenant, &out)
	return out.Queues, err
}

// Counts implements haulier.Operator.
func (c *Client) Counts(ctx context.Context, tenant string) ([]haulier.Count, error) {
	var out struct {
		Counts []haulier.Count `json:"counts"`
	}
	err := c.get(ctx, "/v1/counts", tenant, &out)
	return out.Counts, err
}

// Sessions implements haulier.Operator.
func (c *Client) Sessions(ctx context.Context, tenant string) ([]haulier.Session, error) {
	var out struct {
		Workers []haulier.Session `json:"workers"`
	}
	err := c.get(ctx, "/v1/workers", tenant, &out)
	return out.Workers, err
}

// PauseQueue implements haulier.Operator. The server sets by.
func (c *Client) PauseQueue(ctx context.Context, tenant, queue string, paused bool, _ string) error {
	verb := "/resume"
	if paused {
		verb = "/pause"
	}
	return c.send(ctx, &call{method: http.MethodPost, path: "/v1/queues/" + url.PathEscape(queue) + verb, query: tenantQuery(tenant), repeat: true}, nil, nil)
}

// WeighQueue implements haulier.Operator. The server sets by.
func (c *Client) WeighQueue(ctx context.Context, tenant, queue string, weight int, _ string) error {
	in := struct {
		Weight int `json:"weight"`
	}{weight}
	return c.send(ctx, &call{method: http.MethodPut, path: "/v1/queues/" + url.PathEscape(queue), query: tenantQuery(tenant), repeat: true}, in, nil)
}

// SetLimit implements haulier.Operator.
func (c *Client) SetLimit(ctx context.Context, tenant, key string, l haulier.Limit) error {
	r := &call{method: http.MethodPut, path: "/v1/limits/" + url.PathEscape(key), query: tenantQuery(tenant), repeat: true}
	if l == (haulier.Limit{}) {
		r.method = http.MethodDelete
		return c.send(ctx, r, nil, nil)
	}
	return c.send(ctx, r, l, nil)
}

// Limits implements haulier.Operator.
func (c *Client) Limits(ctx context.Context, tenant string) ([]haulier.KeyStanding, error) {
	var out struct {
		Limits []haulier.KeyStanding `json:"limits"`
	}
	err := c.get(ctx, "/v1/limits", tenant, &out)
	return out.Limits, err
}

// Outcomes implements haulier.Operator.
func (c *Client) Outcomes(ctx context.Context, tenant string) ([]haulier.OutcomeCount, error) {
	var out struct {
		Outcomes []haulier.OutcomeCount `json:"outcomes"`
	}
	err := c.get(ctx, "/v1/outcomes", tenant, &out)
	return out.Outcomes, err
}

// CreateToken implements haulier.Operator.
func (c *Client) CreateToken(ctx context.Context, t haulier.Token) (haulier.Token, string, error) {
	in := struct {
		Name      string       `json:"name"`
		Role      haulier.Role `json:"role"`
		Tenant    string       `json:"tenant,omitempty"`
		ExpiresAt time.Time    `json:"expires_at,omitzero"`
	}{t.Name, t.Role, t.Tenant, t.ExpiresAt}
	var out struct {
		Token  haulier.Token `json:"token"`
		Secret string        `json:"secret"`
	}
	err := c.send(ctx, &call{method: http.MethodPost, path: "/v1/tokens"}, in, &out)
	return out.Token, out.Secret, err
}

// Tokens implements haulier.Operator.
func (c *Client) Tokens(ctx context.Context, tenant string) ([]haulier.Token, error) {
	var out struct {
		Tokens []haulier.Token `json:"tokens"`
	}
	err := c.get(ctx, "/v1/tokens", tenant, &out)
	return out.Tokens, err
}

// RevokeToken implements haulier.Operator.
func (c *Client) RevokeToken(ctx context.Context, tenant string, id haulier.ID) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: "/v1/tokens/" + id.String(), query: tenantQuery(tenant)}, nil, nil)
}

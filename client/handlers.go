package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/haulier/haulier"
)

func handlerPath(typ, verb string) string { return "/v1/handlers/" + url.PathEscape(typ) + verb }

// SetHandler implements haulier.Handlers. The server sets by.
func (c *Client) SetHandler(ctx context.Context, h haulier.Handler, _ string) (out haulier.Handler, err error) {
	in := struct {
		Lang   string `json:"lang"`
		Engine string `json:"eid,omitempty"`
		haulier.Scripts
	}{h.Lang, h.Engine, h.Scripts}
	err = c.send(ctx, &call{method: http.MethodPut, path: handlerPath(h.Type, ""), query: tenantQuery(h.Tenant), repeat: true}, in, &out)
	return out, err
}

type handlerList struct {
	Handlers []haulier.Handler `json:"handlers"`
}

// Handlers implements haulier.Handlers.
func (c *Client) Handlers(ctx context.Context, tenant string) ([]haulier.Handler, error) {
	var out handlerList
	err := c.get(ctx, "/v1/handlers", tenant, &out)
	return out.Handlers, err
}

// Handler implements haulier.Handlers.
func (c *Client) Handler(ctx context.Context, tenant, typ string, version int) (out haulier.Handler, err error) {
	q := withQuery(tenant, "version", version)
	err = c.send(ctx, &call{method: http.MethodGet, path: handlerPath(typ, ""), query: q, repeat: true}, nil, &out)
	return out, err
}

// HandlerVersions implements haulier.Handlers.
func (c *Client) HandlerVersions(ctx context.Context, tenant, typ string) ([]haulier.Handler, error) {
	var out handlerList
	err := c.get(ctx, handlerPath(typ, "/versions"), tenant, &out)
	return out.Handlers, err
}

// RollbackHandler implements haulier.Handlers. The server sets by. It is not repeated when its answer was lost.
func (c *Client) RollbackHandler(ctx context.Context, tenant, typ string, version int, _ string) (out haulier.Handler, err error) {
	q := withQuery(tenant, "version", version)
	err = c.send(ctx, &call{method: http.MethodPost, path: handlerPath(typ, "/rollback"), query: q}, nil, &out)
	return out, err
}

// DeleteHandler implements haulier.Handlers.
func (c *Client) DeleteHandler(ctx context.Context, tenant, typ string) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: handlerPath(typ, ""), query: tenantQuery(tenant)}, nil, nil)
}

package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/haulier/haulier"
)

// SetWindow implements haulier.Planner.
func (c *Client) SetWindow(ctx context.Context, w haulier.Window) (out haulier.Window, err error) {
	in := w
	in.Tenant, in.Name, in.WindowStanding = "", "", haulier.WindowStanding{}
	err = c.send(ctx, &call{method: http.MethodPut, path: "/v1/windows/" + url.PathEscape(w.Name), query: tenantQuery(w.Tenant), repeat: true}, in, &out)
	return out, err
}

// Windows implements haulier.Planner.
func (c *Client) Windows(ctx context.Context, tenant string) ([]haulier.Window, error) {
	var out struct {
		Windows []haulier.Window `json:"windows"`
	}
	err := c.get(ctx, "/v1/windows", tenant, &out)
	return out.Windows, err
}

// DeleteWindow implements haulier.Planner.
func (c *Client) DeleteWindow(ctx context.Context, tenant, name string) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: "/v1/windows/" + url.PathEscape(name), query: tenantQuery(tenant)}, nil, nil)
}

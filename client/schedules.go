package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/haulier/haulier"
)

func schedulePath(name, verb string) string { return "/v1/schedules/" + url.PathEscape(name) + verb }

// SetSchedule implements haulier.Planner.
func (c *Client) SetSchedule(ctx context.Context, s haulier.Schedule) (out haulier.Schedule, err error) {
	in := s
	in.Tenant, in.Name, in.ScheduleStanding = "", "", haulier.ScheduleStanding{}
	err = c.send(ctx, &call{method: http.MethodPut, path: schedulePath(s.Name, ""), query: tenantQuery(s.Tenant), repeat: true}, in, &out)
	return out, err
}

// Schedules implements haulier.Planner.
func (c *Client) Schedules(ctx context.Context, tenant string) ([]haulier.Schedule, error) {
	var out struct {
		Schedules []haulier.Schedule `json:"schedules"`
	}
	err := c.get(ctx, "/v1/schedules", tenant, &out)
	return out.Schedules, err
}

// Schedule implements haulier.Planner.
func (c *Client) Schedule(ctx context.Context, tenant, name string) (out haulier.Schedule, err error) {
	err = c.get(ctx, schedulePath(name, ""), tenant, &out)
	return out, err
}

// DeleteSchedule implements haulier.Planner.
func (c *Client) DeleteSchedule(ctx context.Context, tenant, name string) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: schedulePath(name, ""), query: tenantQuery(tenant)}, nil, nil)
}

// PauseSchedule implements haulier.Planner.
func (c *Client) PauseSchedule(ctx context.Context, tenant, name string, paused bool) (out haulier.Schedule, err error) {
	verb := "/resume"
	if paused {
		verb = "/pause"
	}
	err = c.send(ctx, &call{method: http.MethodPost, path: schedulePath(name, verb), query: tenantQuery(tenant), repeat: true}, nil, &out)
	return out, err
}

// RunSchedule implements haulier.Planner. The server sets by. It is not repeated when its answer was lost.
func (c *Client) RunSchedule(ctx context.Context, tenant, name, _ string) ([]haulier.ID, error) {
	var out struct {
		IDs []haulier.ID `json:"ids"`
	}
	err := c.send(ctx, &call{method: http.MethodPost, path: schedulePath(name, "/run"), query: tenantQuery(tenant)}, nil, &out)
	return out.IDs, err
}

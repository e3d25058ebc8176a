package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/haulier/haulier"
)

func workflowPath(name, more string) string { return "/v1/workflows/" + url.PathEscape(name) + more }

func runPath(id, more string) string { return "/v1/runs/" + url.PathEscape(id) + more }

// ApplyWorkflow implements haulier.Workflows. The name must be given. The server sets by.
func (c *Client) ApplyWorkflow(ctx context.Context, tenant, name, source, _ string) (out haulier.Workflow, err error) {
	in := struct {
		Source string `json:"source"`
	}{source}
	err = c.send(ctx, &call{method: http.MethodPut, path: workflowPath(name, ""), query: tenantQuery(tenant), repeat: true}, in, &out)
	return out, err
}

// Workflows implements haulier.Workflows.
func (c *Client) Workflows(ctx context.Context, tenant string) ([]haulier.Workflow, error) {
	var out struct {
		Workflows []haulier.Workflow `json:"workflows"`
	}
	err := c.get(ctx, "/v1/workflows", tenant, &out)
	return out.Workflows, err
}

// Workflow implements haulier.Workflows.
func (c *Client) Workflow(ctx context.Context, tenant, name string, version int) (out haulier.Workflow, err error) {
	q := withQuery(tenant, "version", version)
	err = c.send(ctx, &call{method: http.MethodGet, path: workflowPath(name, ""), query: q, repeat: true}, nil, &out)
	return out, err
}

func withQuery(tenant, name string, n int) url.Values {
	q := tenantQuery(tenant)
	if n > 0 {
		if q == nil {
			q = url.Values{}
		}
		q.Set(name, strconv.Itoa(n))
	}
	return q
}

// DeleteWorkflow implements haulier.Workflows.
func (c *Client) DeleteWorkflow(ctx context.Context, tenant, name string) error {
	return c.send(ctx, &call{method: http.MethodDelete, path: workflowPath(name, ""), query: tenantQuery(tenant)}, nil, nil)
}

// StartRun implements haulier.Workflows. The server sets by. It is not repeated when its answer was lost.
func (c *Client) StartRun(ctx context.Context, r haulier.RunRequest) (out haulier.Run, err error) {
	in := struct {
		haulier.RunRequest
		Payload json.RawMessage `json:"payload,omitempty"`
	}{r, asJSON(r.Payload)}
	err = c.send(ctx, &call{method: http.MethodPost, path: workflowPath(r.Workflow, "/runs"), query: tenantQuery(r.Tenant)}, in, &out)
	return out, err
}

// asJSON is a payload as it is or, when it is not JSON, as a string.
func asJSON(p []byte) json.RawMessage {
	if len(p) == 0 {
		return nil
	}
	if json.Valid(p) {
		return p
	}
	b, err := json.Marshal(string(p))
	if err != nil {
		return nil // a string always can be
	}
	return b
}

// Runs implements haulier.Workflows.
func (c *Client) Runs(ctx context.Context, tenant, workflow string, limit int) ([]haulier.Run, error) {
	var out struct {
		Runs []haulier.Run `json:"runs"`
	}
	q := withQuery(tenant, "limit", limit)
	err := c.send(ctx, &call{method: http.MethodGet, path: workflowPath(workflow, "/runs"), query: q, repeat: true}, nil, &out)
	return out.Runs, err
}

// GetRun implements haulier.Workflows.
func (c *Client) GetRun(ctx context.Context, tenant, id string) (out haulier.Run, err error) {
	err = c.get(ctx, runPath(id, ""), tenant, &out)
	return out, err
}

// CancelRun implements haulier.Workflows. The server sets by and reason.
func (c *Client) CancelRun(ctx context.Context, tenant, id, _, _ string) (haulier.Changed, error) {
	return c.changeRun(ctx, tenant, runPath(id, "/cancel"))
}

// RetryRun implements haulier.Workflows. The server sets by.
func (c *Client) RetryRun(ctx context.Context, tenant, id, _ string) (haulier.Changed, error) {
	return c.changeRun(ctx, tenant, runPath(id, "/retry"))
}

func (c *Client) changeRun(ctx context.Context, tenant, path string) (haulier.Changed, error) {
	var out struct {
		Changed int `json:"changed"`
	}
	err := c.send(ctx, &call{method: http.MethodPost, path: path, query: tenantQuery(tenant), repeat: true}, nil, &out)
	return haulier.Changed{N: out.Changed}, err
}

// WorkflowGraph implements haulier.Workflows.
func (c *Client) WorkflowGraph(ctx context.Context, tenant, workflow, run string, svg bool) (string, error) {
	path := workflowPath(workflow, "/graph")
	if run != "" {
		path = runPath(run, "/graph")
	}
	q := tenantQuery(tenant)
	if svg {
		if q == nil {
			q = url.Values{}
		}
		q.Set("format", "svg")
	}
	rep, err := c.do(ctx, &call{method: http.MethodGet, path: path, query: q, repeat: true})
	if err != nil {
		return "", err
	}
	return string(rep.body), nil
}

// PostEvent implements haulier.Workflows. The server sets by. It is not repeated when its answer was lost.
func (c *Client) PostEvent(ctx context.Context, s haulier.Signal) error {
	in := struct {
		Name    string          `json:"name"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{s.Name, asJSON(s.Payload)}
	return c.send(ctx, &call{method: http.MethodPost, path: "/v1/events", query: tenantQuery(s.Tenant)}, in, nil)
}

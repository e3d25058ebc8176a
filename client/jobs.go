package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const (
	maxGet     = 1000        // ids of one request, so that a reply is bounded
	waitAtOnce = time.Minute // of one request
)

// jobsOf reads a reply of jobs in the form of package wire.
func (c *Client) jobsOf(ctx context.Context, k *call) (*reply, []haulier.Job, error) {
	k.accept = wire.ContentType
	rep, err := c.do(ctx, k)
	if err != nil {
		return nil, nil, err
	}
	jobs, err := wire.ParseJobs(rep.body)
	if err != nil {
		return nil, nil, garbled(k, err)
	}
	return rep, jobs, nil
}

// inOrder puts jobs in the order of ids, nil where there is none.
func inOrder(ids []haulier.ID, jobs []haulier.Job) []*haulier.Job {
	byID := make(map[haulier.ID]*haulier.Job, len(jobs))
	for i := range jobs {
		byID[jobs[i].ID] = &jobs[i]
	}
	out := make([]*haulier.Job, len(ids))
	for i, id := range ids {
		out[i] = byID[id]
	}
	return out
}

// Get implements haulier.Operator.
func (c *Client) Get(ctx context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	var all []haulier.Job
	for part := range slices.Chunk(ids, maxGet) {
		in, err := body(idsBody{Tenant: tenant, IDs: part})
		if err != nil {
			return nil, err
		}
		_, jobs, err := c.jobsOf(ctx, &call{method: http.MethodPost, path: "/v1/jobs/get", body: in, bodyType: jsonType, repeat: true})
		if err != nil {
			return nil, err
		}
		all = append(all, jobs...)
	}
	return inOrder(ids, all), nil
}

type idsBody struct {
	Tenant string            `json:"tenant,omitempty"`
	IDs    []haulier.ID      `json:"ids,omitempty"`
	Filter *haulier.Filter   `json:"filter,omitempty"`
	Reason string            `json:"reason,omitempty"`
	Wait   *haulier.Duration `json:"wait,omitempty"`
}

// List implements haulier.Operator.
func (c *Client) List(ctx context.Context, f haulier.Filter, cursor string, limit int) (haulier.Page, error) {
	q := filterQuery(f)
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	rep, jobs, err := c.jobsOf(ctx, &call{method: http.MethodGet, path: "/v1/jobs", query: q, repeat: true})
	if err != nil {
		return haulier.Page{}, err
	}
	p := haulier.Page{Jobs: make([]*haulier.Job, len(jobs)), Next: rep.header.Get("Haulier-Next")}
	for i := range jobs {
		p.Jobs[i] = &jobs[i]
	}
	return p, nil
}

func filterQuery(f haulier.Filter) url.Values {
	q := url.Values{}
	for name, v := range map[string]string{"tenant": f.Tenant, "queue": f.Queue, "type": f.Type, "group": f.Group} {
		if v != "" {
			q.Set(name, v)
		}
	}
	for _, s := range f.States {
		q.Add("state", s.String())
	}
	for k, v := range f.Labels {
		q.Add("label", k+"="+v)
	}
	return q
}

// Wait implements haulier.Operator.
func (c *Client) Wait(ctx context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	wait := haulier.Duration(waitAtOnce)
	in, err := body(idsBody{Tenant: tenant, IDs: ids, Wait: &wait})
	if err != nil {
		return nil, err
	}
	for {
		rep, jobs, err := c.jobsOf(ctx, &call{method: http.MethodPost, path: "/v1/jobs/wait", body: in, bodyType: jsonType, repeat: true})
		if err != nil {
			return nil, err
		}
		if rep.header.Get("Haulier-Done") != "" {
			return inOrder(ids, jobs), nil
		}
	}
}

// Why implements haulier.Operator.
func (c *Client) Why(ctx context.Context, tenant string, id haulier.ID) (haulier.Explanation, error) {
	var out haulier.Explanation
	err := c.send(ctx, &call{method: http.MethodGet, path: "/v1/jobs/" + id.String() + "/why", query: tenantQuery(tenant), repeat: true}, nil, &out)
	return out, err
}

func tenantQuery(tenant string) url.Values {
	if tenant == "" {
		return nil
	}
	return url.Values{"tenant": {tenant}}
}

// Cancel implements haulier.Operator. The server sets by.
func (c *Client) Cancel(ctx context.Context, sel haulier.Selection, _, reason string) (haulier.Changed, error) {
	return c.change(ctx, "cancel", sel, reason)
}

// Retry implements haulier.Operator. The server sets by.
func (c *Client) Retry(ctx context.Context, sel haulier.Selection, _ string) (haulier.Changed, error) {
	return c.change(ctx, "retry", sel, "")
}

// Force implements haulier.Operator. The server sets by.
func (c *Client) Force(ctx context.Context, sel haulier.Selection, _ string) (haulier.Changed, error) {
	return c.change(ctx, "force", sel, "")
}

// Delete implements haulier.Operator. The server sets by.
func (c *Client) Delete(ctx context.Context, sel haulier.Selection, _ string) (haulier.Changed, error) {
	return c.change(ctx, "delete", sel, "")
}

func (c *Client) change(ctx context.Context, verb string, sel haulier.Selection, reason string) (haulier.Changed, error) {
	in := idsBody{Tenant: sel.Tenant, IDs: sel.IDs, Reason: reason}
	if len(sel.IDs) == 0 {
		in.Filter = sel.Filter
	}
	var out struct {
		Changed int                `json:"changed"`
		Errors  map[string]problem `json:"errors"`
	}
	if err := c.send(ctx, &call{method: http.MethodPost, path: "/v1/jobs/" + verb}, in, &out); err != nil {
		return haulier.Changed{}, err
	}
	ch := haulier.Changed{N: out.Changed}
	for name, p := range out.Errors {
		id, err := haulier.ParseID(name)
		if err != nil {
			return ch, err
		}
		if ch.Errors == nil {
			ch.Errors = map[haulier.ID]error{}
		}
		ch.Errors[id] = p.error()
	}
	return ch, nil
}

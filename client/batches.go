package client

import (
	"context"
	"net/http"

	"github.com/haulier/haulier"
)

// batchJob is a job as the body of a batch has it.
type batchJob struct {
	*haulier.Template
	RunAt string `json:"run_at,omitempty"`
}

func batchJobs(specs []haulier.Spec) []batchJob {
	out := make([]batchJob, len(specs))
	for i := range specs {
		out[i] = *batchJobOf(&specs[i])
	}
	return out
}

func batchJobOf(s *haulier.Spec) *batchJob {
	if s == nil {
		return nil
	}
	j := &batchJob{Template: haulier.TemplateOf(s)}
	if !s.RunAt.IsZero() {
		j.RunAt = s.RunAt.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
	}
	return j
}

// CreateBatch implements haulier.Batches. The server sets By. It is not repeated when its answer was lost.
func (c *Client) CreateBatch(ctx context.Context, r haulier.BatchRequest) (out haulier.BatchStatus, err error) {
	in := struct {
		Name      string     `json:"name,omitempty"`
		Jobs      []batchJob `json:"jobs,omitempty"`
		OnSuccess *batchJob  `json:"on_success,omitempty"`
		OnEnd     *batchJob  `json:"on_end,omitempty"`
		Open      bool       `json:"open,omitempty"`
	}{r.Name, batchJobs(r.Jobs), batchJobOf(r.OnSuccess), batchJobOf(r.OnEnd), r.Open}
	err = c.send(ctx, &call{method: http.MethodPost, path: "/v1/batches", query: tenantQuery(r.Tenant)}, in, &out)
	return out, err
}

// CloseBatch implements haulier.Batches. The server sets by.
func (c *Client) CloseBatch(ctx context.Context, tenant string, id haulier.ID, _ string) (out haulier.BatchStatus, err error) {
	err = c.send(ctx, &call{method: http.MethodPost, path: "/v1/batches/" + id.String() + "/close", query: tenantQuery(tenant), repeat: true}, nil, &out)
	return out, err
}

// GetBatch implements haulier.Batches.
func (c *Client) GetBatch(ctx context.Context, tenant string, id haulier.ID) (out haulier.BatchStatus, err error) {
	err = c.get(ctx, "/v1/batches/"+id.String(), tenant, &out)
	return out, err
}

// ListBatches implements haulier.Batches.
func (c *Client) ListBatches(ctx context.Context, tenant string, limit int) ([]haulier.BatchStatus, error) {
	var out struct {
		Batches []haulier.BatchStatus `json:"batches"`
	}
	err := c.send(ctx, &call{method: http.MethodGet, path: "/v1/batches", query: withQuery(tenant, "limit", limit), repeat: true}, nil, &out)
	return out.Batches, err
}

package server

import (
	"net/http"
	"time"

	"github.com/haulier/haulier"
)

func (s *Server) batchOperations() []operation {
	query := []param{tenantParam}
	return []operation{
		{id: "createBatch", method: http.MethodPost, path: "/v1/batches", tag: "batches", need: enqueue, summary: "Make a batch with its first jobs",
			doc:   "Further jobs join by their field batch, until all have ended. The callbacks wait until the batch is closed, which it is at once unless it is open.",
			query: query, body: batchBody{}, status: http.StatusCreated, reply: haulier.BatchStatus{}, do: (*call).createBatch},
		{id: "listBatches", method: http.MethodGet, path: "/v1/batches", tag: "batches", need: read, summary: "List the newest batches",
			query: append(query, textParam("limit", "at most this many; 50 unless said, at most 1000")), reply: batchList{}, do: (*call).listBatches},
		{id: "getBatch", method: http.MethodGet, path: "/v1/batches/{id}", tag: "batches", need: read, summary: "Show how a batch stands",
			query: query, reply: haulier.BatchStatus{}, do: (*call).getBatch},
		{id: "closeBatch", method: http.MethodPost, path: "/v1/batches/{id}/close", tag: "batches", need: enqueue, summary: "Say that no more jobs come from outside",
			query: query, bodyOptional: true, reply: haulier.BatchStatus{}, do: (*call).closeBatch},
	}
}

type batchBody struct {
	Name      string    `json:"name,omitempty" doc:"for people"`
	Jobs      []jobBody `json:"jobs,omitempty"`
	OnSuccess *jobBody  `json:"on_success,omitempty" doc:"enqueued when all jobs have succeeded"`
	OnEnd     *jobBody  `json:"on_end,omitempty" doc:"enqueued when all jobs have ended"`
	Open      bool      `json:"open,omitempty" doc:"more jobs come"`
}

type batchList struct {
	Batches []haulier.BatchStatus `json:"batches"`
}

func (c *call) createBatch() error {
	raw, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	var body batchBody
	if err := decodeJSON(raw, &body); err != nil {
		return err
	}
	if err := tooManyBytes(len(raw), len(body.Jobs)); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	r := haulier.BatchRequest{Tenant: tenant, Name: body.Name, Open: body.Open, By: c.who.name, Jobs: make([]haulier.Spec, len(body.Jobs))}
	now := time.Now()
	for i := range body.Jobs {
		if err := body.Jobs[i].spec(&r.Jobs[i], now); err != nil {
			return inItem("jobs", i, err)
		}
	}
	if r.OnSuccess, err = body.OnSuccess.callback(now); err != nil {
		return err
	}
	if r.OnEnd, err = body.OnEnd.callback(now); err != nil {
		return err
	}
	b, err := c.Queue.CreateBatch(c.ctx(), r)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusCreated, b)
}

// callback is a job that may be left out.
func (j *jobBody) callback(now time.Time) (*haulier.Spec, error) {
	if j == nil {
		return nil, nil
	}
	s := new(haulier.Spec)
	return s, j.spec(s, now)
}

func (c *call) batchOf(do func(tenant string, id haulier.ID) (haulier.BatchStatus, error)) error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	id, err := haulier.ParseID(c.r.PathValue("id"))
	if err != nil {
		return err
	}
	b, err := do(tenant, id)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, b)
}

func (c *call) getBatch() error {
	return c.batchOf(func(tenant string, id haulier.ID) (haulier.BatchStatus, error) {
		return c.Queue.GetBatch(c.ctx(), tenant, id)
	})
}

func (c *call) closeBatch() error {
	return c.batchOf(func(tenant string, id haulier.ID) (haulier.BatchStatus, error) {
		return c.Queue.CloseBatch(c.ctx(), tenant, id, c.who.name)
	})
}

func (c *call) listBatches() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	limit, err := c.number("limit", 1, 1000, 50)
	if err != nil {
		return err
	}
	list, err := c.Queue.ListBatches(c.ctx(), tenant, int(limit))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, batchList{Batches: orNone(list)})
}

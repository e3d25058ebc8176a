package server

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/haulier/haulier"
)

func (s *Server) queueOperations() []operation {
	tenants := []param{textParam("tenant", "of this tenant; left out: all that the token sees")}
	change := func(id, method, verb, summary string, body any, do func(*call) error) operation {
		return operation{id: id, method: method, path: "/v1/queues/{queue}" + verb, tag: "queues", summary: summary, need: operate,
			query: []param{tenantParam}, body: body, bodyOptional: body == nil, do: do}
	}
	return []operation{
		{id: "listQueues", method: http.MethodGet, path: "/v1/queues", tag: "queues", need: read, summary: "List queues",
			query: tenants, reply: queueList{}, do: (*call).listQueues},
		change("pauseQueue", http.MethodPost, "/pause", "Stop claims from a queue; what runs goes on", nil, (*call).pauseQueue),
		change("resumeQueue", http.MethodPost, "/resume", "Allow claims from a queue again", nil, (*call).resumeQueue),
		change("setQueue", http.MethodPut, "", "Set the share of a queue", weightBody{}, (*call).setQueue),
		{id: "listLimits", method: http.MethodGet, path: "/v1/limits", tag: "queues", need: read, summary: "List keys with a limit, and how they stand",
			query: []param{tenantParam}, reply: limitList{}, do: (*call).listLimits},
		{id: "setLimit", method: http.MethodPut, path: "/v1/limits/{key}", tag: "queues", need: operate, summary: "Limit a key, a queue or the tenant",
			doc:   "The key of a queue is queue: and its name, that of the whole tenant is tenant: alone. It counts at once.",
			query: []param{tenantParam}, body: haulier.Limit{}, do: (*call).setLimit},
		{id: "clearLimit", method: http.MethodDelete, path: "/v1/limits/{key}", tag: "queues", need: operate, summary: "Take a limit away",
			query: []param{tenantParam}, do: (*call).clearLimit},
		{id: "counts", method: http.MethodGet, path: "/v1/counts", tag: "queues", need: read, summary: "Numbers of jobs by lane and state",
			query: tenants, reply: countList{}, do: (*call).counts},
		{id: "listWorkers", method: http.MethodGet, path: "/v1/workers", tag: "workers", need: read, summary: "List the live sessions of workers",
			query: tenants, reply: workerList{}, do: (*call).listWorkers},
	}
}

type queueList struct {
	Queues []haulier.QueueStatus `json:"queues"`
}

type limitList struct {
	Limits []haulier.KeyStanding `json:"limits"`
}

type countList struct {
	Counts []haulier.Count `json:"counts"`
}

type workerList struct {
	Workers []haulier.Session `json:"workers"`
}

type weightBody struct {
	Weight int `json:"weight" doc:"share among the tenant's queues of equal priority, from 1 to 100"`
}

func (c *call) listQueues() error {
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	list, err := c.Queue.Queues(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, queueList{Queues: orNone(list)})
}

func (c *call) counts() error {
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	list, err := c.Queue.Counts(c.ctx(), tenant)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b haulier.Count) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
	return c.replyJSON(http.StatusOK, countList{Counts: orNone(list)})
}

func (c *call) listWorkers() error {
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	list, err := c.Queue.Sessions(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, workerList{Workers: orNone(list)})
}

func (c *call) listLimits() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Limits(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, limitList{Limits: orNone(list)})
}

func (c *call) setLimit() error {
	var l haulier.Limit
	if err := c.readJSON(&l); err != nil {
		return err
	}
	if l == (haulier.Limit{}) {
		return &haulier.FieldError{Field: "running", Msg: "is missing, and so is rate: give one of them, or DELETE the limit"}
	}
	return c.putLimit(l)
}

func (c *call) clearLimit() error { return c.putLimit(haulier.Limit{}) }

func (c *call) putLimit(l haulier.Limit) error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.SetLimit(c.ctx(), tenant, c.r.PathValue("key"), l); err != nil {
		return err
	}
	return c.replyNone()
}

// ownTenant is the one tenant that the query names or means.
func (c *call) ownTenant() (string, error) {
	tenant, err := c.text("tenant")
	if err != nil {
		return "", err
	}
	return c.who.own(tenant)
}

func (c *call) pauseQueue() error  { return c.setPaused(true) }
func (c *call) resumeQueue() error { return c.setPaused(false) }

func (c *call) setPaused(paused bool) error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.PauseQueue(c.ctx(), tenant, c.r.PathValue("queue"), paused, c.who.name); err != nil {
		return err
	}
	return c.replyNone()
}

func (c *call) setQueue() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	var body weightBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	if err := c.Queue.WeighQueue(c.ctx(), tenant, c.r.PathValue("queue"), body.Weight, c.who.name); err != nil {
		return err
	}
	return c.replyNone()
}

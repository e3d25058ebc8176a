package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const (
	maxIDs      = haulier.MaxBatch // ids in one request
	defaultPage = 100              // jobs of a page
	maxPage     = 1000
	defaultWait = time.Minute // of POST /v1/jobs/wait
	maxWait     = time.Hour
)

func (s *Server) jobOperations() []operation {
	byID := func(id, verb, summary string, need permission, do func(*call) error) operation {
		return operation{id: id, method: http.MethodPost, path: "/v1/jobs/{id}/" + verb, tag: "jobs", summary: summary, need: need,
			query: []param{tenantParam}, body: reasonBody{}, bodyOptional: true, do: do}
	}
	bySelection := func(id, verb, summary string, need permission, do func(*call) error) operation {
		return operation{id: id, method: http.MethodPost, path: "/v1/jobs/" + verb, tag: "jobs", summary: summary, need: need,
			doc:  "Selects by ids or by filter. By ids, errors says which could not be changed and why.",
			body: selectionBody{}, reply: changed{}, do: do}
	}
	return []operation{
		{id: "listJobs", method: http.MethodGet, path: "/v1/jobs", tag: "jobs", need: read, summary: "List jobs",
			doc: "A page may be short, even empty, while more follow: go on with next as the cursor until it is missing.",
			query: append(append([]param{}, filterParams...),
				textParam("cursor", "next of the page before"), numberParam("limit", "most jobs of the page, from 1 to 1000; 100 unless said")),
			reply: page{}, binary: true, do: (*call).listJobs},
		{id: "getJob", method: http.MethodGet, path: "/v1/jobs/{id}", tag: "jobs", need: read, summary: "Get a job",
			query: []param{tenantParam}, reply: haulier.Job{}, do: (*call).getJob},
		{id: "getJobs", method: http.MethodPost, path: "/v1/jobs/get", tag: "jobs", need: read, summary: "Get several jobs",
			doc: "Answers in the order of the ids; null for those that there are not.", body: idsBody{}, reply: jobList{},
			replyTypes: []string{wire.ContentType}, do: (*call).getJobs},
		{id: "waitJobs", method: http.MethodPost, path: "/v1/jobs/wait", tag: "jobs", need: read, summary: "Wait until jobs have ended", long: true,
			doc:  "Answers when all of the jobs have ended or the wait is over; done tells which.",
			body: waitBody{}, reply: waited{}, replyTypes: []string{wire.ContentType}, do: (*call).waitJobs},
		{id: "whyJob", method: http.MethodGet, path: "/v1/jobs/{id}/why", tag: "jobs", need: read, summary: "Why a job stands where it does",
			query: []param{tenantParam}, reply: haulier.Explanation{}, do: (*call).whyJob},
		byID("cancelJob", "cancel", "Cancel a job", change, (*call).cancelJob),
		byID("retryJob", "retry", "Run a job again", change, (*call).retryJob),
		byID("forceJob", "force", "Let a job start in spite of windows", operate, (*call).forceJob),
		{id: "deleteJob", method: http.MethodDelete, path: "/v1/jobs/{id}", tag: "jobs", need: operate, summary: "Delete a job that has ended",
			query: []param{tenantParam}, do: (*call).deleteJob},
		bySelection("cancelJobs", "cancel", "Cancel jobs", change, (*call).cancelJobs),
		bySelection("retryJobs", "retry", "Run jobs again", change, (*call).retryJobs),
		bySelection("forceJobs", "force", "Let jobs start in spite of windows", operate, (*call).forceJobs),
		bySelection("deleteJobs", "delete", "Delete jobs that have ended", operate, (*call).deleteJobs),
	}
}

// page is a page of jobs.
type page struct {
	Jobs []*haulier.Job `json:"jobs"`
	Next string         `json:"next,omitempty" doc:"cursor of the page that follows; missing after the last"`
}

type jobList struct {
	Jobs []*haulier.Job `json:"jobs"`
}

type idsBody struct {
	Tenant string       `json:"tenant,omitempty" doc:"the token's unless said"`
	IDs    []haulier.ID `json:"ids" doc:"from 1 to 10000 ids"`
}

type waitBody struct {
	Tenant string            `json:"tenant,omitempty" doc:"the token's unless said"`
	IDs    []haulier.ID      `json:"ids" doc:"from 1 to 10000 ids"`
	Wait   *haulier.Duration `json:"wait,omitempty" doc:"how long to wait, from 0s to 1h; 1m unless said"`
}

type waited struct {
	Done bool           `json:"done" doc:"all of the jobs have ended"`
	Jobs []*haulier.Job `json:"jobs" doc:"in the order of the ids, as they stand"`
}

type reasonBody struct {
	Reason string `json:"reason,omitempty" doc:"why, for the job's history"`
}

// nextHeader carries page.Next in the binary form.
const nextHeader = "Haulier-Next"

func (c *call) listJobs() error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	cursor, err := c.text("cursor")
	if err != nil {
		return err
	}
	limit, err := c.number("limit", 1, maxPage, defaultPage)
	if err != nil {
		return err
	}
	p, err := c.Queue.List(c.ctx(), f, cursor, int(limit))
	if err != nil {
		return err
	}
	if c.wantsBinary() {
		if p.Next != "" {
			c.w.Header().Set(nextHeader, p.Next)
		}
		return c.replyJobs(p.Jobs)
	}
	return c.replyJSON(http.StatusOK, page{Jobs: orNone(p.Jobs), Next: p.Next})
}

// replyJobs answers with the jobs that there are, in binary form.
func (c *call) replyJobs(jobs []*haulier.Job) error {
	list := make([]haulier.Job, 0, len(jobs))
	for _, j := range jobs {
		if j != nil {
			list = append(list, *j)
		}
	}
	return c.replyBinary(http.StatusOK, func(b []byte) []byte { return wire.AppendJobs(b, list) })
}

// orNone makes JSON say [] for an empty list.
func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (c *call) getJob() error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	j, err := c.job(tenant, id)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, j)
}

func (c *call) job(tenant string, id haulier.ID) (*haulier.Job, error) {
	jobs, err := c.Queue.Get(c.ctx(), tenant, []haulier.ID{id})
	if err != nil {
		return nil, err
	}
	if len(jobs) != 1 || jobs[0] == nil {
		return nil, fmt.Errorf("job %v: %w: it never was, was removed when its time had passed, or is of another tenant", id, haulier.ErrNotFound)
	}
	return jobs[0], nil
}

func (c *call) getJobs() error {
	var body idsBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	tenant, err := c.who.scope(body.Tenant)
	if err != nil {
		return err
	}
	if err := checkIDs(body.IDs); err != nil {
		return err
	}
	jobs, err := c.Queue.Get(c.ctx(), tenant, body.IDs)
	if err != nil {
		return err
	}
	if c.wantsBinary() {
		return c.replyJobs(jobs)
	}
	return c.replyJSON(http.StatusOK, jobList{Jobs: jobs})
}

func checkIDs(ids []haulier.ID) error {
	switch {
	case len(ids) == 0:
		return &haulier.FieldError{Field: "ids", Msg: "is empty or missing: name at least one job"}
	case len(ids) > maxIDs:
		return &haulier.FieldError{Field: "ids", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d ids: send at most %d in a request", len(ids), maxIDs)}
	}
	return nil
}

func (c *call) waitJobs() error {
	var body waitBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	tenant, err := c.who.scope(body.Tenant)
	if err != nil {
		return err
	}
	if err := checkIDs(body.IDs); err != nil {
		return err
	}
	wait := defaultWait
	if body.Wait != nil {
		if wait = time.Duration(*body.Wait); wait < 0 || wait > maxWait {
			return &haulier.FieldError{Field: "wait", Msg: fmt.Sprintf("must lie between 0s and %v: ask again when it is over", maxWait)}
		}
	}
	ctx, end := c.waiting()
	defer end()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	jobs, err := c.Queue.Wait(ctx, tenant, body.IDs)
	switch {
	case err == nil:
		return c.replyWaited(waited{Done: true, Jobs: jobs})
	case !errors.Is(err, context.DeadlineExceeded) || c.ctx().Err() != nil:
		return err
	}
	if jobs, err = c.Queue.Get(c.ctx(), tenant, body.IDs); err != nil {
		return err
	}
	return c.replyWaited(waited{Jobs: jobs})
}

// doneHeader carries waited.Done in the binary form.
const doneHeader = "Haulier-Done"

func (c *call) replyWaited(v waited) error {
	if c.wantsBinary() {
		if v.Done {
			c.w.Header().Set(doneHeader, "true")
		}
		return c.replyJobs(v.Jobs)
	}
	return c.replyJSON(http.StatusOK, v)
}

func (c *call) whyJob() error {
	id, err := c.pathID()
	if err != nil {
		return err
	}
	tenant, err := c.scopeOf()
	if err != nil {
		return err
	}
	why, err := c.Queue.Why(c.ctx(), tenant, id)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, why)
}

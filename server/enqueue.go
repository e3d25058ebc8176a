package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const keyHeader = "Idempotency-Key"

func (s *Server) enqueueOperations() []operation {
	return []operation{{
		id: "enqueue", method: http.MethodPost, path: "/v1/jobs", tag: "jobs", need: enqueue, binary: true,
		summary: "Enqueue jobs",
		doc: "Adds all of the jobs or, on an error, none. With an idempotency key, a repeated request answers the ids of the " +
			"first time, with repeated set. The status is 200 when nothing was added. The binary form carries several independent requests and always answers 200.",
		query: []param{boolParam("journal", "acknowledge from the server's journal, if it has one: plain jobs without an idempotency key are then accepted also while the "+
			"store is away, and can be looked at when they were ingested, usually a moment later; others are enqueued as usual")},
		headers: []param{textParam(keyHeader, "makes the request safe to repeat, for a week, within the tenant of its first job")},
		body:    enqueueBody{}, status: http.StatusCreated, reply: enqueued{}, do: (*call).enqueue,
	}}
}

// enqueueBody is the body of an enqueue.
type enqueueBody struct {
	Jobs []jobBody `json:"jobs" doc:"from 1 to 10000 jobs"`
}

// jobBody is a job as somebody asks for it. What is left out has a default.
type jobBody struct {
	Type         string            `json:"type,omitempty" doc:"names what the job does; the kind of its task unless said"`
	Queue        string            `json:"queue,omitempty" doc:"default unless said"`
	Tenant       string            `json:"tenant,omitempty" doc:"the token's unless said"`
	Task         haulier.Task      `json:"task,omitzero" doc:"how it runs; a function of that type in a worker unless said"`
	Payload      json.RawMessage   `json:"payload,omitempty" doc:"any JSON"`
	PayloadBytes []byte            `json:"payload_bytes,omitempty" doc:"instead of payload: any bytes, as base64"`
	Priority     int               `json:"priority,omitempty" doc:"from -10 to 10, higher first"`
	RunAt        time.Time         `json:"run_at,omitzero" doc:"not before this time"`
	Delay        haulier.Duration  `json:"delay,omitzero" doc:"instead of run_at: not before this has passed"`
	MaxAttempts  int               `json:"max_attempts,omitempty" doc:"10 unless said"`
	Inputs       []haulier.Input   `json:"inputs,omitempty" doc:"filesets that it finds in its working folder"`
	Outputs      *haulier.Output   `json:"outputs,omitempty" doc:"what becomes a version of a fileset when it has ended"`
	Backoff      *haulier.Backoff  `json:"backoff,omitzero" doc:"the wait between attempts: exponential with jitter unless said"`
	RetryUntil   time.Time         `json:"retry_until,omitzero" doc:"no further attempt starts after this time"`
	RetryFor     haulier.Duration  `json:"retry_for,omitzero" doc:"instead of retry_until: no further attempt starts after this has passed"`
	Timeout      haulier.Duration  `json:"timeout,omitzero" doc:"of one attempt; none unless said"`
	Labels       map[string]string `json:"labels,omitempty"`
	RunsOn       map[string]string `json:"runs_on,omitempty" doc:"labels that a worker must have to run it, such as gpu: true"`
	Retention    haulier.Duration  `json:"retention,omitzero" doc:"how long it is kept when it has ended; 7 days, failed 30, unless said"`
	Group        string            `json:"group,omitempty" doc:"name shared by jobs that belong together"`
	*haulier.Flow
}

// enqueued is the answer to an enqueue.
type enqueued struct {
	IDs      []haulier.ID      `json:"ids" doc:"in the order of the jobs"`
	Repeated bool              `json:"repeated,omitempty" doc:"the key was known: nothing new was added"`
	Existing []int             `json:"existing,omitempty" doc:"places in ids of jobs that were there before and keep a unique key"`
	Dropped  []haulier.Dropped `json:"dropped,omitempty" doc:"jobs that a hook kept from being added: their ids are all zeros"`
}

func (c *call) enqueue() error {
	q, err := c.producer()
	if err != nil {
		return err
	}
	body, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	if c.sentBinary() {
		return c.enqueueBinary(q, body)
	}
	req, err := parseEnqueue(body, time.Now())
	if err != nil {
		return err
	}
	if err := tooManyBytes(len(body), len(req.Jobs)); err != nil {
		return err
	}
	req.Key = c.r.Header.Get(keyHeader)
	if err := c.admit(&req); err != nil {
		return err
	}
	results, err := q.Enqueue(c.ctx(), []haulier.EnqueueRequest{req})
	if err != nil {
		return err
	}
	if len(results) != 1 {
		return fmt.Errorf("enqueue: %d results for one request", len(results))
	}
	if results[0].Err != nil {
		return results[0].Err
	}
	status := http.StatusCreated
	if r := &results[0]; r.Repeated || len(r.Existing)+len(r.Dropped) == len(r.IDs) {
		status = http.StatusOK
	}
	return c.replyJSON(status, enqueued{IDs: results[0].IDs, Repeated: results[0].Repeated, Existing: results[0].Existing, Dropped: results[0].Dropped})
}

// producer is who gets the jobs: the queue, or on request the journal.
func (c *call) producer() (haulier.Producer, error) {
	journal, err := c.flag("journal")
	switch {
	case err != nil || !journal:
		return c.Queue, err
	case c.Journal == nil:
		return nil, wrongQuery("journal", "can't be had: this server has no journal; leave it out, or start the server with --journal DIR")
	}
	return c.Journal, nil
}

// enqueueBinary carries out several requests, each with its own result.
func (c *call) enqueueBinary(q haulier.Producer, body []byte) error {
	reqs, err := wire.ParseEnqueueRequests(body)
	if err != nil {
		return badBinary(err)
	}
	if c.r.Header.Get(keyHeader) != "" {
		return &haulier.FieldError{Field: "header." + keyHeader, Msg: "belongs into each request of the binary form"}
	}
	jobs := 0
	results := make([]haulier.EnqueueResult, len(reqs))
	admitted, places := reqs[:0:len(reqs)], make([]int, 0, len(reqs))
	for i := range reqs {
		jobs += len(reqs[i].Jobs)
		if err := c.admit(&reqs[i]); err != nil {
			results[i].Err = err
			continue
		}
		admitted, places = append(admitted, reqs[i]), append(places, i)
	}
	if err := tooManyBytes(len(body), jobs); err != nil {
		return err
	}
	if len(admitted) > 0 {
		done, err := q.Enqueue(c.ctx(), admitted)
		if err != nil {
			return err
		}
		if len(done) != len(admitted) {
			return fmt.Errorf("enqueue: %d results for %d requests", len(done), len(admitted))
		}
		for i, r := range done {
			results[places[i]] = r
		}
	}
	for i := range results {
		results[i].Err = c.telling(results[i].Err)
	}
	return c.replyBinary(http.StatusOK, func(b []byte) []byte { return wire.AppendEnqueueResults(b, results) })
}

// admit puts the caller's name and tenant into a request, or refuses it.
func (c *call) admit(req *haulier.EnqueueRequest) error {
	req.By = c.who.name
	last, own := "", ""
	for i := range req.Jobs {
		t := &req.Jobs[i].Tenant
		if i == 0 || *t != last {
			tenant, err := c.who.own(*t)
			if err != nil {
				return inItem("jobs", i, err)
			}
			last, own = *t, tenant
		}
		*t = own
	}
	return nil
}

// inItem says which item of a list in the request an error is about.
func inItem(list string, i int, err error) error {
	var f *haulier.FieldError
	if errors.As(err, &f) {
		return &haulier.FieldError{Field: fmt.Sprintf("%s[%d].%s", list, i, f.Field), Msg: f.Msg, Kind: f.Kind}
	}
	return fmt.Errorf("%s[%d]: %w", list, i, err)
}

// tooManyBytes leaves bodies over maxBatchBody to single jobs with a large payload.
func tooManyBytes(size, jobs int) error {
	if size <= maxBatchBody || jobs == 1 {
		return nil
	}
	return fmt.Errorf("body: %w: %d bytes for %d jobs: at most %d bytes are taken for more than one job; send fewer at once",
		haulier.ErrTooLarge, size, jobs, maxBatchBody)
}

// badBinary is a body that is not in the form of package wire: the sender's fault, not the disk's.
func badBinary(err error) error {
	if errors.Is(err, haulier.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("body: %w: not of the type %s: %v", haulier.ErrInvalid, wire.ContentType, err)
}

// parseEnqueue reads the JSON of an enqueue. Payloads share memory with b.
func parseEnqueue(b []byte, now time.Time) (haulier.EnqueueRequest, error) {
	var body enqueueBody
	if err := decodeJSON(b, &body); err != nil {
		return haulier.EnqueueRequest{}, err
	}
	if len(body.Jobs) == 0 {
		return haulier.EnqueueRequest{}, &haulier.FieldError{Field: "jobs", Msg: `is empty or missing: send {"jobs": [{"type": …}]}`}
	}
	if len(body.Jobs) > haulier.MaxBatch {
		return haulier.EnqueueRequest{}, &haulier.FieldError{Field: "jobs", Kind: haulier.ErrTooLarge,
			Msg: fmt.Sprintf("has %d jobs: send at most %d in a request", len(body.Jobs), haulier.MaxBatch)}
	}
	req := haulier.EnqueueRequest{Jobs: make([]haulier.Spec, len(body.Jobs))}
	for i := range body.Jobs {
		if err := body.Jobs[i].spec(&req.Jobs[i], now); err != nil {
			return req, inItem("jobs", i, err)
		}
	}
	return req, nil
}

// spec turns what was asked into s.
func (j *jobBody) spec(s *haulier.Spec, now time.Time) error {
	switch {
	case j.Payload != nil && j.PayloadBytes != nil:
		return &haulier.FieldError{Field: "payload_bytes", Msg: "is given besides payload: send one of them"}
	case !j.RunAt.IsZero() && j.Delay != 0:
		return &haulier.FieldError{Field: "delay", Msg: "is given besides run_at: send one of them"}
	case j.Delay < 0:
		return &haulier.FieldError{Field: "delay", Msg: "is negative: leave it out to start at once"}
	case !j.RetryUntil.IsZero() && j.RetryFor != 0:
		return &haulier.FieldError{Field: "retry_for", Msg: "is given besides retry_until: send one of them"}
	case j.RetryFor < 0:
		return &haulier.FieldError{Field: "retry_for", Msg: "is negative: leave it out for no deadline"}
	}
	*s = haulier.Spec{
		Tenant: j.Tenant, Queue: j.Queue, Type: j.Type, Task: j.Task, Payload: j.PayloadBytes, Priority: j.Priority,
		RunAt: j.RunAt, MaxAttempts: j.MaxAttempts, Files: haulier.FilesOf(j.Inputs, j.Outputs), Backoff: j.Backoff, RetryUntil: j.RetryUntil, Timeout: j.Timeout,
		Labels: j.Labels, RunsOn: j.RunsOn, Retention: j.Retention, Group: j.Group, Flow: j.Flow,
	}
	if j.Payload != nil {
		s.Payload = j.Payload
	}
	if j.Delay > 0 {
		s.RunAt = now.Add(time.Duration(j.Delay))
	}
	if j.RetryFor > 0 {
		s.RetryUntil = now.Add(time.Duration(j.RetryFor))
	}
	return nil
}

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

// maxHold bounds a held reply to a renewal: half of the longest lease.
const maxHold = haulier.MaxLease / 2

func (s *Server) sessionOperations() []operation {
	return []operation{
		{id: "openSession", method: http.MethodPost, path: "/v1/sessions", tag: "workers", need: work, summary: "Open a session, or resume one",
			doc:  "With an id it resumes that session with its jobs, as a worker does that takes over from one that was killed.",
			body: sessionBody{}, status: http.StatusCreated, reply: haulier.Session{}, do: (*call).openSession},
		{id: "renewSession", method: http.MethodPost, path: "/v1/sessions/{id}/renew", tag: "workers", need: work, binary: true, long: true,
			summary: "Renew the lease of a session",
			doc: "Held back up to wait while there is nothing to tell. Repeat it at once: while one is held, the worker counts as connected. " +
				"Stop the jobs in lost, and those in cancel, which are repeated until they were reported.",
			body: renewBody{}, bodyOptional: true, reply: haulier.RenewReply{}, do: (*call).renew},
		{id: "closeSession", method: http.MethodDelete, path: "/v1/sessions/{id}", tag: "workers", need: work, summary: "Close a session",
			doc: "What it still holds goes back to its lanes.", do: (*call).closeSession},
		{id: "claim", method: http.MethodPost, path: "/v1/sessions/{id}/claim", tag: "workers", need: work, binary: true, long: true,
			summary: "Claim jobs", doc: "Takes up to n jobs, waiting for the first of them. None is no error.",
			body: claimBody{}, bodyOptional: true, reply: claimed{}, do: (*call).claim},
		{id: "payload", method: http.MethodGet, path: "/v1/sessions/{id}/payload", tag: "workers", need: work, summary: "Get a payload that is a blob",
			query: []param{textParam("job", "the job's id"), numberParam("attempt", "the attempt that the session holds")}, long: true,
			replyTypes: []string{"application/octet-stream"}, do: (*call).payload},
		{id: "askHooks", method: http.MethodPost, path: "/v1/sessions/{id}/hooks", tag: "workers", need: work, long: true,
			summary: "Have the hooks around an attempt called",
			doc:     "A worker calls it at the events that hooks of a claimed job names, and carries out what the answer says. See docs/hooks.md.",
			body:    askHooksBody{}, reply: haulier.HookAnswer{}, do: (*call).askHooks},
		{id: "report", method: http.MethodPost, path: "/v1/sessions/{id}/reports", tag: "workers", need: work, binary: true,
			summary: "Report on jobs of a session", doc: "Each report is carried out or not by itself: results has null or why not, in their order.",
			body: reportsBody{}, reply: reported{}, do: (*call).report},
	}
}

// sessionBody is what a worker says of itself.
type sessionBody struct {
	ID          haulier.ID        `json:"id,omitzero" doc:"of a session to resume"`
	Worker      string            `json:"worker" doc:"the worker's name, as people know it"`
	Tenants     []string          `json:"tenants,omitempty" doc:"whose jobs it runs; the token's unless said"`
	Queues      map[string]int    `json:"queues,omitempty" doc:"weight (1 to 100) by queue; * stands for all others"`
	Kinds       []haulier.Kind    `json:"kinds,omitempty" doc:"kinds of task it can run"`
	Types       []string          `json:"types,omitempty" doc:"types it runs; all unless said"`
	Languages   []string          `json:"languages,omitempty" doc:"of handlers that it can run, for the kind script"`
	Concurrency int               `json:"concurrency,omitempty" doc:"jobs it runs at once"`
	Lease       haulier.Duration  `json:"lease,omitzero" doc:"how long the session lives without being renewed; 30s unless said"`
	Host        string            `json:"host,omitempty"`
	PID         int               `json:"pid,omitempty"`
	Version     string            `json:"version,omitempty"`
	Addresses   []string          `json:"addresses,omitempty" doc:"of the machine, at most 32"`
	Load        *haulier.Load     `json:"load,omitempty" doc:"of the machine"`
	Labels      map[string]string `json:"labels,omitempty" doc:"what jobs may ask for in runs_on"`
}

type renewBody struct {
	Wait  haulier.Duration `json:"wait,omitzero" doc:"how long the reply may be held back; at most half the lease"`
	Epoch string           `json:"epoch,omitempty" doc:"epoch of the reply before"`
	Held  []haulier.Ref    `json:"held,omitempty" doc:"the jobs that the worker runs; needed when resend asked for them"`
	Drain bool             `json:"drain,omitempty" doc:"give this session no more jobs"`
	Load  *haulier.Load    `json:"load,omitempty" doc:"how busy the worker's machine is"`
	// Of RenewRequest.Settle.
	Settle bool `json:"settle,omitempty" doc:"held is all that the worker holds, and no claim is under way: what the session has besides goes back to its lanes"`
	// Of RenewRequest.Claims.
	Claims uint64 `json:"claims,omitempty" doc:"with settle: number of the newest claim; claims up to it that arrive later find nothing"`
}

type claimBody struct {
	N    int              `json:"n,omitempty" doc:"most jobs, from 1 to 1000; 1 unless said"`
	Wait haulier.Duration `json:"wait,omitzero" doc:"how long to wait for the first, at most 1m"`
	// Of ClaimRequest.Number.
	Number uint64 `json:"number,omitempty" doc:"grows from claim to claim of a session; see claims of a renewal"`
}

type claimed struct {
	Jobs []haulier.Job `json:"jobs"`
}

func (c *call) openSession() error {
	var b sessionBody
	if err := c.readJSON(&b); err != nil {
		return err
	}
	if len(b.Tenants) == 0 {
		own, err := c.who.own("")
		if err != nil {
			return err
		}
		b.Tenants = []string{own}
	}
	if err := c.who.serves(b.Tenants); err != nil {
		return err
	}
	if !b.ID.IsNil() {
		if err := c.admitSession(c.ctx(), c.who, b.ID); err != nil {
			return err
		}
	}
	s, err := c.Queue.OpenSession(c.ctx(), haulier.Session{
		ID: b.ID, Worker: b.Worker, Tenants: b.Tenants, Queues: b.Queues, Kinds: b.Kinds, Types: b.Types, Languages: b.Languages, Concurrency: b.Concurrency,
		Lease: b.Lease, Host: b.Host, PID: b.PID, Version: b.Version, Addresses: b.Addresses, Load: b.Load, Labels: b.Labels,
	})
	if err != nil {
		return err
	}
	c.sessions.put(s.ID, s.Tenants)
	return c.replyJSON(http.StatusCreated, s)
}

// session is the one in the path, if the caller may use it.
func (c *call) session() (haulier.ID, error) {
	id, err := c.pathID()
	if err != nil {
		return id, err
	}
	return id, c.admitSession(c.ctx(), c.who, id)
}

// forget drops what is remembered of a session that is no more.
func (c *call) forget(id haulier.ID, err error) error {
	if errors.Is(err, haulier.ErrLeaseLost) {
		c.sessions.drop(id)
	}
	return err
}

func (c *call) renew() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	r, err := c.renewRequest()
	if err != nil {
		return err
	}
	r.Session = id
	if r.Wait < 0 || r.Wait > maxHold {
		return &haulier.FieldError{Field: "wait", Msg: fmt.Sprintf("must lie between 0s and %v", maxHold)}
	}
	ctx, end := c.waiting()
	defer end()
	reply, err := c.Queue.Renew(ctx, r)
	if err != nil {
		return c.forget(id, err)
	}
	if c.wantsBinary() {
		return c.replyBinary(http.StatusOK, func(b []byte) []byte { return wire.AppendRenewReply(b, &reply) })
	}
	return c.replyJSON(http.StatusOK, reply)
}

func (c *call) renewRequest() (haulier.RenewRequest, error) {
	if c.sentBinary() {
		b, err := c.readBody(maxBatchBody)
		if err != nil {
			return haulier.RenewRequest{}, err
		}
		r, err := wire.ParseRenewRequest(b)
		if err != nil {
			return r, badBinary(err)
		}
		return r, nil
	}
	var b renewBody
	err := c.readJSON(&b)
	return haulier.RenewRequest{Wait: time.Duration(b.Wait), Epoch: b.Epoch, Held: b.Held, Drain: b.Drain, Settle: b.Settle, Claims: b.Claims, Load: b.Load}, err
}

func (c *call) closeSession() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	if err := c.Queue.CloseSession(c.ctx(), id); err != nil {
		return c.forget(id, err)
	}
	c.sessions.drop(id)
	return c.replyNone()
}

func (c *call) claim() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	r, err := c.claimRequest()
	if err != nil {
		return err
	}
	r.Session = id
	if r.N < 1 || r.N > haulier.MaxClaim {
		return &haulier.FieldError{Field: "n", Msg: fmt.Sprintf("is %d: claim from 1 to %d jobs", r.N, haulier.MaxClaim)}
	}
	if r.Wait < 0 || r.Wait > time.Minute {
		return &haulier.FieldError{Field: "wait", Msg: "must lie between 0s and 1m: ask again when it is over"}
	}
	ctx, end := c.waiting()
	defer end()
	jobs, err := c.Queue.Claim(ctx, r)
	if err != nil {
		return c.forget(id, err)
	}
	if len(jobs) > 0 && c.ctx().Err() != nil {
		return c.giveBack(id, jobs)
	}
	if c.wantsBinary() {
		return c.replyBinary(http.StatusOK, func(b []byte) []byte { return wire.AppendJobs(b, jobs) })
	}
	return c.replyJSON(http.StatusOK, claimed{Jobs: orNone(jobs)})
}

// giveBack returns jobs to their lanes that were claimed for a worker which went
// away before it could hear of them: its session may live on, and nobody would run them.
func (c *call) giveBack(session haulier.ID, jobs []haulier.Job) error {
	reports := make([]haulier.Report, len(jobs))
	for i := range jobs {
		reports[i] = haulier.Report{Ref: haulier.Ref{Job: jobs[i].ID, Attempt: jobs[i].Attempt}, Kind: haulier.ReportRelease,
			Error: "its worker's connection broke before it heard of it"}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx()), plainDeadline)
	defer cancel()
	if _, err := c.Queue.Report(ctx, session, reports); err != nil {
		c.Log.Warn("claimed jobs not given back", "err", err, "session", session)
	}
	return c.ctx().Err()
}

func (c *call) claimRequest() (haulier.ClaimRequest, error) {
	if c.sentBinary() {
		b, err := c.readBody(maxPlainBody)
		if err != nil {
			return haulier.ClaimRequest{}, err
		}
		r, err := wire.ParseClaimRequest(b)
		if err != nil {
			return r, badBinary(err)
		}
		return r, nil
	}
	b := claimBody{N: 1}
	err := c.readJSON(&b)
	return haulier.ClaimRequest{N: b.N, Wait: time.Duration(b.Wait), Number: b.Number}, err
}

func (c *call) payload() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	name, err := c.text("job")
	if err != nil {
		return err
	}
	job, err := haulier.ParseID(name)
	if err != nil {
		return wrongQuery("job", "%q is no job's id", clip(name))
	}
	attempt, err := c.number("attempt", 1, 1<<30, 0)
	if err != nil {
		return err
	}
	if attempt == 0 {
		return wrongQuery("attempt", "is missing: name the attempt that the session holds")
	}
	b, err := c.Queue.Payload(c.ctx(), id, haulier.Ref{Job: job, Attempt: int(attempt)})
	if err != nil {
		return err
	}
	c.send(http.StatusOK, "application/octet-stream", b)
	return nil
}

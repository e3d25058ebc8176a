package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// OpenSession implements haulier.Consumer.
func (c *Client) OpenSession(ctx context.Context, s haulier.Session) (haulier.Session, error) {
	// Facts that only the server knows are left out; it refuses what it does not take.
	in := struct {
		ID          haulier.ID        `json:"id,omitzero"`
		Worker      string            `json:"worker"`
		Tenants     []string          `json:"tenants,omitempty"`
		Queues      map[string]int    `json:"queues,omitempty"`
		Kinds       []haulier.Kind    `json:"kinds,omitempty"`
		Types       []string          `json:"types,omitempty"`
		Languages   []string          `json:"languages,omitempty"`
		Concurrency int               `json:"concurrency,omitempty"`
		Lease       haulier.Duration  `json:"lease,omitzero"`
		Host        string            `json:"host,omitempty"`
		PID         int               `json:"pid,omitempty"`
		Version     string            `json:"version,omitempty"`
		Addresses   []string          `json:"addresses,omitempty"`
		Load        *haulier.Load     `json:"load,omitempty"`
		Labels      map[string]string `json:"labels,omitempty"`
	}{s.ID, s.Worker, s.Tenants, s.Queues, s.Kinds, s.Types, s.Languages, s.Concurrency, s.Lease, s.Host, s.PID, s.Version, s.Addresses, s.Load, s.Labels}
	var out haulier.Session
	// A session that was opened unnoticed expires by itself, so opening is safe to repeat.
	err := c.send(ctx, &call{method: http.MethodPost, path: "/v1/sessions", repeat: true}, in, &out)
	return out, err
}

func sessionPath(id haulier.ID, more string) string { return "/v1/sessions/" + id.String() + more }

// Renew implements haulier.Consumer. It is not repeated when its connection broke: the worker must
// hear of that, for the server shortens the lease then.
func (c *Client) Renew(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
	k := &call{method: http.MethodPost, path: sessionPath(r.Session, "/renew"), body: wire.AppendRenewRequest(nil, &r)}
	rep, err := c.binary(ctx, k)
	if err != nil {
		return haulier.RenewReply{}, err
	}
	out, err := wire.ParseRenewReply(rep.body)
	if err != nil {
		return out, garbled(k, err)
	}
	return out, nil
}

// CloseSession implements haulier.Consumer.
func (c *Client) CloseSession(ctx context.Context, id haulier.ID) error {
	err := c.send(ctx, &call{method: http.MethodDelete, path: sessionPath(id, "")}, nil, nil)
	c.forget(id)
	return err
}

// forget drops what is kept for a session that is no more.
func (c *Client) forget(id haulier.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reporters, id)
}

// Claim implements haulier.Consumer. It is not repeated: jobs of a claim whose reply was lost
// come back when the worker tells what it holds, or with the end of the session.
func (c *Client) Claim(ctx context.Context, r haulier.ClaimRequest) ([]haulier.Job, error) {
	k := &call{method: http.MethodPost, path: sessionPath(r.Session, "/claim"), body: wire.AppendClaimRequest(nil, &r)}
	rep, err := c.binary(ctx, k)
	if err != nil {
		return nil, err
	}
	jobs, err := wire.ParseJobs(rep.body)
	if err != nil {
		return nil, garbled(k, err)
	}
	return jobs, nil
}

// Payload implements haulier.Consumer.
func (c *Client) Payload(ctx context.Context, session haulier.ID, ref haulier.Ref) ([]byte, error) {
	rep, err := c.do(ctx, &call{method: http.MethodGet, path: sessionPath(session, "/payload"), repeat: true,
		query: url.Values{"job": {ref.Job.String()}, "attempt": {strconv.Itoa(ref.Attempt)}}})
	if err != nil {
		return nil, err
	}
	return rep.body, nil
}

// Report implements haulier.Consumer. Reports are safe to repeat: what was
// carried out before is refused or dropped by offset, not done again. A finish
// or release that was carried out, but whose answer was lost, ends in ErrLeaseLost.
func (c *Client) Report(ctx context.Context, session haulier.ID, reports []haulier.Report) ([]error, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	errs, err := c.reporter(session).ask(ctx, reports)
	if errors.Is(err, haulier.ErrLeaseLost) {
		c.forget(session)
	}
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return errs, nil
}

// reporter joins the reports of a session.
func (c *Client) reporter(session haulier.ID) *joiner[haulier.Report, error] {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.reporters[session]
	if j == nil {
		j = &joiner[haulier.Report, error]{
			live: c.live, most: 2, items: haulier.MaxReports, sizeOf: reportSize, start: c.start,
			send: func(ctx context.Context, list []haulier.Report) ([]error, []error) {
				return c.sendReports(ctx, session, list)
			},
		}
		c.reporters[session] = j
	}
	return j
}

func reportSize(r *haulier.Report) (items, bytes int) {
	bytes = len(r.Log) + len(r.Result) + len(r.Error) + 128
	for i := range r.Then {
		bytes += len(r.Then[i].Payload) + 128
	}
	return 1, bytes
}

func (c *Client) sendReports(ctx context.Context, session haulier.ID, list []haulier.Report) (errs, failed []error) {
	failed = make([]error, len(list))
	k := &call{method: http.MethodPost, path: sessionPath(session, "/reports"), body: wire.AppendReports(nil, list), repeat: true}
	rep, err := c.binary(ctx, k)
	if err == nil {
		var told []error
		if told, err = wire.ParseErrors(rep.body); err == nil && len(told) != len(list) {
			err = fmt.Errorf("%d results for %d reports", len(told), len(list))
		}
		if err == nil {
			return again(rep, list, told), failed
		}
		err = garbled(k, err)
	}
	for i := range failed {
		failed[i] = err
	}
	return failed, failed
}

// again corrects the answers to reports that were sent more than once. A start
// that is in conflict was carried out the first time: only then does the job run
// under this session and attempt.
func again(rep *reply, list []haulier.Report, told []error) []error {
	for i, err := range told {
		if rep.repeated && list[i].Kind == haulier.ReportStart && errors.Is(err, haulier.ErrConflict) {
			told[i] = nil
		}
	}
	return told
}

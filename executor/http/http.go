// Package http runs tasks that are a call of an address: the payload is the body, and the status says how the attempt ended.
//
//	2xx                 ok, with the body of the answer as the result
//	408, 425, 429       retry, after what Retry-After says
//	5xx, no answer      error, after what Retry-After says
//	all others          failed: asking again would not help
package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/webhook"
)

// DefaultTimeout is how long a call may take, when its job does not say.
const DefaultTimeout = 30 * time.Second

// excerpt is how many bytes of an answer go into an error.
const excerpt = 300

// Executor runs tasks of kind http. Its attempts do not outlive the worker's process.
type Executor struct {
	client *webhook.Client
	calls  sync.WaitGroup
	over   context.Context //nolint:containedctx // ends with the executor, which outlives the calls that begin attempts
	stop   context.CancelFunc
}

// New returns an executor that calls by the client.
func New(c *webhook.Client) *Executor {
	x := &Executor{client: c}
	x.over, x.stop = context.WithCancel(context.Background())
	return x
}

// Kind implements executor.Executor.
func (*Executor) Kind() haulier.Kind { return haulier.KindHTTP }

// Open implements executor.Executor. There is never anything left.
func (*Executor) Open(context.Context, executor.Env) ([]executor.Attempt, error) { return nil, nil }

// Lease implements executor.Executor. The worker itself stops what runs within its process.
func (*Executor) Lease(time.Time) {}

// Close implements executor.Executor.
func (x *Executor) Close() error {
	x.stop()
	x.calls.Wait()
	x.client.Close()
	return nil
}

// Prepare implements executor.Executor.
func (x *Executor) Prepare(_ context.Context, job *haulier.Job, payload []byte) (executor.Attempt, error) {
	if job.Task.HTTP == nil {
		return nil, fmt.Errorf("task: %w: it is of kind %s", haulier.ErrInvalid, job.Task.Kind())
	}
	a := &attempt{x: x, ref: haulier.Ref{Job: job.ID, Attempt: job.Attempt}, task: *job.Task.HTTP, body: payload,
		timeout: time.Duration(job.Timeout), ended: make(chan struct{})}
	if a.timeout <= 0 {
		a.timeout = DefaultTimeout
	}
	a.ctx, a.cancel = context.WithCancel(x.over)
	return a, nil
}

// attempt is one call.
type attempt struct {
	x       *Executor
	ref     haulier.Ref
	task    haulier.HTTPTask
	body    []byte
	timeout time.Duration
	ctx     context.Context //nolint:containedctx // ends with Stop, which may come at any time
	cancel  context.CancelFunc
	ended   chan struct{}
	result  executor.Result // to be read when ended is closed
}

// Ref implements executor.Attempt.
func (a *attempt) Ref() haulier.Ref { return a.ref }

// Start implements executor.Attempt.
func (a *attempt) Start(ctx context.Context, out executor.Sink) error {
	a.x.calls.Go(func() {
		defer close(a.ended)
		begin := time.Now()
		answer, err := a.call()
		a.result = a.judge(answer, err)
		line := fmt.Sprintf("%s: %s after %v\n", a.name(), said(answer, err), time.Since(begin).Round(time.Millisecond))
		_ = out.Log(ctx, 0, joblog.Append(nil, joblog.Stdout, time.Now(), []byte(line))) // only ctx ends it
	})
	return nil
}

func (a *attempt) call() (*webhook.Answer, error) {
	if a.task.Secret != "" && a.task.Headers[webhook.HeaderSignature] == "" { // the server puts it there
		return nil, fmt.Errorf("%w: there is no secret %s to sign it with: `haulier secrets set` makes one", haulier.ErrInvalid, a.task.Secret)
	}
	header := make(map[string]string, len(a.task.Headers)+2)
	header[nethttp.CanonicalHeaderKey(webhook.HeaderID)] = a.ref.Job.String()
	if len(a.body) > 0 {
		header["Content-Type"] = "application/octet-stream"
		if json.Valid(a.body) {
			header["Content-Type"] = "application/json"
		}
	}
	for k, v := range a.task.Headers {
		header[nethttp.CanonicalHeaderKey(k)] = v
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, a.timeout, fmt.Errorf("timed out after %v", a.timeout))
	defer cancel()
	return a.x.client.Do(ctx, &webhook.Request{Method: a.task.Method, URL: a.task.URL, Header: header, Body: a.body, Most: haulier.MaxResult})
}

// judge says what an answer means for the job.
func (a *attempt) judge(answer *webhook.Answer, err error) executor.Result {
	if err != nil {
		r := executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: err.Error(), Stopped: a.ctx.Err() != nil}
		if errors.Is(err, haulier.ErrForbidden) || errors.Is(err, haulier.ErrInvalid) {
			r.Outcome = haulier.OutcomeFailed
		}
		return r
	}
	r := executor.Result{Outcome: haulier.OutcomeFailed, Code: answer.Status, Result: answer.Body}
	switch s := answer.Status; {
	case s/100 == 2:
		r.Outcome = haulier.OutcomeOK
		return r
	case s == nethttp.StatusRequestTimeout || s == nethttp.StatusTooEarly || s == nethttp.StatusTooManyRequests:
		r.Outcome, r.Delay = haulier.OutcomeRetry, answer.Wait
	case s/100 == 5:
		r.Outcome, r.Delay = haulier.OutcomeError, answer.Wait
	}
	r.Error = "answered " + said(answer, nil)
	if text := strings.TrimSpace(string(answer.Body[:min(len(answer.Body), excerpt)])); text != "" && utf8.ValidString(text) {
		r.Error += ": " + text
	}
	return r
}

func said(a *webhook.Answer, err error) string {
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, nethttp.StatusText(a.Status)))
}

// name is the call without what may be secret in its address.
func (a *attempt) name() string {
	method := a.task.Method
	if method == "" {
		method = nethttp.MethodPost
	}
	u, err := url.Parse(a.task.URL)
	if err != nil {
		return method
	}
	return method + " " + u.Scheme + "://" + u.Host + u.Path
}

// Wait implements executor.Attempt.
func (a *attempt) Wait(ctx context.Context) (executor.Result, error) {
	select {
	case <-a.ended:
		return a.result, nil
	case <-ctx.Done():
		return executor.Result{}, ctx.Err()
	}
}

// Acked implements executor.Attempt.
func (*attempt) Acked(int64) {}

// Stop implements executor.Attempt: the call is given up at once.
func (a *attempt) Stop(time.Duration) { a.cancel() }

// Folder implements executor.Attempt.
func (a *attempt) Folder() string { return "" }

// Close implements executor.Attempt.
func (a *attempt) Close() error {
	a.cancel()
	return nil
}

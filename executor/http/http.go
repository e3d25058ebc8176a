// Package http runs tasks that are a call of an address: the payload is the body, and the status says how the attempt ended.
//
//	2xx                 ok, with the body of the answer as the result
//	408, 425, 429       retry, after what Retry-After says
//	5xx, no answer      error, after what Retry-After says
//	all others          failed: asking again would not help
//
// Tasks with lines or a batch are called as the serverless queue does, where jobs may share a call and each has a line of the answer.
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
	mu     sync.Mutex
	groups map[string]*group // by what their attempts have in common
	over   context.Context   //nolint:containedctx // ends with the executor, which outlives the calls that begin attempts
	stop   context.CancelFunc
}

// New returns an executor that calls by the client.
func New(c *webhook.Client) *Executor {
	x := &Executor{client: c, groups: map[string]*group{}}
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
	a := &attempt{x: x, ref: haulier.Ref{Job: job.ID, Attempt: job.Attempt}, tenant: job.Tenant, typ: job.Type, task: *job.Task.HTTP, body: payload,
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
	tenant  string
	typ     string
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
	perform := a.perform
	if a.task.Batch > 0 {
		perform = a.x.share(a)
	}
	a.x.calls.Go(func() {
		defer close(a.ended)
		begin := time.Now()
		how := perform()
		log := &logged{ctx: ctx, out: out}
		if how.line != nil {
			a.result = how.line.judge()
			log.lines(how.line.comments)
			log.lines([]string{fmt.Sprintf("%s: %s, and %s after %v", a.name(), told(how.answer, nil), ofLine(how.line), took(begin))})
			return
		}
		a.result = a.judge(how.answer, how.err)
		if how.answer != nil && (a.task.Lines || a.task.Batch > 0) {
			log.lines(jobLines(how.answer.Body))
		}
		log.lines([]string{fmt.Sprintf("%s: %s after %v", a.name(), told(how.answer, how.err), took(begin))})
	})
	return nil
}

func took(begin time.Time) time.Duration { return time.Since(begin).Round(time.Millisecond) }

func ofLine(l *line) string {
	if l.why != "" {
		return l.why
	}
	return fmt.Sprintf("%d in its line", l.code)
}

// logged writes lines to the output.
type logged struct {
	ctx context.Context //nolint:containedctx // of the start of the attempt, whose output it is
	out executor.Sink
	at  int64
}

func (l *logged) lines(lines []string) {
	if len(lines) == 0 {
		return
	}
	frames := joblog.Append(nil, joblog.Stdout, time.Now(), []byte(strings.Join(lines, "\n")+"\n"))
	for len(frames) > 0 {
		_, n, err := joblog.Next(frames)
		if err != nil || l.out.Log(l.ctx, l.at, frames[:n]) != nil { // only ctx ends it
			return
		}
		l.at += int64(n)
		frames = frames[n:]
	}
}

// perform makes the call.
func (a *attempt) perform() said {
	if a.task.Secret != "" && a.task.Headers[webhook.HeaderSignature] == "" { // the server puts it there
		return said{err: fmt.Errorf("%w: there is no secret %s to sign it with: `haulier secrets set` makes one", haulier.ErrInvalid, a.task.Secret)}
	}
	header := map[string]string{nethttp.CanonicalHeaderKey(webhook.HeaderID): a.ref.Job.String()}
	body, most := a.task.Body(a.body), haulier.MaxResult
	if len(body) > 0 {
		header["Content-Type"] = "application/octet-stream"
		if json.Valid(body) {
			header["Content-Type"] = "application/json"
		}
	}
	if a.task.Lines {
		most = mostAnswer
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, a.timeout, fmt.Errorf("timed out after %v", a.timeout))
	defer cancel()
	answer, err := a.x.client.Do(ctx, &webhook.Request{Method: a.task.Method, URL: a.task.URL, Header: a.header(header), Body: body, Most: most})
	return said{answer: answer, err: err}
}

// header are the task's headers over the usual ones.
func (a *attempt) header(usual map[string]string) map[string]string {
	for k, v := range a.task.Headers {
		usual[nethttp.CanonicalHeaderKey(k)] = v
	}
	return usual
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
	r := executor.Result{Outcome: haulier.OutcomeFailed, Code: answer.Status, Result: answer.Body[:min(len(answer.Body), haulier.MaxResult)]}
	switch s := answer.Status; {
	case s/100 == 2:
		r.Outcome = haulier.OutcomeOK
		return r
	case s == nethttp.StatusRequestTimeout || s == nethttp.StatusTooEarly || s == nethttp.StatusTooManyRequests:
		r.Outcome, r.Delay = haulier.OutcomeRetry, answer.Wait
	case s/100 == 5:
		r.Outcome, r.Delay = haulier.OutcomeError, answer.Wait
	}
	r.Error = "answered " + told(answer, nil)
	if text := strings.TrimSpace(string(answer.Body[:min(len(answer.Body), excerpt)])); text != "" && utf8.ValidString(text) {
		r.Error += ": " + text
	}
	return r
}

func told(a *webhook.Answer, err error) string {
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

package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/haulier/haulier"
)

// ActionChange is how an answer may say that a job goes on as "job" has it; allow with a job means the same.
const ActionChange haulier.Action = "change"

// Message is what a hook is sent.
type Message struct {
	Event haulier.HookEvent `json:"event"`
	Hook  string            `json:"hook"` // its name
	Test  bool              `json:"test,omitempty"`
	Jobs  []Job             `json:"jobs"`
}

// Job is a job as a hook sees it: in the form in which it is enqueued, and how it stands.
type Job struct {
	ID     haulier.ID `json:"id,omitzero"` // not before the enqueue
	Tenant string     `json:"tenant"`
	RunAt  time.Time  `json:"run_at,omitzero"`
	haulier.Template
	// PayloadOmitted is the size of a payload that is too large to be sent along.
	PayloadOmitted int `json:"payload_omitted,omitempty"`
	// Of attempts.
	Attempt     int             `json:"attempt,omitempty"`
	Outcome     haulier.Outcome `json:"outcome,omitempty"`
	Code        int             `json:"code,omitempty"`
	Error       string          `json:"error,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	ResultBytes []byte          `json:"result_bytes,omitempty"`
}

// JobOf shows a job to a hook.
func JobOf(s *haulier.Spec) Job {
	j := Job{ID: s.ID, Tenant: s.Tenant, RunAt: s.RunAt, Template: *haulier.TemplateOf(s)}
	if len(s.Payload) > haulier.MaxPayload || s.Blob != "" {
		j.Payload, j.PayloadBytes, j.PayloadOmitted = nil, nil, max(len(s.Payload), 1)
	}
	return j
}

// End tells how an attempt ended.
func (j *Job) End(r *haulier.Report) {
	j.Outcome, j.Code, j.Error = r.Outcome, r.Code, r.Error
	if j.Result = r.Result; !json.Valid(r.Result) {
		j.Result, j.ResultBytes = nil, r.Result
	}
}

// Reply is what a hook says about a job.
type Reply struct {
	haulier.Verdict
	// Job has the fields that are to be otherwise.
	Job json.RawMessage `json:"job,omitempty"`
}

// answer is the body of a hook's answer: a verdict for each job, or one for all of them.
type answer struct {
	Verdicts []Reply `json:"verdicts"`
	Reply
}

// ParseReply reads the answer of a hook that was asked about n jobs. None at all allows them. ErrInvalid: it is no answer.
func ParseReply(body []byte, n int) ([]Reply, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	var a answer
	if err := strict(body, &a); err != nil {
		return nil, fmt.Errorf("%w: its answer is not {\"verdicts\": [{\"action\": …}]}, nor one verdict, nor empty: %w", haulier.ErrInvalid, err)
	}
	list := a.Verdicts
	switch {
	case a.Verdicts == nil:
		list = make([]Reply, n)
		for i := range list {
			list[i] = a.Reply
		}
	case len(list) != n:
		return nil, fmt.Errorf("%w: it gave %d verdicts about %d jobs", haulier.ErrInvalid, len(list), n)
	}
	for i := range list {
		r := &list[i]
		if r.Action == ActionChange {
			if r.Action = haulier.ActionAllow; r.Job == nil {
				return nil, fmt.Errorf("%w: verdict %d is to change the job, and has no job with the fields to change", haulier.ErrInvalid, i)
			}
		}
		if err := r.Check(); err != nil {
			return nil, fmt.Errorf("verdict %d: %w", i, err)
		}
	}
	return list, nil
}

func strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return nil
}

// Apply makes the job as the reply has it. ErrInvalid: that can't be; the job is as before then.
func (r *Reply) Apply(s *haulier.Spec) error {
	if r.Job == nil {
		return nil
	}
	// A copy, for a decoder writes to what maps, slices and pointers lead to.
	b, err := json.Marshal(haulier.TemplateOf(s))
	if err != nil {
		return fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	var t, patch haulier.Template
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	if err := strict(r.Job, &patch); err != nil {
		return fmt.Errorf("%w: the job in its answer: %w", haulier.ErrInvalid, err)
	}
	if patch.Payload != nil || patch.PayloadBytes != nil {
		t.Payload, t.PayloadBytes = nil, nil
	}
	if patch.Task != (haulier.Task{}) {
		t.Task = haulier.Task{}
	}
	if err := strict(r.Job, &t); err != nil {
		return fmt.Errorf("%w: the job in its answer: %w", haulier.ErrInvalid, err)
	}
	changed := t.Spec(s.Tenant, s.CreatedAt)
	if patch.Payload == nil && patch.PayloadBytes == nil {
		changed.Payload = s.Payload
	}
	changed.ID, changed.CreatedAt, changed.Parent, changed.Blob = s.ID, s.CreatedAt, s.Parent, s.Blob
	changed.RunAt, changed.RetryUntil = s.RunAt, s.RetryUntil
	*s = changed
	return nil
}

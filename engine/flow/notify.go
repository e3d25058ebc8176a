package flow

import (
	"encoding/json"
	"time"

	"github.com/haulier/haulier"
)

// deliveries are the waits after which a notification is sent again.
var deliveries = func() (list []haulier.Duration) {
	for _, d := range []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 8 * time.Hour,
	} {
		list = append(list, haulier.Duration(d))
	}
	return list
}()

// deliveryTimeout is how long one call may take.
const deliveryTimeout = 20 * time.Second

// ending is the body of a notification.
type ending struct {
	Type      string    `json:"type"` // job. and the state
	Timestamp time.Time `json:"timestamp"`
	Data      ended     `json:"data"`
}

// ended is how a job has ended.
type ended struct {
	ID          haulier.ID        `json:"id"`
	Tenant      string            `json:"tenant"`
	Queue       string            `json:"queue"`
	Type        string            `json:"type"`
	State       haulier.State     `json:"state"`
	Reason      string            `json:"reason,omitempty"`
	Outcome     haulier.Outcome   `json:"outcome,omitempty"`
	Code        int               `json:"code,omitempty"`
	Error       string            `json:"error,omitempty"`
	Result      json.RawMessage   `json:"result,omitempty"`
	ResultBytes []byte            `json:"result_bytes,omitempty"`
	Omitted     int               `json:"result_omitted,omitempty"` // size of a result that is too large to be sent along
	Attempts    int               `json:"attempts"`
	Labels      map[string]string `json:"labels,omitempty"`
	Group       string            `json:"group,omitempty"`
	CreatedAt   time.Time         `json:"created_at"`
	StartedAt   time.Time         `json:"started_at,omitzero"`
	FinishedAt  time.Time         `json:"finished_at"`
}

// notify adds a delivery for each address that is to hear of the end of the job.
func (t *Tx) notify(j *haulier.Job) {
	var body []byte
	for i := range j.Flow.Notify {
		n := &j.Flow.Notify[i]
		on := n.On
		if on == "" {
			on = haulier.OnFinished
		}
		if !on.Met(j.State) {
			continue
		}
		if body == nil {
			body = bodyOf(j)
		}
		s := haulier.Spec{
			ID: haulier.NewID(t.now), Tenant: j.Tenant, Queue: haulier.DeliveryQueue, Type: haulier.DeliveryType, Payload: body, Priority: j.Priority, CreatedAt: t.now,
			Task:        haulier.Task{HTTP: &haulier.HTTPTask{URL: n.URL, Secret: n.Secret}},
			MaxAttempts: len(deliveries) + 1, Backoff: &haulier.Backoff{List: deliveries}, Timeout: haulier.Duration(deliveryTimeout), Parent: j.ID,
		}
		t.insert(haulier.Job{Spec: s, Status: s.First(t.now, "job "+j.ID.String())})
		t.left--
	}
}

// bodyOf tells of the end of a job, in at most MaxPayload bytes: a result or labels for which there is no room are left out.
func bodyOf(j *haulier.Job) []byte {
	e := ending{Type: "job." + j.State.String(), Timestamp: j.FinishedAt, Data: ended{
		ID: j.ID, Tenant: j.Tenant, Queue: j.Queue, Type: j.Type, State: j.State, Reason: j.Reason, Outcome: j.Outcome, Code: j.Code, Error: j.Error,
		Attempts: j.Attempt, Labels: j.Labels, Group: j.Group, CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt,
	}}
	if json.Valid(j.Result) {
		e.Data.Result = j.Result
	} else {
		e.Data.ResultBytes = j.Result
	}
	body := encode(e)
	if len(body) > haulier.MaxPayload {
		e.Data.Result, e.Data.ResultBytes, e.Data.Omitted = nil, nil, len(j.Result)
		body = encode(e)
	}
	if len(body) > haulier.MaxPayload {
		e.Data.Labels = nil
		body = encode(e)
	}
	return body
}

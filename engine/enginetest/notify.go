package enginetest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

var notifying = []behaviour{
	{"the end of a job brings one delivery for each address that is to hear of it", notifyEnds},
	{"a delivery has the end as its body, signed anew for each attempt, and no secret in it", notifySigned},
	{"a result for which there is no room is left out of a notification", notifyLarge},
	{"what is signed with a secret that is not there stays unsigned", notifyUnsigned},
	{"a call that can't be is refused", httpRefused},
}

// deliveries lists the jobs that deliver what became of a job.
func (h *Harness) deliveries(of haulier.ID) (out []*haulier.Job) {
	h.t.Helper()
	page, err := h.List(h.t.Context(), haulier.Filter{Queue: haulier.DeliveryQueue}, "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if j.Parent == of {
			out = append(out, j)
		}
	}
	return out
}

func told(on haulier.Condition) func(*haulier.Spec) {
	return func(s *haulier.Spec) {
		s.MaxAttempts = 1
		s.Flow = &haulier.Flow{Notify: []haulier.Notify{{URL: "https://example.com/" + string(on), On: on}}}
	}
}

func notifyEnds(t *testing.T, h *Harness) {
	s := h.open(nil)
	ends := map[haulier.State]func(id haulier.ID){
		haulier.Succeeded: func(haulier.ID) { h.finish(s, h.claimOne(s), haulier.OutcomeOK) },
		haulier.Failed:    func(haulier.ID) { h.finish(s, h.claimOne(s), haulier.OutcomeError) },
		haulier.Cancelled: func(id haulier.ID) {
			if _, err := h.Cancel(t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "me", "no"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for state, end := range ends {
		for on, want := range map[haulier.Condition]bool{
			"": true, haulier.OnFinished: true, haulier.OnSucceeded: state == haulier.Succeeded, haulier.OnFailed: state != haulier.Succeeded,
		} {
			id := h.add(told(on))
			if d := h.deliveries(id); len(d) != 0 {
				t.Fatalf("%d deliveries before the end", len(d))
			}
			end(id)
			h.want(id, state)
			d := h.deliveries(id)
			if want && (len(d) != 1 || d[0].Task.HTTP == nil || d[0].Task.HTTP.URL != "https://example.com/"+string(on)) || !want && len(d) != 0 {
				t.Errorf("%s, on %q: %+v", state, on, d)
			}
		}
	}
	id := h.add(told(""))
	h.finish(s, h.claimOne(s), haulier.OutcomeOK)
	h.restart()
	if d := h.deliveries(id); len(d) != 1 {
		t.Errorf("%d deliveries after a restart", len(d))
	}
}

func notifySigned(t *testing.T, h *Harness) {
	sec, err := h.SetSecret(t.Context(), "", "ops", "")
	if err != nil {
		t.Fatal(err)
	}
	id := h.add(func(s *haulier.Spec) {
		s.Labels = map[string]string{"a": "b"}
		s.Flow = &haulier.Flow{Notify: []haulier.Notify{{URL: "https://example.com/", Secret: "ops"}}}
	})
	s := h.open(nil)
	j := h.claimOne(s)
	h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeOK, Result: []byte(`{"n":1}`)})
	w := h.open(func(s *haulier.Session) { s.Worker, s.Kinds, s.Types = "w2", []haulier.Kind{haulier.KindHTTP}, nil })
	var stamps []string
	for range 2 {
		d := h.claimOne(w)
		header := http.Header{}
		for k, v := range d.Task.HTTP.Headers {
			header.Set(k, v)
		}
		if err := webhook.Verify(sec.Value, header, d.Payload, time.Now()); err != nil || header.Get(webhook.HeaderID) != d.ID.String() {
			t.Errorf("signed %v: %v", header, err)
		}
		stamps = append(stamps, header.Get(webhook.HeaderTimestamp))
		h.finish(w, d, haulier.OutcomeError)
		h.pass(10 * time.Second)
		h.checkBody(d.Payload, id)
	}
	if stamps[0] == stamps[1] {
		t.Errorf("both attempts are of %s", stamps[0])
	}
	d := h.deliveries(id)[0]
	b, err := json.Marshal(d)
	if err != nil || bytes.Contains(b, []byte("whsec_")) || len(d.Task.HTTP.Headers) != 0 {
		t.Errorf("kept as %s, %v", b, err)
	}
}

func (h *Harness) checkBody(body []byte, id haulier.ID) {
	h.t.Helper()
	var m struct {
		Type string
		Data struct {
			ID         haulier.ID
			State      haulier.State
			Result     json.RawMessage
			Labels     map[string]string
			FinishedAt time.Time `json:"finished_at"`
		}
	}
	if err := json.Unmarshal(body, &m); err != nil {
		h.t.Fatal(err)
	}
	d := &m.Data
	if m.Type != "job.succeeded" || d.ID != id || d.State != haulier.Succeeded || string(d.Result) != `{"n":1}` || d.Labels["a"] != "b" || d.FinishedAt.IsZero() {
		h.t.Errorf("body %s", body)
	}
}

func notifyLarge(t *testing.T, h *Harness) {
	s := h.open(nil)
	for _, result := range []string{`"` + strings.Repeat("<", 20<<10) + `"`, strings.Repeat("\x00", 60<<10), `"` + strings.Repeat("x", 65<<10-4) + `"`} {
		id := h.add(told(""))
		j := h.claimOne(s)
		h.report(s, haulier.Report{Ref: ref(j), Kind: haulier.ReportFinish, Outcome: haulier.OutcomeFailed, Error: strings.Repeat("\x01", 4<<10), Result: []byte(result)})
		d := h.deliveries(id)
		if len(d) != 1 || len(d[0].Payload) == 0 || len(d[0].Payload) > haulier.MaxPayload || !bytes.Contains(d[0].Payload, []byte(`"result_omitted":`)) {
			t.Fatalf("%d deliveries of %.80q", len(d), result)
		}
	}
}

func notifyUnsigned(t *testing.T, h *Harness) {
	h.add(func(s *haulier.Spec) {
		s.Task = haulier.Task{HTTP: &haulier.HTTPTask{URL: "https://example.com/", Secret: "none", Headers: map[string]string{"X-A": "b"}}}
	})
	d := h.claimOne(h.open(func(s *haulier.Session) { s.Kinds, s.Types = []haulier.Kind{haulier.KindHTTP}, nil }))
	if len(d.Task.HTTP.Headers) != 1 {
		t.Errorf("headers %v", d.Task.HTTP.Headers)
	}
}

func httpRefused(t *testing.T, h *Harness) {
	for fieldName, s := range map[string]haulier.Spec{
		"jobs[0].task.http.url":     {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "example.com"}}},
		"jobs[0].task.http.method":  {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "http://a", Method: "post"}}},
		"jobs[0].task.http.batch":   {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "http://a", Batch: haulier.MaxHTTPBatch + 1}}},
		"jobs[0].task.http.secret":  {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "http://a", Batch: 2, Secret: "s"}}},
		"jobs[0].payload":           {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "http://a", Batch: 2}}, Payload: []byte("a\nb")},
		"jobs[0].task.http.headers": {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "http://a", Headers: map[string]string{"a": "b\r\nc: d"}}}},
		"jobs[0].task":              {Task: haulier.Task{HTTP: &haulier.HTTPTask{URL: "http://a"}, None: &haulier.NoTask{}}},
		"jobs[0].notify[0].url":     {Type: "work", Flow: &haulier.Flow{Notify: []haulier.Notify{{URL: "file:///etc/passwd"}}}},
		"jobs[0].notify[0].on":      {Type: "work", Flow: &haulier.Flow{Notify: []haulier.Notify{{URL: "http://a", On: "now"}}}},
		"jobs[0].notify":            {Type: "work", Flow: &haulier.Flow{Notify: make([]haulier.Notify, haulier.MaxNotify+1)}},
	} {
		if r := h.ask(haulier.EnqueueRequest{Jobs: []haulier.Spec{s}}); r.Err == nil || !strings.HasPrefix(r.Err.Error(), fieldName+":") {
			t.Errorf("%s: %v", fieldName, r.Err)
		}
	}
}

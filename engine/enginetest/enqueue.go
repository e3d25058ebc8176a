package enginetest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var enqueueing = []behaviour{
	{"a job without a time is pending, one with a time waits for it", func(t *testing.T, h *Harness) {
		soon := h.add(nil)
		later := h.add(func(s *haulier.Spec) { s.RunAt = time.Now().Add(time.Hour) })
		h.want(soon, haulier.Pending)
		h.want(later, haulier.Scheduled)
		h.pass(59 * time.Minute)
		h.want(later, haulier.Scheduled)
		h.pass(time.Minute + time.Second)
		h.want(later, haulier.Pending)
	}},
	{"jobs are claimed by priority, then in the order in which they came", func(t *testing.T, h *Harness) {
		var want []haulier.ID
		low := h.add(func(s *haulier.Spec) { s.Priority = -1 })
		a, b := h.add(nil), h.add(nil)
		high := h.add(func(s *haulier.Spec) { s.Priority = 5 })
		want = append(want, high, a, b, low)
		got := h.claim(h.open(nil), 10)
		for i := range want {
			if i >= len(got) || got[i].ID != want[i] {
				t.Fatalf("claimed %v, want %v", ids(got), want)
			}
		}
	}},
	{"a request is all or nothing, and does not touch its neighbours", func(t *testing.T, h *Harness) {
		ok := haulier.Spec{Type: "work"}
		res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{
			{Jobs: []haulier.Spec{ok, {Type: "work", Priority: 99}}},
			{Jobs: []haulier.Spec{ok, ok}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var f *haulier.FieldError
		if !errors.As(res[0].Err, &f) || f.Field != "jobs[1].priority" {
			t.Errorf("bad request answered %v, want the field jobs[1].priority", res[0].Err)
		}
		if res[1].Err != nil || len(res[1].IDs) != 2 {
			t.Errorf("good request answered %+v", res[1])
		}
		if n := len(h.claim(h.open(nil), 10)); n != 2 {
			t.Errorf("%d jobs were added, want 2", n)
		}
	}},
	{"a repeated key answers the ids of the first time, also after a restart", func(t *testing.T, h *Harness) {
		req := []haulier.EnqueueRequest{{Key: "k1", Jobs: []haulier.Spec{{Type: "work"}, {Type: "work", Payload: []byte("1")}}}}
		first, err := h.Enqueue(t.Context(), req)
		if err != nil || first[0].Err != nil || first[0].Repeated {
			t.Fatalf("first: %+v, %v", first, err)
		}
		h.restart()
		h.pass(24 * time.Hour)
		again, err := h.Enqueue(t.Context(), req)
		if err != nil || !again[0].Repeated || again[0].IDs[1] != first[0].IDs[1] {
			t.Fatalf("repeated: %+v, %v", again, err)
		}
		req[0].Jobs[1].Payload = []byte("2")
		other, err := h.Enqueue(t.Context(), req)
		if err != nil || !errors.Is(other[0].Err, haulier.ErrConflict) {
			t.Fatalf("other jobs under the key: %+v, %v; want ErrConflict", other, err)
		}
		if n := len(h.claim(h.open(nil), 10)); n != 2 {
			t.Fatalf("%d jobs were added, want 2", n)
		}
	}},
	{"jobs keep ids that were told before, and are added once, also when the key is forgotten", func(t *testing.T, h *Harness) {
		kept := []haulier.ID{haulier.NewID(time.Now()), haulier.NewID(time.Now())}
		req := haulier.EnqueueRequest{Key: "kept", KeepIDs: true, Jobs: []haulier.Spec{{ID: kept[0], Type: "work"}, {ID: kept[1], Type: "work"}}}
		ask := func(change func(r *haulier.EnqueueRequest)) haulier.EnqueueResult {
			t.Helper()
			r := req
			r.Jobs = append([]haulier.Spec(nil), req.Jobs...)
			if change != nil {
				change(&r)
			}
			res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{r})
			if err != nil {
				t.Fatal(err)
			}
			return res[0]
		}
		if res := ask(nil); res.Err != nil || res.Repeated || len(res.IDs) != 2 || res.IDs[0] != kept[0] || res.IDs[1] != kept[1] {
			t.Fatalf("first: %+v", res)
		}
		if res := ask(nil); !res.Repeated || res.IDs[1] != kept[1] {
			t.Errorf("repeated: %+v", res)
		}
		if res := ask(func(r *haulier.EnqueueRequest) { r.Key = "other" }); !res.Repeated || res.IDs[1] != kept[1] {
			t.Errorf("under another key: %+v", res)
		}
		h.restart()
		h.pass(8 * 24 * time.Hour)
		if res := ask(nil); !res.Repeated || res.IDs[1] != kept[1] {
			t.Errorf("when the key is forgotten: %+v", res)
		}
		foreign := ask(func(r *haulier.EnqueueRequest) { r.Jobs[0].Tenant, r.Jobs[1].Tenant = "foreign", "foreign" })
		if !errors.Is(foreign.Err, haulier.ErrConflict) {
			t.Errorf("ids of another tenant's jobs: %+v", foreign)
		}
		for name, change := range map[string]func(r *haulier.EnqueueRequest){
			"no key":     func(r *haulier.EnqueueRequest) { r.Key = "" },
			"no id":      func(r *haulier.EnqueueRequest) { r.Key, r.Jobs[0].ID = "n", haulier.NilID },
			"twice one":  func(r *haulier.EnqueueRequest) { r.Key, r.Jobs[0].ID = "n", kept[1] },
			"not a UUID": func(r *haulier.EnqueueRequest) { r.Key, r.Jobs[0].ID = "n", haulier.ID{1} },
		} {
			if res := ask(change); !errors.Is(res.Err, haulier.ErrInvalid) {
				t.Errorf("%s: %+v", name, res)
			}
		}
		if n := len(h.claim(h.open(nil), 10)); n != 2 {
			t.Fatalf("%d jobs were added, want 2", n)
		}
	}},
	{"a large payload travels as a blob that goes with its job", func(t *testing.T, h *Harness) {
		big := bytes.Repeat([]byte("p"), haulier.MaxPayload+1)
		id := h.add(func(s *haulier.Spec) { s.Payload = big })
		twin := h.add(func(s *haulier.Spec) { s.Payload = big })
		s := h.open(nil)
		jobs := h.claim(s, 2)
		if len(jobs) != 2 || jobs[0].Blob == "" || len(jobs[0].Spec.Payload) != 0 {
			t.Fatalf("claimed %+v", jobs)
		}
		for _, j := range jobs {
			got, err := h.Payload(t.Context(), s, ref(j))
			if err != nil || !bytes.Equal(got, big) {
				t.Fatalf("payload: %d bytes, %v", len(got), err)
			}
			h.finish(s, j, haulier.OutcomeOK)
		}
		del := func(id haulier.ID) {
			if c, err := h.Delete(t.Context(), haulier.Selection{IDs: []haulier.ID{id}}, "test"); err != nil || c.N != 1 {
				t.Fatalf("delete: %+v, %v", c, err)
			}
		}
		del(id)
		if _, err := h.blob(jobs[0].Blob); err != nil {
			t.Fatalf("blob of the twin: %v", err)
		}
		del(twin)
		if _, err := h.blob(jobs[0].Blob); !errors.Is(err, haulier.ErrNotFound) {
			t.Fatalf("blob that nobody holds: %v, want ErrNotFound", err)
		}
	}},
	{"what is out of bounds is refused with its field", func(t *testing.T, h *Harness) {
		long := strings.Repeat("x", haulier.MaxName+1)
		for _, c := range []struct {
			field  string
			change func(*haulier.Spec)
		}{
			{"type", func(s *haulier.Spec) { s.Type = "" }},
			{"type", func(s *haulier.Spec) { s.Type = long }},
			{"queue", func(s *haulier.Spec) { s.Queue = "a/b" }},
			{"tenant", func(s *haulier.Spec) { s.Tenant = "a b" }},
			{"priority", func(s *haulier.Spec) { s.Priority = haulier.MaxPriority + 1 }},
			{"max_attempts", func(s *haulier.Spec) { s.MaxAttempts = -1 }},
			{"timeout", func(s *haulier.Spec) { s.Timeout = -1 }},
			{"retention", func(s *haulier.Spec) { s.Retention = -1 }},
			{"retry_until", func(s *haulier.Spec) { s.RetryUntil = time.Now().Add(-time.Second) }},
			{"backoff", func(s *haulier.Spec) { s.Backoff = &haulier.Backoff{Constant: 1, Base: 1} }},
			{"labels", func(s *haulier.Spec) { s.Labels = map[string]string{"": "x"} }},
			{"runs_on", func(s *haulier.Spec) { s.RunsOn = map[string]string{"a=b": "x"} }},
			{"runs_on.gpu", func(s *haulier.Spec) { s.RunsOn = map[string]string{"gpu": "a,b=c"} }},
			{"runs_on", func(s *haulier.Spec) { s.RunsOn = map[string]string{"gpu": strings.Repeat("x", 196)} }},
			{"runs_on", func(s *haulier.Spec) { s.RunsOn, s.Task.None = map[string]string{"gpu": "1"}, new(haulier.NoTask) }},
			{"payload", func(s *haulier.Spec) { s.Payload = make([]byte, haulier.MaxBlobPayload+1) }},
			{"payload_blob", func(s *haulier.Spec) { s.Blob = strings.Repeat("0", 64) }},
			{"task.exec.argv", func(s *haulier.Spec) { s.Task.Exec = &haulier.ExecTask{} }},
			{"task.exec.env", func(s *haulier.Spec) {
				s.Task.Exec = &haulier.ExecTask{Argv: []string{"x"}, Env: map[string]string{"a=b": ""}}
			}},
			{"task.container.config", func(s *haulier.Spec) { s.Task.Container = &haulier.ContainerTask{} }},
			{"task.container.config", func(s *haulier.Spec) {
				s.Task.Container = &haulier.ContainerTask{Config: []byte(`{"Cmd":["true"]}`)}
			}},
			{"task.container.pull", func(s *haulier.Spec) {
				s.Task.Container = &haulier.ContainerTask{Config: []byte(`{"Image":"a"}`), Pull: "often"}
			}},
		} {
			s := haulier.Spec{Type: "work"}
			c.change(&s)
			res, err := h.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{s}}})
			var f *haulier.FieldError
			if err != nil || !errors.As(res[0].Err, &f) || f.Field != "jobs[0]."+c.field || !errors.Is(f, haulier.ErrInvalid) {
				t.Errorf("bad %s: %v, %+v", c.field, err, res)
			}
		}
	}},
}

func ids(jobs []haulier.Job) []haulier.ID {
	var out []haulier.ID
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

package webhook_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

func TestAnswersOfHooks(t *testing.T) {
	for body, want := range map[string]haulier.Action{
		"":                    "",
		"\n":                  "",
		"{}":                  "",
		`{"action":"refuse"}`: haulier.ActionRefuse,
		`{"verdicts":[{"action":"abort"},{"action":"abort"}]}`:       haulier.ActionAbort,
		`{"action":"delay","delay":"1m","reason":"soon"}`:            haulier.ActionDelay,
		`{"verdicts":[{"action":"change","job":{"priority":3}},{}]}`: haulier.ActionAllow,
	} {
		list, err := webhook.ParseReply([]byte(body), 2)
		if err != nil || want != "" && (len(list) != 2 || list[0].Action != want) {
			t.Errorf("%s: %+v, %v", body, list, err)
		}
	}
	for _, body := range []string{"OK", "[]", "{", `{"verdict":"allow"}`, `{"action":"maybe"}`, `{"action":"delay"}`, `{"verdicts":[]}`, `{"verdicts":[{}]}`, `{}{}`, `{"action":"change"}`} {
		if _, err := webhook.ParseReply([]byte(body), 2); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestAChangeLeavesTheRestAsItWas(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := haulier.Spec{
		Tenant: "acme", Type: "mail", Queue: "q", Payload: []byte("\x00raw"), Labels: map[string]string{"a": "1"}, RunAt: at, RetryUntil: at,
		Flow: &haulier.Flow{Holds: []string{"k"}}, Task: haulier.Task{Exec: &haulier.ExecTask{Argv: []string{"true"}}},
	}
	labels, holds := s.Labels, s.Holds
	want := s
	want.Priority, want.Labels = 5, map[string]string{"a": "1", "b": "2"}
	want.Flow = &haulier.Flow{Holds: []string{"other"}}
	r := webhook.Reply{Job: []byte(`{"priority":5,"labels":{"b":"2"},"holds":["other"]}`)}
	if err := r.Apply(&s); err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v: %v", s, want, err)
	}
	if len(labels) != 1 || holds[0] != "k" {
		t.Error("what others hold was written to")
	}
	r.Job = []byte(`{"payload":{"to":"b"},"task":{"none":{}}}`)
	if err := r.Apply(&s); err != nil || string(s.Payload) != `{"to":"b"}` || s.Task.Exec != nil || s.Task.None == nil {
		t.Errorf("%+v: %v", s, err)
	}
	before := s
	r.Job = []byte(`{"tenant":"other"}`)
	if err := r.Apply(&s); !errors.Is(err, haulier.ErrInvalid) || !reflect.DeepEqual(s, before) {
		t.Errorf("%+v: %v", s, err)
	}
}

// FuzzAnswer reads what a hook may answer.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"verdicts":[{"action":"change","job":{"payload":[1],"labels":{"a":"b"}}}]}`))
	f.Add([]byte(`{"action":"delay","delay":"1m","reason":"x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := webhook.ParseReply(body, 1)
		if err != nil {
			return
		}
		for i := range list {
			s := haulier.Spec{Tenant: "acme", Type: "mail", Payload: []byte("1")}
			if err := list[i].Apply(&s); err == nil && (s.Tenant != "acme" || !s.ID.IsNil()) {
				t.Errorf("%s made %+v", body, s)
			}
		}
	})
}

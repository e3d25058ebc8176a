package etcd_test

import (
	"errors"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/etcd"
)

func FuzzTexts(f *testing.F) {
	f.Add("default/default/mail/go", "default/default/mail/go", -3)
	f.Add("a%2Fb/%25/c/exec/10/2026-01-02T03:04:05.000006Z/01968c2a-0000-7000-8000-000000000000", "claimed a/b/c/go", 0)
	f.Add("succeeded/a/b/c/go/7fff/fe", "running a", 10)
	f.Add("01968c2a-0000-7000-8000-000000000000", "30s", 1)
	f.Add("eyJrIjoiYSJ9", "x", 2)
	f.Add("\x06origin\x01\x02aaaaaaaaaaaaaaaa\x01\x03bbbbbbbbbbbbbbbb", "", 4)
	f.Add("\x00\x00\x01\x01\x00\x00", "", 4)
	f.Add("etcds://u:p@h:1,[::1]:2/x?skip_verify=1", "", 4)
	f.Fuzz(func(t *testing.T, a, b string, priority int) {
		for _, err := range etcd.ReadTexts(a, b) {
			if err != nil && !errors.Is(err, haulier.ErrCorrupt) && !errors.Is(err, haulier.ErrInvalid) {
				t.Errorf("%q, %q: %v, want ErrCorrupt or ErrInvalid", a, b, err)
			}
		}
		lane := haulier.Lane{Tenant: a, Queue: b, Type: b + a, Kind: haulier.Kind(a), RunsOn: b}
		if got, err := etcd.ParseLane(etcd.LaneText(lane)); err != nil || got != lane {
			t.Errorf("%v became %v: %v", lane, got, err)
		}
		if priority < -haulier.MaxPriority || priority > haulier.MaxPriority {
			return
		}
		band := haulier.Band{Lane: lane, Priority: priority}
		if got, err := etcd.ParseBand(etcd.BandText(band)); err != nil || got != band {
			t.Errorf("%v became %v: %v", band, got, err)
		}
	})
}

func TestEntries(t *testing.T) {
	jobs := newJobs(3)
	changes := []haulier.JobChange{
		{Spec: &jobs[0].Spec, Status: jobs[0].Status},
		{Spec: &jobs[1].Spec, Before: haulier.Pending, Status: jobs[1].Status},
		{Spec: &jobs[2].Spec, Before: haulier.Succeeded},
	}
	changes[1].Status.Result = []byte("result")
	got, err := etcd.Entry(changes)
	if err != nil || len(got) != 3 {
		t.Fatalf("%d changes came back: %v", len(got), err)
	}
	for i, c := range got {
		want := changes[i]
		if c.Spec.ID != want.Spec.ID || c.Before != want.Before || c.Status.State != want.Status.State || c.Status.Rev != want.Status.Rev || !c.Status.RunAt.Equal(want.Status.RunAt.Truncate(time.Microsecond)) {
			t.Errorf("%+v became %+v", want, c)
		}
		if c.Spec.Payload != nil || c.Status.Result != nil {
			t.Error("payload or result stand in the log")
		}
	}
}

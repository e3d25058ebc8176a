package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var scheduling = []behaviour{
	{"a schedule starts its job at each of its times", ticks},
	{"a schedule made again keeps its next time and what it counted", ticksAgain},
	{"a paused schedule starts nothing, and does not make up for it", ticksPaused},
	{"times at which no server was there are made up for as the policy says", ticksMissed},
	{"when the last has not ended, the overlap policy decides", ticksOverlap},
	{"a schedule is run by hand", ticksByHand},
	{"jitter puts each start off, at the same time for every server", ticksJitter},
	{"a schedule ends, and starts, when it is told to", ticksBounds},
	{"a schedule that can't be is refused", ticksRefused},
	{"two servers over one store start each time once", ticksTwice},
}

// every is a schedule of a job of type work.
func every(name, cron string, change func(*haulier.Schedule)) haulier.Schedule {
	s := haulier.Schedule{Name: name, Cron: cron, Job: &haulier.Template{Type: "work", Payload: []byte(`{"a":1}`)}}
	if change != nil {
		change(&s)
	}
	return s
}

func (h *Harness) schedule(s haulier.Schedule) haulier.Schedule {
	h.t.Helper()
	s, err := h.SetSchedule(h.t.Context(), s)
	if err != nil {
		h.t.Fatalf("set schedule: %v", err)
	}
	return s
}

// started lists the ticks of the jobs that a schedule has started, as seconds after the begin, in order.
func (h *Harness) started(name string, begin time.Time) []int {
	h.t.Helper()
	page, err := h.List(h.t.Context(), haulier.Filter{Labels: map[string]string{haulier.LabelSchedule: name}}, "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []int
	for _, j := range page.Jobs {
		at, err := time.Parse(time.RFC3339, j.Labels[haulier.LabelTick])
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, int(at.Sub(begin)/time.Second))
	}
	slices.Sort(out)
	return out
}

func (h *Harness) wantStarted(name string, begin time.Time, want ...int) {
	h.t.Helper()
	if got := h.started(name, begin); !slices.Equal(got, want) {
		h.t.Errorf("started at %v s, want %v", got, want)
	}
}

func ticks(t *testing.T, h *Harness) {
	begin := time.Now() // midnight, in synctest
	s := h.schedule(every("s", "*/10 * * * * *", nil))
	if !s.Next.Equal(begin.Add(10 * time.Second)) {
		t.Errorf("next at %v", s.Next)
	}
	h.pass(35 * time.Second)
	h.wantStarted("s", begin, 10, 20, 30)
	list, err := h.Schedules(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].Started != 3 || list[0].Last.State != haulier.Pending || !list[0].Next.Equal(begin.Add(40*time.Second)) {
		t.Errorf("%+v, %v", list, err)
	}
	session := h.open(nil)
	j := h.claim(session, 3)[0]
	if string(j.Payload) != `{"a":1}` || j.Type != "work" {
		t.Errorf("the job is %+v", j)
	}
	if err := h.DeleteSchedule(t.Context(), "", "s"); err != nil {
		t.Fatal(err)
	}
	h.pass(time.Minute)
	h.wantStarted("s", begin, 10, 20, 30)
	if _, err := h.Schedule(t.Context(), "", "s"); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("a removed schedule is there: %v", err)
	}
}

func ticksAgain(t *testing.T, h *Harness) {
	begin := time.Now()
	h.schedule(every("s", "@every 10s", nil))
	h.pass(15 * time.Second)
	s := h.schedule(every("s", "@every 10s", func(s *haulier.Schedule) { s.Job.Queue = "other" }))
	if s.Started != 1 || !s.Next.Equal(begin.Add(20*time.Second)) {
		t.Errorf("made again it is %+v", s)
	}
	h.pass(10 * time.Second)
	h.wantStarted("s", begin, 10, 20)
	if s := h.schedule(every("s", "0 0 1 * *", nil)); !s.Next.Equal(time.Date(2000, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("with other times its next is %v", s.Next)
	}
}

func ticksPaused(t *testing.T, h *Harness) {
	begin := time.Now()
	h.schedule(every("s", "@every 10s", func(s *haulier.Schedule) { s.Missed, s.MissedMost = haulier.MissedAll, 100 }))
	h.pass(11 * time.Second)
	if s, err := h.PauseSchedule(t.Context(), "", "s", true); err != nil || !s.Next.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	h.pass(10 * time.Minute)
	h.restart()
	if s, err := h.PauseSchedule(t.Context(), "", "s", false); err != nil || s.Next.IsZero() {
		t.Errorf("%+v, %v", s, err)
	}
	h.pass(10 * time.Second)
	h.wantStarted("s", begin, 10, 620)
}

func ticksMissed(_ *testing.T, h *Harness) {
	begin := time.Now()
	for missed, most := range map[haulier.Missed]int{haulier.MissedNone: 0, haulier.MissedOnce: 0, haulier.MissedAll: 3} {
		h.schedule(every(string(missed), "*/10 * * * *", func(s *haulier.Schedule) { s.Missed, s.MissedMost = missed, most }))
	}
	h.end()
	h.pass(65 * time.Minute)
	h.begin()
	h.pass(6 * time.Minute)
	h.wantStarted("none", begin, 4200)
	h.wantStarted("once", begin, 3600, 4200)
	h.wantStarted("all", begin, 2400, 3000, 3600, 4200)
}

func ticksOverlap(t *testing.T, h *Harness) {
	begin := time.Now()
	all := []haulier.Overlap{haulier.OverlapAllow, haulier.OverlapSkip, haulier.OverlapWait, haulier.OverlapCollapse, haulier.OverlapReplace}
	session := h.open(func(s *haulier.Session) {
		patient(s)
		for _, o := range all {
			s.Types = append(s.Types, "of-"+string(o))
		}
	})
	for _, o := range all {
		h.schedule(every(string(o), "@every 10s", func(s *haulier.Schedule) { s.Overlap, s.Job.Type = o, "of-"+string(o) }))
	}
	states := func() string {
		out := ""
		for _, o := range all {
			page, err := h.List(t.Context(), haulier.Filter{Type: "of-" + string(o)}, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(page.Jobs, func(a, b *haulier.Job) int { return a.CreatedAt.Compare(b.CreatedAt) })
			out += string(o) + ":"
			for _, j := range page.Jobs {
				cancelling := ""
				if j.Cancelling {
					cancelling = "!"
				}
				out += fmt.Sprintf(" %v%s", j.State, cancelling)
			}
			out += "\n"
		}
		return out
	}
	claim := func() []haulier.Job {
		jobs, err := h.Claim(t.Context(), haulier.ClaimRequest{Session: session, N: 20})
		if err != nil {
			t.Fatal(err)
		}
		return jobs
	}
	h.pass(11 * time.Second)
	first := claim()
	if len(first) != 5 {
		t.Fatalf("claimed %d", len(first))
	}
	h.pass(20 * time.Second)
	claim()
	if got, want := states(), "allow: claimed claimed claimed\nskip: claimed\nwait: claimed blocked blocked\ncollapse: claimed collapsed blocked\nreplace: claimed! cancelled blocked\n"; got != want {
		t.Errorf("while the first runs:\n%swant\n%s", got, want)
	}
	if s, err := h.Schedule(t.Context(), "", "skip"); err != nil || s.Skipped != 2 || s.Started != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, j := range first {
		h.ok(session, j)
	}
	if got := len(claim()); got != 3 {
		t.Errorf("when they have ended, %d start, want one each of wait, collapse and replace", got)
	}
	h.wantStarted("skip", begin, 10)
}

func ticksByHand(t *testing.T, h *Harness) {
	s := h.schedule(every("s", "@daily", func(s *haulier.Schedule) { s.Overlap = haulier.OverlapSkip }))
	h.pass(time.Hour)
	ids, err := h.RunSchedule(t.Context(), "", "s", "ann")
	if err != nil || len(ids) != 1 || h.get(ids[0]).History[0].By != "ann" {
		t.Fatalf("%v, %v", ids, err)
	}
	after, err := h.Schedule(t.Context(), "", "s")
	if err != nil || !after.Next.Equal(s.Next) || after.Last.Job != ids[0] || after.Started != 1 {
		t.Errorf("%+v, %v", after, err)
	}
	if _, err := h.RunSchedule(t.Context(), "", "nobody", "ann"); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("a schedule that is not there: %v", err)
	}
}

func ticksJitter(t *testing.T, h *Harness) {
	h.schedule(every("s", "@every 1m", func(s *haulier.Schedule) { s.Jitter = haulier.Duration(50 * time.Second) }))
	h.pass(5*time.Minute + time.Second)
	page, err := h.List(t.Context(), haulier.Filter{}, "", 100)
	if err != nil || len(page.Jobs) != 5 {
		t.Fatalf("%d jobs, %v", len(page.Jobs), err)
	}
	delays := map[time.Duration]bool{}
	for _, j := range page.Jobs {
		tick, _ := time.Parse(time.RFC3339, j.Labels[haulier.LabelTick])
		d := j.Spec.RunAt.Sub(tick)
		if d < 0 || d >= 50*time.Second {
			t.Errorf("put off by %v", d)
		}
		delays[d] = true
	}
	if len(delays) < 4 {
		t.Errorf("five starts are put off by %v", delays)
	}
}

func ticksBounds(t *testing.T, h *Harness) {
	begin := time.Now()
	s := h.schedule(every("s", "@every 10s", func(s *haulier.Schedule) { s.Start, s.End = begin.Add(30*time.Second), begin.Add(50*time.Second) }))
	if !s.Next.Equal(begin.Add(30 * time.Second)) {
		t.Errorf("its first time is %v", s.Next)
	}
	h.pass(5 * time.Minute)
	h.wantStarted("s", begin, 30, 40, 50)
	if s, err := h.Schedule(t.Context(), "", "s"); err != nil || !s.Next.IsZero() {
		t.Errorf("after its end it is %+v, %v", s, err)
	}
}

func ticksRefused(t *testing.T, h *Harness) {
	for field, change := range map[string]func(*haulier.Schedule){
		"cron":             func(s *haulier.Schedule) { s.Cron = "0 0 30 2 *" },
		"zone":             func(s *haulier.Schedule) { s.Zone = "Nowhere" },
		"name":             func(s *haulier.Schedule) { s.Name = "a/b" },
		"overlap":          func(s *haulier.Schedule) { s.Overlap = "perhaps" },
		"missed":           func(s *haulier.Schedule) { s.Missed = "some" },
		"missed_most":      func(s *haulier.Schedule) { s.Missed, s.MissedMost = haulier.MissedAll, 1000 },
		"jitter":           func(s *haulier.Schedule) { s.Jitter = -1 },
		"end":              func(s *haulier.Schedule) { s.Start, s.End = time.Now(), time.Now().Add(-time.Hour) },
		"job":              func(s *haulier.Schedule) { s.Job = nil },
		"job.type":         func(s *haulier.Schedule) { s.Job.Type = "" },
		"job.payload":      func(s *haulier.Schedule) { s.Job.PayloadBytes, s.Job.Payload = make([]byte, haulier.MaxPayload+1), nil },
		"job.max_attempts": func(s *haulier.Schedule) { s.Job.MaxAttempts = -1 },
	} {
		_, err := h.SetSchedule(t.Context(), every("s", "@daily", change))
		var f *haulier.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("a wrong %s: %v", field, err)
		}
	}
}

func ticksTwice(_ *testing.T, h *Harness) {
	begin := time.Now()
	other := &Harness{t: h.t, Store: h.Store, blobs: h.blobs}
	other.begin()
	h.schedule(every("here", "@every 1s", nil))
	other.schedule(every("there", "@every 2s", nil))
	h.pass(10*time.Second + time.Millisecond)
	other.end() // what it was to start falls to the one that is left
	h.pass(10 * time.Second)
	want := make([]int, 20)
	for i := range want {
		want[i] = i + 1
	}
	h.wantStarted("here", begin, want...)
	h.wantStarted("there", begin, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20)
}

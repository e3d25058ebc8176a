package enginetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var windowing = []behaviour{
	{"while a window is closed its jobs wait, and say until when", windowCloses},
	{"a job that names a window keeps to it, another does not", windowNamed},
	{"force starts a job in spite of a window, from the first or later", windowForced},
	{"a window that is changed or removed counts at once, also after a crash", windowChanged},
	{"only the newest job survives a freeze, if that is wanted", windowNewest},
	{"several windows must all be open", windowsInCommon},
	{"a window that can't be is refused", windowRefused},
	{"two servers keep to the same windows", windowElsewhere},
	{"a rate tells when it is a job's turn", rateExpected},
}

func (h *Harness) window(w haulier.Window) haulier.Window {
	h.t.Helper()
	w, err := h.SetWindow(h.t.Context(), w)
	if err != nil {
		h.t.Fatalf("set window: %v", err)
	}
	return w
}

// freeze is a window that is closed from noon to one o'clock; in synctest it is midnight at first.
func freeze(change func(*haulier.Window)) haulier.Window {
	w := haulier.Window{Name: "noon", Mode: "freeze", Rules: []string{"12:00-13:00"}}
	if change != nil {
		change(&w)
	}
	return w
}

const halfPastNoon = 12*time.Hour + 30*time.Minute

func windowCloses(t *testing.T, h *Harness) {
	w := h.window(freeze(func(w *haulier.Window) { w.Queues = []string{"q"} }))
	if w.Closed || w.Until.Hour() != 12 {
		t.Errorf("%+v", w)
	}
	h.pass(halfPastNoon)
	begin := time.Now()
	s := h.open(patient)
	a, b := h.add(func(s *haulier.Spec) { s.Queue = "q" }), h.add(nil)
	if j := h.claimOne(s); j.ID != b {
		t.Errorf("a job of a closed window was claimed")
	}
	j := h.want(a, haulier.Scheduled)
	if !j.Status.RunAt.Equal(begin.Add(30*time.Minute)) || j.Frozen != "noon" || j.Attempt != 0 {
		t.Errorf("%+v, %+v", j.Status, j.Standing)
	}
	x, err := h.Why(t.Context(), "", a)
	if err != nil || !x.Expected.Equal(j.Status.RunAt) || !strings.Contains(strings.Join(x.Reasons, " "), "window noon is closed until") {
		t.Errorf("%+v, %v", x, err)
	}
	if list, err := h.Windows(t.Context(), ""); err != nil || len(list) != 1 || !list[0].Closed || list[0].Frozen != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	h.pass(30 * time.Minute)
	if j := h.claimOne(s); j.ID != a || j.Attempt != 1 {
		t.Errorf("when the window opens %+v is claimed", j)
	}
	if list, err := h.Windows(t.Context(), ""); err != nil || list[0].Closed || list[0].Frozen != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func windowNamed(t *testing.T, h *Harness) {
	h.window(freeze(nil))
	h.window(freeze(func(w *haulier.Window) { w.Name, w.Types = "typed", []string{"other"} }))
	h.pass(halfPastNoon)
	s := h.open(patient)
	named := h.enqueue(withFlow(haulier.Flow{Windows: []string{"noon", "unknown"}}))[0]
	typed := h.add(func(s *haulier.Spec) { s.Type = "other" })
	free := h.add(nil)
	if j := h.claimOne(s); j.ID != free {
		t.Errorf("claimed %v", j.ID)
	}
	h.want(named, haulier.Scheduled)
	h.want(typed, haulier.Scheduled)
}

func windowForced(t *testing.T, h *Harness) {
	h.window(freeze(func(w *haulier.Window) { w.Queues = []string{"default"} }))
	h.pass(halfPastNoon)
	s := h.open(patient)
	first := h.enqueue(withFlow(haulier.Flow{Force: true}))[0]
	later := h.add(nil)
	if j := h.claimOne(s); j.ID != first {
		t.Errorf("claimed %v", j.ID)
	}
	h.want(later, haulier.Scheduled)
	if c, err := h.Force(t.Context(), haulier.Selection{IDs: []haulier.ID{later}}, "ann"); err != nil || c.N != 1 {
		t.Fatal(c, err)
	}
	if j := h.claimOne(s); j.ID != later || !j.Forced {
		t.Errorf("claimed %+v", j)
	}
	if c, _ := h.Force(t.Context(), haulier.Selection{IDs: []haulier.ID{later}}, "ann"); !errors.Is(c.Errors[later], haulier.ErrConflict) {
		t.Errorf("a job that runs was forced: %+v", c)
	}
}

func windowChanged(t *testing.T, h *Harness) {
	h.window(freeze(func(w *haulier.Window) { w.Queues = []string{"default"} }))
	h.pass(halfPastNoon)
	begin := time.Now()
	s := h.open(patient)
	ids := h.enqueue(haulier.Spec{Type: "work"}, haulier.Spec{Type: "work"})
	h.claim(s, 10)
	h.window(freeze(func(w *haulier.Window) { w.Queues, w.Rules = []string{"default"}, []string{"12:00-15:00"} }))
	h.restart()
	h.pass(time.Second)
	if got := h.claim(s, 10); len(got) > 0 {
		t.Errorf("claimed %d", len(got))
	}
	if j := h.want(ids[0], haulier.Scheduled); !j.Status.RunAt.Equal(begin.Add(150 * time.Minute)) {
		t.Errorf("it is to start at %v", j.Status.RunAt)
	}
	if err := h.DeleteWindow(t.Context(), "", "noon"); err != nil {
		t.Fatal(err)
	}
	h.pass(time.Second)
	if got := h.claim(s, 10); len(got) != 2 {
		t.Errorf("when the window is gone, %d are claimed", len(got))
	}
	if err := h.DeleteWindow(t.Context(), "", "noon"); !errors.Is(err, haulier.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func windowNewest(t *testing.T, h *Harness) {
	h.window(freeze(func(w *haulier.Window) { w.Types, w.Newest = []string{"work"}, true }))
	h.pass(halfPastNoon)
	s := h.open(patient)
	var ids []haulier.ID
	for range 3 {
		ids = append(ids, h.add(nil))
		h.claim(s, 10)
	}
	child := h.enqueue(withFlow(needing(ids[0])))[0]
	for _, id := range ids[:2] {
		if j := h.want(id, haulier.Collapsed); j.Survivor.IsNil() {
			t.Errorf("%v is replaced by nobody", id)
		}
	}
	h.want(ids[2], haulier.Scheduled)
	h.pass(31 * time.Minute)
	if j := h.claimOne(s); j.ID != ids[2] {
		t.Errorf("claimed %v", j.ID)
	} else {
		h.ok(s, j)
	}
	h.want(child, haulier.Pending)
}

func windowsInCommon(t *testing.T, h *Harness) {
	h.window(freeze(func(w *haulier.Window) { w.Queues = []string{"default"} }))
	h.window(haulier.Window{Name: "even", Mode: "open", Rules: []string{"* 0,2,4,6,8,10,12,14 ? * *"}, Types: []string{"work"}})
	h.pass(halfPastNoon)
	begin := time.Now()
	s := h.open(patient)
	id := h.add(nil)
	h.claim(s, 1)
	if j := h.want(id, haulier.Scheduled); !j.Status.RunAt.Equal(begin.Add(90 * time.Minute)) {
		t.Errorf("it is to start at %v", j.Status.RunAt)
	}
}

func windowRefused(t *testing.T, h *Harness) {
	for field, w := range map[string]haulier.Window{
		"mode":      {Name: "w", Mode: "shut", Rules: []string{"mon"}},
		"rules":     {Name: "w", Mode: "freeze", Rules: []string{"mon-sun"}},
		"rules[1]":  {Name: "w", Mode: "freeze", Rules: []string{"mon", "funday"}},
		"zone":      {Name: "w", Mode: "freeze", Zone: "Nowhere", Rules: []string{"mon"}},
		"name":      {Name: "a b", Mode: "freeze", Rules: []string{"mon"}},
		"queues[0]": {Name: "w", Mode: "freeze", Rules: []string{"mon"}, Queues: []string{"a/b"}},
	} {
		_, err := h.SetWindow(t.Context(), w)
		var f *haulier.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("a wrong %s: %v", field, err)
		}
	}
}

func windowElsewhere(t *testing.T, h *Harness) {
	other := &Harness{t: h.t, Store: h.Store, blobs: h.blobs}
	other.begin()
	defer other.end()
	h.pass(halfPastNoon)
	other.window(freeze(func(w *haulier.Window) { w.Queues = []string{"default"} }))
	h.pass(11 * time.Second)
	s := h.open(patient)
	id := h.add(nil)
	if got := h.claim(s, 10); len(got) > 0 {
		t.Errorf("a server that did not make the window lets jobs start")
	}
	if err := other.DeleteWindow(t.Context(), "", "noon"); err != nil {
		t.Fatal(err)
	}
	h.pass(11 * time.Second)
	if j := h.claimOne(s); j.ID != id {
		t.Errorf("claimed %v", j.ID)
	}
}

func rateExpected(t *testing.T, h *Harness) {
	if err := h.SetLimit(t.Context(), "", "api", haulier.Limit{Rate: 1, Per: haulier.Duration(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	s := h.open(patient)
	var ids []haulier.ID
	for range 4 {
		ids = append(ids, h.enqueue(withFlow(haulier.Flow{Limits: []string{"api"}}))[0])
	}
	h.claim(s, 10)
	x, err := h.Why(t.Context(), "", ids[3])
	if err != nil || !x.Expected.Equal(begin.Add(3*time.Minute)) {
		t.Errorf("%+v, %v: want it expected after 3 minutes", x, err)
	}
}

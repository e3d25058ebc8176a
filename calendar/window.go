package calendar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// maxRules is how many rules a window may have.
const maxRules = 100

// Mode says what the rules of a window mean.
type Mode string

// The modes.
const (
	Freeze Mode = "freeze" // no job starts while any rule matches
	Open   Mode = "open"   // jobs start only while any rule matches
)

// Definition is a window as people write it.
type Definition struct {
	Mode Mode `json:"mode"`
	// Zone is whose clock the rules mean that don't begin with TZ=, as in Europe/Berlin. Empty is UTC.
	Zone string `json:"zone,omitempty"`
	// Rules are sets of minutes (* 9-17 ? * mon-fri), days and hours of the week
	// (mon-fri 09:00-17:00), days (2026-12-24/2027-01-01) or instants; up to 100.
	Rules []string `json:"rules"`
}

// Window says when jobs may start. Its recurring rules go by the clock on the
// wall: an hour that is repeated matches both times, one that is left out never. They count
// whole minutes. In JSON it is its Definition.
type Window struct {
	def   Definition
	zones []zoned
	spans []span
}

// zoned are the recurring rules by one zone's clock.
type zoned struct {
	zone  *time.Location
	rules []recurring
}

// NewWindow compiles a definition. What is wrong is a haulier.FieldError of mode, zone, rules
// or one of them, as in "rules[2]". So is a window that is never open.
func NewWindow(d Definition) (*Window, error) {
	w := &Window{def: d}
	w.def.Rules = make([]string, len(d.Rules))
	if d.Mode != Freeze && d.Mode != Open {
		return nil, &haulier.FieldError{Field: "mode", Msg: fmt.Sprintf("%q is neither freeze nor open", clip(string(d.Mode)))}
	}
	zone, err := Zone(d.Zone)
	if err != nil {
		return nil, &haulier.FieldError{Field: "zone", Msg: err.Error()}
	}
	if len(d.Rules) == 0 || len(d.Rules) > maxRules {
		return nil, &haulier.FieldError{Field: "rules", Msg: fmt.Sprintf("has %d rules: write 1 to %d", len(d.Rules), maxRules)}
	}
	for i, text := range d.Rules {
		r, err := parseRule(text, zone)
		if err != nil {
			return nil, &haulier.FieldError{Field: fmt.Sprintf("rules[%d]", i), Msg: err.Error()}
		}
		w.def.Rules[i] = strings.Join(strings.Fields(text), " ")
		w.include(r)
	}
	if !w.opens() {
		return nil, &haulier.FieldError{Field: "rules", Msg: "leave no time at which a job may start: take out or narrow one of them"}
	}
	return w, nil
}

// include adds what a rule says.
func (w *Window) include(r rule) {
	w.spans = append(w.spans, r.spans...)
	if len(r.recurring) == 0 {
		return
	}
	for i := range w.zones {
		if w.zones[i].zone.String() == r.zone.String() {
			w.zones[i].rules = append(w.zones[i].rules, r.recurring...)
			return
		}
	}
	w.zones = append(w.zones, zoned{r.zone, r.recurring})
}

// opens reports whether there is, was or will be any time at which a job may start. It does
// not depend on the present.
func (w *Window) opens() bool {
	if w.def.Mode == Open && len(w.spans) > 0 {
		return true
	}
	// Spans of a freeze end.
	endless := &Window{def: w.def, zones: w.zones}
	_, ok := NextOpen([]*Window{endless}, time.Unix(0, 0))
	return ok
}

// ParseWindow reads the mode and the rules from one line, as in
//
//	freeze: * 9-17 ? * mon-fri; 2026-12-24/2027-01-01
//	open in Europe/Berlin: mon-fri 22:00-06:00; sat,sun
func ParseWindow(text string) (*Window, error) {
	head, rules, ok := strings.Cut(text, ":")
	if words := strings.Fields(head); ok && len(words) > 0 {
		d := Definition{Mode: Mode(words[0]), Rules: strings.Split(rules, ";")}
		switch {
		case len(words) == 3 && words[1] == "in":
			d.Zone = words[2]
			return NewWindow(d)
		case len(words) == 1:
			return NewWindow(d)
		}
	}
	return nil, &haulier.FieldError{Field: "window", Msg: fmt.Sprintf("%q is no window: write it as freeze: mon-fri 09:00-17:00, or open in Europe/Berlin: sat,sun", clip(text))}
}

// String returns the line that ParseWindow reads.
func (w *Window) String() string {
	head := string(w.def.Mode)
	if w.def.Zone != "" {
		head += " in " + w.def.Zone
	}
	return head + ": " + strings.Join(w.def.Rules, "; ")
}

// Definition returns what the window was made of.
func (w *Window) Definition() Definition {
	d := w.def
	d.Rules = slices.Clone(d.Rules)
	return d
}

// MarshalJSON writes the definition.
func (w *Window) MarshalJSON() ([]byte, error) { return json.Marshal(w.def) }

// UnmarshalJSON reads and compiles a definition, with the errors of NewWindow.
func (w *Window) UnmarshalJSON(b []byte) error {
	var d Definition
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return &haulier.FieldError{Field: "window", Msg: fmt.Sprintf("can't be read: %v: write mode, zone and rules", err)}
	}
	read, err := NewWindow(d)
	if err != nil {
		return err
	}
	*w = *read
	return nil
}

package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// record is a job as its hash has it.
type record struct {
	at      string // how it stands
	spec    string // without payload
	payload string
	status  string // without result
	result  string
}

// recordFields are those of the hash that make a record, in its order.
var recordFields = []string{"at", "spec", "payload", "status", "result"}

// job decodes the record.
func (r *record) job() (*haulier.Job, error) {
	parts := strings.SplitN(r.at, " ", 6) // revision, state, priority, whether there is a result, owner, lane
	if len(parts) != 6 {
		return nil, corrupt("%.100q is not how a job stands", r.at)
	}
	return r.claimed(parts[4])
}

// claimed decodes the record of a job with an owner, whose claim may not be in the status yet.
func (r *record) claimed(owner string) (*haulier.Job, error) {
	var j haulier.Job
	var err error
	if j.Spec, err = wire.ParseSpec([]byte(r.spec)); err != nil {
		return nil, err
	}
	if err := wire.ReadStatus([]byte(r.status), &j.Status); err != nil {
		return nil, fmt.Errorf("job %v: %w", j.ID, err)
	}
	if r.payload != "" {
		j.Payload = []byte(r.payload)
	}
	if r.result != "" {
		j.Result = []byte(r.result)
	}
	if !strings.Contains(owner, "/") {
		return &j, nil
	}
	e, at, err := parseClaim(owner)
	if err != nil {
		return nil, fmt.Errorf("job %v: %w", j.ID, err)
	}
	if j.Status, err = j.Next(e, at); err != nil {
		return nil, corrupt("job %v is %v, and has a claim beside", j.ID, j.State)
	}
	return &j, nil
}

// parseClaim reads what the script has noted of a claim: TIME/SESSION/WORKER.
func parseClaim(text string) (e haulier.Event, at time.Time, err error) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 {
		return e, at, corrupt("%.100q is no claim", text)
	}
	us, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		return e, at, corrupt("%.100q is no claim", text)
	}
	e = haulier.Event{Kind: haulier.EventClaim, By: workerUnescaper.Replace(parts[2])}
	if e.Session, err = haulier.ParseID(parts[1]); err != nil {
		return e, at, corrupt("%.100q is no claim", text)
	}
	return e, time.UnixMicro(us).UTC(), nil
}

// specText encodes a spec without its payload, which stands apart.
func specText(s *haulier.Spec) string {
	if len(s.Payload) == 0 {
		return rueidis.BinaryString(wire.AppendSpec(nil, s))
	}
	bare := *s
	bare.Payload = nil
	return rueidis.BinaryString(wire.AppendSpec(nil, &bare))
}

// statusText encodes a status without its result, which stands apart.
func statusText(s *haulier.Status) string {
	if len(s.Result) == 0 {
		return rueidis.BinaryString(wire.AppendStatus(nil, s))
	}
	bare := *s
	bare.Result = nil
	return rueidis.BinaryString(wire.AppendStatus(nil, &bare))
}

// sessionText is the owner of a job, "-" when it has none.
func sessionText(s *haulier.Status) string {
	if !s.State.Owned() {
		return "-"
	}
	return s.Session.String()
}

// timeText is the time by which the index of the job's state orders.
func timeText(s *haulier.Status) string {
	switch {
	case s.State == haulier.Pending || s.State == haulier.Scheduled:
		return microText(s.RunAt.UnixMicro())
	case s.State.Terminal():
		return microText(s.PurgeAt.UnixMicro())
	}
	return "0"
}

func microText(us int64) string { return strconv.FormatInt(us, 10) }

// A slash parts the names of a lane, and a bar its kind from what its jobs ask of a worker, so they must not be in one of them.
var (
	escaper   = strings.NewReplacer("%", "%25", "/", "%2F", "|", "%7C")
	unescaper = strings.NewReplacer("%25", "%", "%2F", "/", "%7C", "|")
)

// The name of a worker stands between spaces.
var (
	workerEscaper   = strings.NewReplacer("%", "%25", " ", "%20")
	workerUnescaper = strings.NewReplacer("%25", "%", "%20", " ")
)

func laneText(l haulier.Lane) string {
	text := escaper.Replace(l.Tenant) + "/" + escaper.Replace(l.Queue) + "/" + escaper.Replace(l.Type) + "/" + escaper.Replace(string(l.Kind))
	if l.RunsOn != "" {
		text += "|" + escaper.Replace(l.RunsOn)
	}
	return text
}

func parseLane(text string) (l haulier.Lane, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 4 {
		return l, corrupt("%.300q is no lane", text)
	}
	kind, runsOn, _ := strings.Cut(parts[3], "|")
	parts[3] = kind
	for i := range parts {
		parts[i] = unescaper.Replace(parts[i])
	}
	return haulier.Lane{Tenant: parts[0], Queue: parts[1], Type: parts[2], Kind: haulier.Kind(parts[3]), RunsOn: unescaper.Replace(runsOn)}, nil
}

func bandText(b haulier.Band) string { return strconv.Itoa(b.Priority) + ":" + laneText(b.Lane) }

func parseBand(text string) (b haulier.Band, err error) {
	priority, lane, _ := strings.Cut(text, ":")
	if b.Priority, err = strconv.Atoi(priority); err != nil {
		return b, corrupt("%.300q is no band", text)
	}
	b.Lane, err = parseLane(lane)
	return b, err
}

func parseState(text string) (s haulier.State, err error) {
	if err := s.UnmarshalText([]byte(text)); err != nil {
		return 0, corrupt("%.30q is no state", text)
	}
	return s, nil
}

// parseMicros reads a time as Redis keeps it, which is a floating point number.
func parseMicros(text string) (int64, error) {
	if us, err := strconv.ParseInt(text, 10, 64); err == nil {
		return us, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, corrupt("%.30q is no time", text)
	}
	return int64(f), nil
}

// answer takes the items of a reply one by one. After the first that is not what it should be, bad says so.
type answer struct {
	items []rueidis.RedisMessage
	bad   error
}

func (a *answer) more() bool { return len(a.items) > 0 && a.bad == nil }

// text is the next item; nil is "".
func (a *answer) text() string {
	if a.bad != nil {
		return ""
	}
	if len(a.items) == 0 {
		a.bad = corrupt("an answer ends too soon")
		return ""
	}
	item := a.items[0]
	a.items = a.items[1:]
	if item.IsNil() {
		return ""
	}
	text, err := item.ToString()
	if err != nil {
		a.bad = corrupt("an answer has something else where a text should be (%v)", err)
	}
	return text
}

// texts is the next item, a list.
func (a *answer) texts() []string {
	if a.bad != nil {
		return nil
	}
	if len(a.items) == 0 {
		a.bad = corrupt("an answer ends too soon")
		return nil
	}
	list, err := a.items[0].AsStrSlice()
	a.items = a.items[1:]
	if err != nil {
		a.bad = corrupt("an answer has something else where a list should be (%v)", err)
	}
	return list
}

func (a *answer) micros() int64 {
	text := a.text()
	if a.bad != nil {
		return 0
	}
	us, err := parseMicros(text)
	a.bad = err
	return us
}

func (a *answer) state() haulier.State {
	text := a.text()
	if a.bad != nil {
		return 0
	}
	s, err := parseState(text)
	a.bad = err
	return s
}

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

// A job is two values: its spec with the payload behind it, and its status with the result behind it. Each begins with
// the length of the first of the two; before a status there is a line that says how the job stands:
//
//	213 SPEC{"to":"ann@example.com"}
//	3 claimed 0 1759000000000000/06f…/worker-1 default/default/mail/go
//	98 STATUSRESULT

// appendBehind appends the first part after its length, and what is behind it.
func appendBehind(b, first, rest []byte) []byte {
	b = append(strconv.AppendInt(b, int64(len(first)), 10), ' ')
	return append(append(b, first...), rest...)
}

// parts takes a value apart.
func parts(text string) (first, rest string, err error) {
	length, text, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(text) {
		return "", "", corrupt("a value begins with %.20q, which is not its length", length)
	}
	return text[:n], text[n:], nil
}

// parseSpec reads a spec with its payload.
func parseSpec(text string) (spec haulier.Spec, err error) {
	first, payload, err := parts(text)
	if err != nil {
		return spec, err
	}
	if spec, err = wire.ParseSpec([]byte(first)); err == nil && payload != "" {
		spec.Payload = []byte(payload)
	}
	return spec, err
}

// parseJob reads both values of a job. If its owner is a claim, that is applied.
func parseJob(spec, status string) (*haulier.Job, error) {
	var j haulier.Job
	line, status, _ := strings.Cut(status, "\n")
	words := strings.SplitN(line, " ", 5) // revision, state, priority, owner, lane
	if len(words) != 5 {
		return nil, corrupt("%.100q is not how a job stands", line)
	}
	var err error
	if j.Spec, err = parseSpec(spec); err != nil {
		return nil, err
	}
	first, result, err := parts(status)
	if err == nil {
		err = wire.ReadStatus([]byte(first), &j.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("job %v: %w", j.ID, err)
	}
	if result != "" {
		j.Result = []byte(result)
	}
	owner := words[3]
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

// specText encodes a spec with its payload behind it, which is left out for a change.
func specText(s *haulier.Spec, payload []byte) string {
	bare := s
	if len(s.Payload) > 0 {
		c := *s
		c.Payload = nil
		bare = &c
	}
	var room [512]byte
	encoded := wire.AppendSpec(room[:0], bare)
	return rueidis.BinaryString(appendBehind(make([]byte, 0, 8+len(encoded)+len(payload)), encoded, payload))
}

// statusText encodes how a job stands and its status, with the result behind it.
func statusText(spec *haulier.Spec, s *haulier.Status) string {
	bare := s
	if len(s.Result) > 0 {
		c := *s
		c.Result = nil
		bare = &c
	}
	var room [512]byte
	encoded := wire.AppendStatus(room[:0], bare)
	b := make([]byte, 0, 128+len(encoded)+len(s.Result))
	b = append(strconv.AppendUint(b, s.Rev, 10), ' ')
	b = append(append(b, s.State.String()...), ' ')
	b = append(strconv.AppendInt(b, int64(spec.Priority), 10), ' ')
	b = append(append(b, sessionText(s)...), ' ')
	b = append(append(b, laneText(spec.Lane())...), '\n')
	return rueidis.BinaryString(appendBehind(b, encoded, s.Result))
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

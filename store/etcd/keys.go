package etcd

import (
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// A slash parts the names of a lane, and a bar its kind from what its jobs ask of a worker, so they must not be in one of them.
var (
	escaper   = strings.NewReplacer("%", "%25", "/", "%2F", "|", "%7C")
	unescaper = strings.NewReplacer("%25", "%", "%2F", "/", "%7C", "|")
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

func bandText(b haulier.Band) string {
	p := haulier.MaxPriority - b.Priority
	return laneText(b.Lane) + "/" + string([]byte{'0' + byte(p/10), '0' + byte(p%10)})
}

func parseBand(text string) (b haulier.Band, err error) {
	i := strings.LastIndexByte(text, '/')
	p, err := strconv.Atoi(text[i+1:])
	if i < 0 || err != nil || p < 0 || p > 2*haulier.MaxPriority {
		return b, corrupt("%.300q is no band", text)
	}
	b.Priority = haulier.MaxPriority - p
	b.Lane, err = parseLane(text[:i])
	return b, err
}

// timeForm is the form of a time, whose order is that of the times from the year 0 to 9999.
const timeForm = "2006-01-02T15:04:05.000000Z"

func timeText(t time.Time) string { return t.UTC().Format(timeForm) }

// invertedTime is a time whose order is that of the times backwards.
func invertedTime(t time.Time) string {
	const digits = "0123456789abcdef"
	us := ^(uint64(t.UnixMicro()) ^ 1<<63)
	var b [16]byte
	for i := range b {
		b[i] = digits[us>>(60-4*i)&15]
	}
	return string(b[:])
}

func invert(id haulier.ID) haulier.ID {
	for i := range id {
		id[i] = ^id[i]
	}
	return id
}

// lastID is the id at the end of an index key.
func lastID(key string) (id haulier.ID, err error) {
	return haulier.ParseID(key[strings.LastIndexByte(key, '/')+1:])
}

// place is where a job stands: the key of its index entry, behind the prefix, with its value; and that for its removal when it has ended.
type place struct {
	key, value string
	purge      string // "": it has not ended
}

// timed is the part of a place that orders in a line: time and id.
func timed(t time.Time, id haulier.ID) string { return timeText(t) + "/" + id.String() }

func placeOf(lane string, priority int, id haulier.ID, s *haulier.Status) place {
	switch {
	case s.State == haulier.Pending:
		p := haulier.MaxPriority - priority
		return place{key: "ready/" + lane + "/" + string([]byte{'0' + byte(p/10), '0' + byte(p%10)}) + "/" + timed(s.RunAt, id)}
	case s.State == haulier.Scheduled:
		return place{key: "timer/" + timed(s.RunAt, id), value: lane}
	case s.State.Owned():
		return place{key: "owned/" + s.Session.String() + "/" + id.String(), value: s.State.String() + " " + lane}
	case s.State.Terminal():
		return place{
			key:   "done/" + s.State.String() + "/" + lane + "/" + invertedTime(s.PurgeAt) + "/" + invert(id).String(),
			purge: "purge/" + timed(s.PurgeAt, id),
		}
	}
	return place{key: "blocked/" + id.String(), value: lane}
}

func tenantKey(tenant string, id haulier.ID) string {
	return "tenant/" + escaper.Replace(tenant) + "/" + invert(id).String()
}

func docKey(kind haulier.DocKind, key string) string { return "doc/" + string(kind) + "/" + key }

// following is the first key after all that have the prefix.
func following(prefix string) string {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			return prefix[:i] + string([]byte{prefix[i] + 1})
		}
	}
	return "\x00" // as etcd has it: no end
}

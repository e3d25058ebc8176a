package pebble

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/haulier/haulier"
)

// Every key begins with the byte of its keyspace. Numbers are big endian, so
// that keys sort by them; times are microseconds since 1970 with the sign turned.
//
//	j id                          job: spec and first status (wire.AppendJob)
//	s id                          status, once it has changed (wire.AppendStatus); not while owned
//	o session id                  owned: lane(4) and status of a claimed or running job
//	r lane(4) rank(1) time(8) id  ready: pending, by rank (falling priority); value 1 when s exists
//	t time(8) id                  timers: scheduled, by RunAt; value lane(4)
//	b id                          waiting: blocked; value lane(4)
//	d state(1) lane(4) time(8) id done: terminal, by PurgeAt
//	x kind 0 key                  document: rev, lease, value
//	l lane(4)                     names of a lane
//	c lane(4) state(1)            number of jobs
//	p lane(4) rank(1)             number of pending jobs of a band
//	m name                        facts about the store
//
// The keys of r, t, b and d are written once and removed once, so a single
// deletion is enough, which costs no tombstone once it meets its write.
const (
	spaceJob     = 'j'
	spaceStatus  = 's'
	spaceOwned   = 'o'
	spaceReady   = 'r'
	spaceTimer   = 't'
	spaceWaiting = 'b'
	spaceDone    = 'd'
	spaceDoc     = 'x'
	spaceLane    = 'l'
	spaceCount   = 'c'
	spaceBand    = 'p'
	spaceMeta    = 'm'
)

// mark orders jobs within a band, the timers, or a lane's done jobs: by time, then id.
type mark struct {
	at int64 // microseconds since 1970
	id haulier.ID
}

var (
	firstMark = mark{at: math.MinInt64}
	lastMark  = mark{at: math.MaxInt64, id: haulier.ID(bytes.Repeat([]byte{0xff}, 16))}
)

func (m mark) before(o mark) bool { return m.compare(o) < 0 }

func (m mark) compare(o mark) int {
	if c := cmp.Compare(m.at, o.at); c != 0 {
		return c
	}
	return bytes.Compare(m.id[:], o.id[:])
}

// micros is t as keys have it; the zero time sorts after all others.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixMicro()
}

func (m mark) time() time.Time {
	if m.at == math.MinInt64 || m.at == math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMicro(m.at).UTC()
}

func appendMark(b []byte, m mark) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(m.at)^1<<63)
	return append(b, m.id[:]...)
}

// parseMark reads the mark at the end of a key.
func parseMark(key []byte) (mark, error) {
	if len(key) < 24 {
		return mark{}, fmt.Errorf("index key %x: %w", key, haulier.ErrCorrupt)
	}
	tail := key[len(key)-24:]
	return mark{at: int64(binary.BigEndian.Uint64(tail) ^ 1<<63), id: haulier.ID(tail[8:])}, nil
}

// rank of a priority: the higher priority first.
func rank(priority int) byte {
	return byte(128 - min(max(priority, -127), 127))
}

func priorityOf(rank byte) int { return 128 - int(rank) }

func idKey(space byte, id haulier.ID) []byte {
	return append(append(make([]byte, 0, 17), space), id[:]...)
}

func ownedKey(session, id haulier.ID) []byte {
	return append(append(append(make([]byte, 0, 33), spaceOwned), session[:]...), id[:]...)
}

func readyPrefix(b []byte, lane uint32, rank byte) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, spaceReady), lane), rank)
}

func donePrefix(b []byte, s haulier.State, lane uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, spaceDone, byte(s)), lane)
}

// indexKey appends the key of the one index in which a job with the status stands.
func indexKey(b []byte, lane uint32, priority int, id haulier.ID, s *haulier.Status) []byte {
	switch {
	case s.State == haulier.Pending:
		return appendMark(readyPrefix(b, lane, rank(priority)), mark{micros(s.RunAt), id})
	case s.State == haulier.Scheduled:
		return appendMark(append(b, spaceTimer), mark{micros(s.RunAt), id})
	case s.State.Owned():
		return append(append(append(b, spaceOwned), s.Session[:]...), id[:]...)
	case s.State.Terminal():
		return appendMark(donePrefix(b, s.State, lane), mark{micros(s.PurgeAt), id})
	default:
		return append(append(b, spaceWaiting), id[:]...)
	}
}

func docKey(kind haulier.DocKind, key string) []byte {
	b := make([]byte, 0, 2+len(kind)+len(key))
	return append(append(append(append(b, spaceDoc), kind...), 0), key...)
}

// after is the first key behind all that begin with the prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

package haulier

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// ID is a UUID of version 7 (RFC 9562): 48 bits of Unix milliseconds, then a
// counter and random bits. IDs made by one process ascend strictly, so their
// order is the order of creation.
type ID [16]byte

// NilID is the zero ID: no job, no session.
var NilID ID

var idSource struct {
	sync.Mutex
	last uint64 // milliseconds << 18 | counter of the newest ID
	pool [1024]byte
	used int
}

// NewID returns an ID for the given instant. Safe for concurrent use.
//
// The layout is RFC 9562 section 6.2, method 1: twelve bits of rand_a and six of
// rand_b count IDs of one millisecond, 56 bits are random. When the clock
// steps back, or a millisecond's counter overflows, the time part runs ahead.
func NewID(now time.Time) ID {
	var ids [1]ID
	FillIDs(ids[:], now)
	return ids[0]
}

// FillIDs fills ids with new ascending IDs, at less cost than NewID for each.
func FillIDs(ids []ID, now time.Time) {
	s := &idSource
	s.Lock()
	defer s.Unlock()
	first := uint64(max(now.UnixMilli(), 0)) << 18 // before 1970 there is no time to encode
	for i := range ids {
		next := max(first, s.last+1)
		s.last = next
		if s.used == 0 || s.used+7 > len(s.pool) {
			rand.Read(s.pool[:])
			s.used = 0
		}
		id := &ids[i]
		ms, count := next>>18, next&(1<<18-1)
		binary.BigEndian.PutUint64(id[:8], ms<<16|0x7000|count>>6)
		id[8] = 0x80 | byte(count&0x3f)
		copy(id[9:], s.pool[s.used:s.used+7])
		s.used += 7
	}
}

// ParseID reads the usual hyphenated form, in either case. The error wraps ErrInvalid.
func ParseID(s string) (ID, error) {
	var id ID
	if err := id.UnmarshalText([]byte(s)); err != nil {
		return NilID, err
	}
	return id, nil
}

// IsNil reports whether id is the zero ID.
func (id ID) IsNil() bool { return id == NilID }

// Time is the instant, to the millisecond, that the ID was made at.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// String returns the hyphenated lower-case form.
func (id ID) String() string {
	b, _ := id.AppendText(make([]byte, 0, 36))
	return string(b)
}

// AppendText implements encoding.TextAppender.
func (id ID) AppendText(b []byte) ([]byte, error) {
	for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b, nil
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, 36)) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) != 36 || b[8] != '-' || b[13] != '-' || b[18] != '-' || b[23] != '-' {
		return fmt.Errorf("%w: %.50q is not a UUID such as 0199c3f0-7d3a-7000-8000-1b2c3d4e5f60", ErrInvalid, b)
	}
	var compact [32]byte
	n := 0
	for _, c := range b {
		if c != '-' && n < len(compact) {
			compact[n] = c
			n++
		}
	}
	var out ID
	if k, err := hex.Decode(out[:], compact[:n]); err != nil || k != 16 {
		return fmt.Errorf("%w: %.50q is not a UUID", ErrInvalid, b)
	}
	*id = out
	return nil
}

package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// fields walks over the fields of one message. next reads a field; the getters
// below return its value, and mark the message as bad when the field has another type or
// a value out of bounds. err tells at the end.
type fields struct {
	rest []byte
	num  protowire.Number
	typ  protowire.Type
	val  uint64 // of a varint or a fixed number
	data []byte // of bytes; shares memory with the message
	bad  error
}

// next reads the next field; false at the end of the message and when it is bad.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.bad != nil {
		return false
	}
	tag, n := protowire.ConsumeVarint(f.rest)
	if n < 0 || tag>>3 == 0 || tag>>3 > uint64(protowire.MaxValidNumber) {
		return f.fail("no field tag")
	}
	f.num, f.typ = protowire.Number(tag>>3), protowire.Type(tag&7)
	f.rest = f.rest[n:]
	switch f.typ {
	case protowire.VarintType:
		f.val, n = protowire.ConsumeVarint(f.rest)
	case protowire.BytesType:
		f.data, n = protowire.ConsumeBytes(f.rest)
	case protowire.Fixed64Type:
		f.val, n = protowire.ConsumeFixed64(f.rest)
	case protowire.Fixed32Type:
		var v uint32
		v, n = protowire.ConsumeFixed32(f.rest)
		f.val = uint64(v)
	default:
		return f.fail("a type that is not used")
	}
	if n < 0 {
		return f.fail("a value that does not end")
	}
	f.rest = f.rest[n:]
	return true
}

func (f *fields) fail(what string) bool {
	if f.bad == nil {
		f.bad = fmt.Errorf("%w: field %d: %s", haulier.ErrCorrupt, f.num, what)
	}
	return false
}

// take adopts the error of a message within this one.
func (f *fields) take(err error) {
	if err != nil && f.bad == nil {
		f.bad = err
	}
}

// err is nil when the whole message was good; what names it.
func (f *fields) err(what string) error {
	if f.bad == nil {
		return nil
	}
	return fmt.Errorf("parse %s: %w", what, f.bad)
}

func (f *fields) is(typ protowire.Type) bool {
	return f.typ == typ || f.fail("a value of another type")
}

func (f *fields) uint() uint64 {
	if !f.is(protowire.VarintType) {
		return 0
	}
	return f.val
}

func (f *fields) byte() byte {
	v := f.uint()
	if v > math.MaxUint8 {
		f.fail("a number out of bounds")
	}
	return byte(v)
}

func (f *fields) int64() int64 { return protowire.DecodeZigZag(f.uint()) }

func (f *fields) int() int {
	v := f.int64()
	if int64(int(v)) != v {
		f.fail("a number out of bounds")
	}
	return int(v)
}

func (f *fields) duration() haulier.Duration { return haulier.Duration(f.int64()) }

func (f *fields) bool() bool { return f.uint() != 0 }

func (f *fields) float() float64 {
	if !f.is(protowire.Fixed64Type) {
		return 0
	}
	v := math.Float64frombits(f.val)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		f.fail("not a finite number")
	}
	return v
}

// bytes are the field's own; nil when empty.
func (f *fields) bytes() []byte {
	if !f.is(protowire.BytesType) || len(f.data) == 0 {
		return nil
	}
	return f.data[:len(f.data):len(f.data)]
}

func (f *fields) text() string { return string(f.bytes()) }

// name is text that is likely to come again.
func (f *fields) name() string { return intern(f.bytes()) }

func (f *fields) id() (id haulier.ID) {
	if f.is(protowire.BytesType) {
		if len(f.data) != len(id) {
			f.fail("an id that is not of 16 bytes")
		}
		copy(id[:], f.data)
	}
	return id
}

// The times that a Time may have: those of years with four digits, which JSON can tell.
var (
	minMicros = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC).UnixMicro()
	maxMicros = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMicro()
)

func (f *fields) time() time.Time { return f.timeSince(f.int64(), 0) }

// timeSince is the time at us microseconds after base, itself within the bounds.
func (f *fields) timeSince(us, base int64) time.Time {
	if us < -maxMicros*2 || us > maxMicros*2 || us+base < minMicros || us+base > maxMicros {
		f.fail("a time out of bounds")
		return time.Time{}
	}
	return time.UnixMicro(us + base).UTC()
}

// entry adds the field, an entry of a map, to m and returns m, made when it was nil.
func (f *fields) entry(m map[string]string) map[string]string {
	var key, value string
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			key = e.name()
		case 2:
			value = e.name()
		}
	}
	f.take(e.bad)
	if m == nil {
		m = make(map[string]string, 4)
	}
	m[key] = value
	return m
}

// more appends v unless the list is full.
func more[T any](f *fields, list []T, v T, limit int) []T {
	if len(list) >= limit {
		f.take(fmt.Errorf("%w: field %d: more than %d", haulier.ErrTooLarge, f.num, limit))
		return list
	}
	return append(list, v)
}

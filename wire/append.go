package wire

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// The put functions append one field, or nothing when its value is zero.

func putTag(b []byte, num protowire.Number, typ protowire.Type) []byte {
	if num < 16 {
		return append(b, byte(num)<<3|byte(typ))
	}
	return protowire.AppendTag(b, num, typ)
}

func putUint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(putTag(b, num, protowire.VarintType), v)
}

func putInt[T ~int | ~int64](b []byte, num protowire.Number, v T) []byte {
	return putUint(b, num, protowire.EncodeZigZag(int64(v)))
}

func putBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return append(putTag(b, num, protowire.VarintType), 1)
}

func putFloat(b []byte, num protowire.Number, v float64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(putTag(b, num, protowire.Fixed64Type), math.Float64bits(v))
}

func putText[T ~string | ~[]byte](b []byte, num protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return putItem(b, num, v)
}

// putItem appends v also when it is empty, as items of lists need it.
func putItem[T ~string | ~[]byte](b []byte, num protowire.Number, v T) []byte {
	b = protowire.AppendVarint(putTag(b, num, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

func putID(b []byte, num protowire.Number, id haulier.ID) []byte {
	if id.IsNil() {
		return b
	}
	return append(append(putTag(b, num, protowire.BytesType), 16), id[:]...)
}

// putTime leaves out the zero time; 1970 itself is a time like others.
func putTime(b []byte, num protowire.Number, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return putMicros(b, num, t.UnixMicro())
}

// putSince writes t relative to base, in microseconds.
func putSince(b []byte, num protowire.Number, t time.Time, base int64) []byte {
	if t.IsZero() {
		return b
	}
	return putMicros(b, num, t.UnixMicro()-base)
}

func putMicros(b []byte, num protowire.Number, us int64) []byte {
	return protowire.AppendVarint(putTag(b, num, protowire.VarintType), protowire.EncodeZigZag(us))
}

func putMap(b []byte, num protowire.Number, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	var room [haulier.MaxLabels]string
	for _, k := range sortedKeys(m, room[:0]) {
		v := m[k]
		b = putTag(b, num, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizeText(k)+sizeText(v)))
		b = putText(putText(b, 1, k), 2, v)
	}
	return b
}

func sortedKeys[V any](m map[string]V, keys []string) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// sizeText is what putText appends for a field with a tag of one byte.
func sizeText(s string) int {
	if s == "" {
		return 0
	}
	return 1 + protowire.SizeBytes(len(s))
}

// open begins a message within a message; shut ends it, given open's mark.
func open(b []byte, num protowire.Number) (_ []byte, mark int) {
	b = append(putTag(b, num, protowire.BytesType), 0)
	return b, len(b)
}

// shut fills in the length before mark. There was room for one byte of it:
// longer messages move.
func shut(b []byte, mark int) []byte {
	n := len(b) - mark
	if n < 0x80 {
		b[mark-1] = byte(n)
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	var room [10]byte
	b = append(b, room[:more]...)
	copy(b[mark+more:], b[mark:mark+n])
	protowire.AppendVarint(b[:mark-1], uint64(n))
	return b
}

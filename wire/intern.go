package wire

import (
	"hash/maphash"
	"sync/atomic"
)

// Names (tenants, queues, types, workers, labels) come again and again. The
// newest string of each slot is kept and handed out instead of a copy. The table
// takes at most internSlots * internMax bytes, whatever comes in.
const (
	internSlots = 4096
	internMax   = 64
)

var (
	internTable [internSlots]atomic.Pointer[string]
	internSeed  = maphash.MakeSeed()
)

// intern returns b as a string, shared where the same was seen lately.
func intern(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > internMax {
		return string(b)
	}
	slot := &internTable[maphash.Bytes(internSeed, b)%internSlots]
	if p := slot.Load(); p != nil && *p == string(b) {
		return *p
	}
	s := string(b)
	slot.Store(&s)
	return s
}

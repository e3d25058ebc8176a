package etcd

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// An entry of the log is what one transaction has changed:
//
//	origin, call          the server's opening of the store, and the number of its call
//	1 before spec status  a job: the state before, or 0; spec without payload; status without result, empty when it is gone
//	2 session ttl         a lease that begins, in microseconds
//	3 session             a lease that is gone
//	4                     a batch with Tell
//
// Numbers are varints, states one byte, sessions 16, and the rest is preceded by its length.
const (
	logChange = 1
	logLease  = 2
	logGone   = 3
	logTell   = 4
)

// entry is what a transaction changes.
type entry struct {
	changes []haulier.JobChange
	leases  []leaseChange
	tell    bool
}

func (e *entry) empty() bool { return len(e.changes)+len(e.leases) == 0 && !e.tell }

// news is what watchers are told of.
func (e *entry) news() []haulier.JobChange {
	if e.tell {
		return append(slices.Clip(e.changes), haulier.JobChange{})
	}
	return e.changes
}

// leaseChange is a lease that begins, or is gone.
type leaseChange struct {
	session haulier.ID
	ttl     time.Duration
	gone    bool
}

func (e *entry) append(b []byte, origin string, call uint64) []byte {
	b = appendText(b, []byte(origin))
	b = binary.AppendUvarint(b, call)
	for i := range e.changes {
		c := &e.changes[i]
		b = append(b, logChange, byte(c.Before))
		spec := *c.Spec
		spec.Payload = nil
		b = appendText(b, wire.AppendSpec(nil, &spec))
		if c.Status.State == 0 {
			b = append(b, 0)
			continue
		}
		status := c.Status
		status.Result = nil
		b = appendText(b, wire.AppendStatus(nil, &status))
	}
	for _, l := range e.leases {
		if l.gone {
			b = append(append(b, logGone), l.session[:]...)
			continue
		}
		b = append(append(b, logLease), l.session[:]...)
		b = binary.AppendUvarint(b, uint64(max(l.ttl.Microseconds(), 0)))
	}
	if e.tell {
		b = append(b, logTell)
	}
	return b
}

func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// cutter takes an entry apart. After the first thing that is not what it should be, bad is set.
type cutter struct {
	rest []byte
	bad  bool
}

func (c *cutter) bytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.rest)) {
		c.bad, c.rest = true, nil
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cutter) byte() byte {
	if b := c.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (c *cutter) number() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *cutter) text() []byte { return c.bytes(c.number()) }

func (c *cutter) id() (id haulier.ID) {
	copy(id[:], c.bytes(uint64(len(id))))
	return id
}

// by reads who made the entry.
func (c *cutter) by() (origin string, call uint64) { return string(c.text()), c.number() }

// entry reads what follows.
func (c *cutter) entry() (e entry, err error) {
	for len(c.rest) > 0 && !c.bad {
		switch c.byte() {
		case logChange:
			change := haulier.JobChange{Before: haulier.State(c.byte())}
			spec, status := c.text(), c.text()
			s, err := wire.ParseSpec(spec)
			if err != nil {
				return e, err
			}
			change.Spec = &s
			if len(status) > 0 {
				if change.Status, err = wire.ParseStatus(status); err != nil {
					return e, err
				}
			}
			e.changes = append(e.changes, change)
		case logLease:
			l := leaseChange{session: c.id()}
			l.ttl = time.Duration(c.number()) * time.Microsecond
			e.leases = append(e.leases, l)
		case logGone:
			e.leases = append(e.leases, leaseChange{session: c.id(), gone: true})
		case logTell:
			e.tell = true
		default:
			c.bad = true
		}
	}
	if c.bad {
		return e, corrupt("an entry of the log ends within a record")
	}
	return e, nil
}

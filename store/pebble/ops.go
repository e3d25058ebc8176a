package pebble

import (
	"encoding/binary"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// ops are writes in the form of a Pebble batch's body, so that callers encode
// theirs side by side and the committer only joins bytes. There is one list for each
// keyspace: keys that are near each other are inserted one after the other,
// which costs a memtable far less than jumping about.
//
//	write = kind (1 byte) | key length (uvarint) | key | [ value length (uvarint) | value ]
type ops struct {
	body [spaces][]byte
	n    uint32
}

// spaces is how many keyspaces have a list; spaceIndex gives its number.
const spaces = 8

func spaceIndex(space byte) int {
	switch space {
	case spaceJob:
		return 0
	case spaceStatus:
		return 1
	case spaceOwned:
		return 2
	case spaceReady:
		return 3
	case spaceTimer:
		return 4
	case spaceWaiting:
		return 5
	case spaceDone:
		return 6
	default: // documents, counters, lanes, facts
		return 7
	}
}

// batchHeader is the length of what precedes the body: a sequence number (8) and the count (4).
const batchHeader = 12

// list is the body that a write to the key belongs to.
func (o *ops) list(key []byte) *[]byte {
	o.n++
	return &o.body[spaceIndex(key[0])]
}

func beginWrite(b []byte, kind pdb.InternalKeyKind, key []byte) []byte {
	return append(binary.AppendUvarint(append(b, byte(kind)), uint64(len(key))), key...)
}

func (o *ops) set(key, value []byte) {
	l := o.list(key)
	b := beginWrite(*l, pdb.InternalKeyKindSet, key)
	*l = append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// remove deletes a key that may have been written several times.
func (o *ops) remove(key []byte) {
	l := o.list(key)
	*l = beginWrite(*l, pdb.InternalKeyKindDelete, key)
}

// removeOnce deletes a key that was written just once since it was deleted.
func (o *ops) removeOnce(key []byte) {
	l := o.list(key)
	*l = beginWrite(*l, pdb.InternalKeyKindSingleDelete, key)
}

// removeIndex removes an index key.
func (o *ops) removeIndex(key []byte) {
	if key[0] == spaceOwned {
		o.remove(key)
	} else {
		o.removeOnce(key)
	}
}

func (o *ops) setJob(j *haulier.Job) {
	var room [17]byte
	key := append(append(room[:0], spaceJob), j.ID[:]...)
	l := o.list(key)
	b := append(beginWrite(*l, pdb.InternalKeyKindSet, key), 0)
	mark := len(b)
	*l = endValue(wire.AppendJob(b, j), mark)
}

func (o *ops) setStatus(key []byte, s *haulier.Status) {
	l := o.list(key)
	b := append(beginWrite(*l, pdb.InternalKeyKindSet, key), 0)
	mark := len(b)
	*l = endValue(wire.AppendStatus(b, s), mark)
}

// endValue fills in the length of the value that begins at mark, for which there was room of one byte.
func endValue(b []byte, mark int) []byte {
	n := len(b) - mark
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], uint64(n))
	if k > 1 {
		b = append(b, length[1:k]...) // any bytes: makes room
		copy(b[mark-1+k:], b[mark:mark+n])
	}
	copy(b[mark-1:], length[:k])
	return b
}

// join appends the writes of p.
func (o *ops) join(p *ops) {
	for i := range o.body {
		o.body[i] = append(o.body[i], p.body[i]...)
	}
	o.n += p.n
}

func (o *ops) size() (n int) {
	for i := range o.body {
		n += len(o.body[i])
	}
	return n
}

// maxKept is how much of a list's memory is kept for the next use.
const maxKept = 1 << 20

func (o *ops) reset() {
	for i := range o.body {
		if cap(o.body[i]) > maxKept {
			o.body[i] = nil
		}
		o.body[i] = o.body[i][:0]
	}
	o.n = 0
}

// batch makes a Pebble batch of the writes.
func (o *ops) batch(db *pdb.DB) (*pdb.Batch, error) {
	b := db.NewBatchWithSize(batchHeader + o.size())
	repr := b.Repr()[:batchHeader]
	for i := range o.body {
		repr = append(repr, o.body[i]...)
	}
	binary.LittleEndian.PutUint32(repr[8:], o.n)
	return b, b.SetRepr(repr)
}

// setOwned writes the entry of a claimed or running job: its lane's number and its status.
func (o *ops) setOwned(key []byte, lane uint32, s *haulier.Status) {
	l := o.list(key)
	b := append(beginWrite(*l, pdb.InternalKeyKindSet, key), 0)
	mark := len(b)
	b = binary.BigEndian.AppendUint32(b, lane)
	*l = endValue(wire.AppendStatus(b, s), mark)
}

// Package transfer moves all that is in a store to another one, or into a file and back.
//
// It knows what the port tells, and nothing of what the documents mean: which kinds of them there are is said by who calls it. The
// stores must be at rest. What arrived is compared with what left by count and by checksum, before the target may be used.
package transfer

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// Sum is what a store holds, in short. That of two stores is the same when their jobs and documents are, however they are stored.
type Sum struct {
	Jobs   int64                     `json:"jobs"`
	States []haulier.Count           `json:"states,omitempty"` // jobs by lane and state
	Docs   map[haulier.DocKind]int64 `json:"docs,omitempty"`   // documents by kind
	// Checksum is the sum modulo 2^256 of the SHA-256 of all records, in hex.
	Checksum string `json:"checksum"`
}

// Documents is their number.
func (s *Sum) Documents() (n int64) {
	for _, of := range s.Docs {
		n += of
	}
	return n
}

// record is a job or, when that is nil, a document.
type record struct {
	job *haulier.Job
	doc haulier.Doc
}

// append adds what counts of a record to b. Revisions of documents do not: they begin anew in another store.
func (r *record) append(b []byte) []byte {
	if r.job != nil {
		return wire.AppendJob(append(b, 'j'), r.job)
	}
	b = append(b, 'd')
	for _, part := range []string{string(r.doc.Kind), r.doc.Key} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	return append(b, r.doc.Value...)
}

// size is about how many bytes a record takes in a commit.
func (r *record) size() int {
	if r.job == nil {
		return len(r.doc.Key) + len(r.doc.Value) + 64
	}
	return len(r.job.Payload) + len(r.job.Result) + len(r.job.Error) + 128*len(r.job.History) + 1024
}

// tally makes a Sum.
type tally struct {
	jobs   int64
	states map[haulier.Count]int64 // by lane and state; their N is zero
	docs   map[haulier.DocKind]int64
	hash   [4]uint64 // the lowest part first
	buf    []byte
}

func newTally() *tally {
	return &tally{states: map[haulier.Count]int64{}, docs: map[haulier.DocKind]int64{}}
}

func (t *tally) add(r *record) {
	if r.job != nil {
		t.jobs++
		t.states[haulier.Count{Lane: r.job.Lane(), State: r.job.State}]++
	} else {
		t.docs[r.doc.Kind]++
	}
	t.buf = r.append(t.buf[:0])
	h := sha256.Sum256(t.buf)
	carry := uint64(0)
	for i := range t.hash {
		t.hash[i], carry = bits.Add64(t.hash[i], binary.LittleEndian.Uint64(h[8*i:]), carry)
	}
}

func (t *tally) sum() Sum {
	s := Sum{Jobs: t.jobs, Docs: maps.Clone(t.docs)}
	for c, n := range t.states {
		c.N = n
		s.States = append(s.States, c)
	}
	slices.SortFunc(s.States, func(a, b haulier.Count) int {
		return cmp.Or(cmp.Compare(a.Lane.String(), b.Lane.String()), cmp.Compare(a.State, b.State))
	})
	var h [32]byte
	for i := range t.hash {
		binary.BigEndian.PutUint64(h[8*i:], t.hash[3-i])
	}
	s.Checksum = hex.EncodeToString(h[:])
	return s
}

// compare is ErrCorrupt, with the first difference in words, unless both sums are the same.
func compare(want, got *Sum) error {
	differ := func(what string, a, b int64) error {
		return fmt.Errorf("%w: there are %d %s, of %d in the source", haulier.ErrCorrupt, b, what, a)
	}
	if want.Jobs != got.Jobs {
		return differ("jobs", want.Jobs, got.Jobs)
	}
	if err := compareCounts(want.States, got.States); err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(want.Docs)) {
		if want.Docs[kind] != got.Docs[kind] {
			return differ("documents of kind "+string(kind), want.Docs[kind], got.Docs[kind])
		}
	}
	switch {
	case want.Documents() != got.Documents():
		return differ("documents", want.Documents(), got.Documents())
	case want.Checksum != got.Checksum:
		return fmt.Errorf("%w: as many jobs and documents as in the source, but their checksum is %s and not %s", haulier.ErrCorrupt, got.Checksum, want.Checksum)
	}
	return nil
}

// compareCounts compares numbers of jobs by lane and state, of which either side may leave out zeros.
func compareCounts(want, got []haulier.Count) error {
	left := map[haulier.Count]int64{}
	for _, c := range got {
		left[haulier.Count{Lane: c.Lane, State: c.State}] += c.N
	}
	for _, c := range want {
		k := haulier.Count{Lane: c.Lane, State: c.State}
		if left[k] != c.N {
			return fmt.Errorf("%w: %d jobs of %v are %v, of %d in the source", haulier.ErrCorrupt, left[k], c.Lane, c.State, c.N)
		}
		delete(left, k)
	}
	for c, n := range left {
		if n != 0 {
			return fmt.Errorf("%w: %d jobs of %v are %v, of none in the source", haulier.ErrCorrupt, n, c.Lane, c.State)
		}
	}
	return nil
}

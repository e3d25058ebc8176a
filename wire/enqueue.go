package wire

import (
	"fmt"

	"github.com/haulier/haulier"
)

// A list of enqueue requests is messages (1) of specs (1), key (2), by (3), and whether the ids of the specs are kept (4).

// AppendEnqueueRequests appends the requests.
func AppendEnqueueRequests(b []byte, reqs []haulier.EnqueueRequest) []byte {
	for i := range reqs {
		r := &reqs[i]
		var outer, inner int
		b, outer = open(b, 1)
		for k := range r.Jobs {
			b, inner = open(b, 1)
			b = shut(AppendSpec(b, &r.Jobs[k]), inner)
		}
		b = putText(b, 2, r.Key)
		b = putText(b, 3, r.By)
		b = putBool(b, 4, r.KeepIDs)
		b = shut(b, outer)
	}
	return b
}

// ParseEnqueueRequests is the reverse of AppendEnqueueRequests. Payloads share
// memory with b. ErrTooLarge: more than MaxJobs jobs.
func ParseEnqueueRequests(b []byte) ([]haulier.EnqueueRequest, error) {
	room := MaxJobs
	reqs := make([]haulier.EnqueueRequest, 0, min(count(b, 1), MaxJobs))
	f := fields{rest: b}
	for f.next() {
		if f.num != 1 {
			continue
		}
		r, err := parseEnqueueRequest(f.bytes(), &room)
		f.take(err)
		reqs = more(&f, reqs, r, MaxJobs)
	}
	return reqs, f.err("enqueue requests")
}

func parseEnqueueRequest(b []byte, room *int) (r haulier.EnqueueRequest, err error) {
	n := count(b, 1)
	if *room -= n; *room < 0 {
		return r, fmt.Errorf("%w: more than %d jobs in one message; send several", haulier.ErrTooLarge, MaxJobs)
	}
	if n > 0 {
		r.Jobs = make([]haulier.Spec, 0, n)
	}
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case 1:
			r.Jobs = append(r.Jobs, haulier.Spec{})
			f.take(parseSpec(f.bytes(), &r.Jobs[len(r.Jobs)-1]))
		case 2:
			r.Key = f.text()
		case 3:
			r.By = f.name()
		case 4:
			r.KeepIDs = f.bool()
		}
	}
	return r, f.err("enqueue request")
}

// A list of enqueue results is messages (1) of ids one after the other (1), repeated (2), error (3), places of
// existing ones (4), and dropped ones (5) of place (1) and reason (2).

// AppendEnqueueResults appends the results.
func AppendEnqueueResults(b []byte, results []haulier.EnqueueResult) []byte {
	for i := range results {
		r := &results[i]
		var mark, ids int
		b, mark = open(b, 1)
		if len(r.IDs) > 0 {
			b, ids = open(b, 1)
			for _, id := range r.IDs {
				b = append(b, id[:]...)
			}
			b = shut(b, ids)
		}
		b = putBool(b, 2, r.Repeated)
		b = putError(b, 3, r.Err)
		for _, i := range r.Existing {
			b = putMicros(b, 4, int64(i)) // an item of a list is written also when it is zero
		}
		for i := range r.Dropped {
			var drop int
			b, drop = open(b, 5)
			b = putText(putInt(b, 1, r.Dropped[i].At), 2, r.Dropped[i].Reason)
			b = shut(b, drop)
		}
		b = shut(b, mark)
	}
	return b
}

// ParseEnqueueResults is the reverse of AppendEnqueueResults.
func ParseEnqueueResults(b []byte) ([]haulier.EnqueueResult, error) {
	results := make([]haulier.EnqueueResult, 0, min(count(b, 1), MaxJobs))
	f := fields{rest: b}
	for f.next() {
		if f.num != 1 {
			continue
		}
		r, err := parseEnqueueResult(f.bytes())
		f.take(err)
		results = more(&f, results, r, MaxJobs)
	}
	return results, f.err("enqueue results")
}

func parseEnqueueResult(b []byte) (r haulier.EnqueueResult, err error) {
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case 1:
			r.IDs = f.ids()
		case 2:
			r.Repeated = f.bool()
		case 3:
			r.Err = f.error(0)
		case 4:
			r.Existing = more(&f, r.Existing, f.int(), maxItems)
		case 5:
			r.Dropped = more(&f, r.Dropped, f.dropped(), maxItems)
		}
	}
	return r, f.err("enqueue result")
}

func (f *fields) dropped() (d haulier.Dropped) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			d.At = e.int()
		case 2:
			d.Reason = e.text()
		}
	}
	f.take(e.bad)
	return d
}

func (f *fields) ids() []haulier.ID {
	b := f.bytes()
	if len(b)%len(haulier.NilID) != 0 {
		f.fail("ids that are not of 16 bytes")
		return nil
	}
	ids := make([]haulier.ID, len(b)/len(haulier.NilID))
	for i := range ids {
		copy(ids[i][:], b[i*len(haulier.NilID):])
	}
	return ids
}

package storetest

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/haulier/haulier"
)

// What a cell has: jobs, documents, and the document of its session.
const (
	cellJobs    = 3
	cellSession = cellJobs + 2
	cellKeys    = cellSession + 1
)

// contents are the records of a cell, the state of the model.
type contents [cellKeys]record

// record is a job or document. Rev 0: it is not there. tag names the write that made it so.
type record struct {
	rev   uint64
	state haulier.State // of a job
	tag   string
}

func recordOf(j *haulier.Job) record {
	if j == nil {
		return record{}
	}
	return record{j.Rev, j.State, j.Worker}
}

func (r record) String() string {
	switch {
	case r.rev == 0:
		return "none"
	case r.state == 0:
		return fmt.Sprintf("@%d by %s", r.rev, r.tag)
	}
	return fmt.Sprintf("%v@%d by %s", r.state, r.rev, r.tag)
}

// states is a set of them.
type states uint32

const anyState = ^states(0)

func only(list ...haulier.State) (set states) {
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

func (set states) has(s haulier.State) bool { return set&(1<<s) != 0 }

// verb is what a call does.
type verb int

const (
	commits         verb = iota
	claims               // some of the jobs
	grasps               // a claim without an answer: one job, if it takes it
	sees                 // one record; it is not there, or in no state that is asked for, when nothing is seen
	counting             // jobs by state
	countingPending      // in the band
)

// verdict is what is told of a write.
type verdict int

const (
	done verdict = iota
	conflict
	noSession
	unknown
)

var verdicts = []string{"done", "conflict", "no session", "no answer"}

// input is a call.
type input struct {
	does   verb
	key    int // of grasps and sees
	among  states
	tag    string
	writes []cellWrite
}

type cellWrite struct {
	key    int
	expect uint64
	to     record // rev 0: removed. The revision of a document follows from the one before
}

// output is its answer.
type output struct {
	verdict verdict
	seen    contents // what was claimed, or seen
	counts  [16]int64
}

// cellModel is what the contract says of one cell.
var cellModel = porcupine.Model{
	Init: func() any { return contents{} },
	Step: func(state, in, out any) (bool, any) {
		return in.(input).step(state.(contents), out.(output))
	},
	DescribeOperation: describe,
	DescribeState:     func(state any) string { return fmt.Sprint(state.(contents)) },
}

// step carries out a call, and says whether it can have been answered so.
func (in input) step(c contents, out output) (bool, contents) {
	switch in.does {
	case commits:
		return in.commit(c, out.verdict)
	case claims:
		return in.claim(c, out)
	case grasps:
		if c[in.key].state == haulier.Pending && c[cellSession].rev > 0 {
			c[in.key] = record{c[in.key].rev + 1, haulier.Claimed, in.tag}
		}
		return true, c
	case sees:
		r, seen := c[in.key], out.seen[in.key]
		if seen.rev == 0 {
			return r.rev == 0 || !in.among.has(r.state), c
		}
		return r == seen && in.among.has(r.state), c
	default:
		var n [16]int64
		for k := range cellJobs {
			if s := c[k].state; c[k].rev > 0 && (in.does == counting || s == haulier.Pending) {
				n[s]++
			}
		}
		return n == out.counts, c
	}
}

func (in input) commit(c contents, told verdict) (bool, contents) {
	for _, w := range in.writes {
		if w.expect != haulier.AnyRev && c[w.key].rev != w.expect {
			return told == conflict || told == unknown, c
		}
	}
	for _, w := range in.writes {
		to := w.to
		if to.rev > 0 && w.key >= cellJobs {
			to.rev = c[w.key].rev + 1
		}
		c[w.key] = to
	}
	return told == done || told == unknown, c
}

func (in input) claim(c contents, out output) (bool, contents) {
	if c[cellSession].rev == 0 {
		return out.verdict == noSession, c
	}
	for k, r := range out.seen {
		if r.rev == 0 {
			continue
		}
		if c[k].state != haulier.Pending || r != (record{c[k].rev + 1, haulier.Claimed, in.tag}) {
			return false, c
		}
		c[k] = r
	}
	return out.verdict == done, c
}

// describe tells an operation, in histories that are kept.
func describe(i, o any) string {
	in, out := i.(input), o.(output)
	var b strings.Builder
	switch in.does {
	case commits:
		b.WriteString("commit")
		for _, w := range in.writes {
			expect := fmt.Sprint(w.expect)
			if w.expect == haulier.AnyRev {
				expect = "any"
			}
			fmt.Fprintf(&b, " %d: %s to %v;", w.key, expect, w.to)
		}
		b.WriteString(" " + verdicts[out.verdict])
	case claims, grasps:
		fmt.Fprintf(&b, "claim by %s: %s", in.tag, verdicts[out.verdict])
		for k, r := range out.seen {
			if r.rev > 0 {
				fmt.Fprintf(&b, " %d %v;", k, r)
			}
		}
		if in.does == grasps {
			fmt.Fprintf(&b, ", for %d", in.key)
		}
	case sees:
		fmt.Fprintf(&b, "read %d: %v", in.key, out.seen[in.key])
		if in.among != anyState {
			fmt.Fprintf(&b, " of states %b", in.among)
		}
	default:
		b.WriteString("count")
		for s, n := range out.counts {
			if n != 0 {
				fmt.Fprintf(&b, " %v %d", haulier.State(s), n)
			}
		}
	}
	return b.String()
}

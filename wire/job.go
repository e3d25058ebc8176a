package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// A job is its spec (1) and its status (2), and in the answer to a claim results of others (3) and its hooks (4).

// AppendJob appends j.
func AppendJob(b []byte, j *haulier.Job) []byte {
	b, mark := open(b, 1)
	b = shut(AppendSpec(b, &j.Spec), mark)
	b, mark = open(b, 2)
	b = shut(AppendStatus(b, &j.Status), mark)
	for i := range j.Results {
		r := &j.Results[i]
		b, mark = open(b, 3)
		b = putText(putUint(putID(putText(b, 1, r.Ref), 2, r.Job), 3, uint64(r.State)), 4, r.Result)
		b = putText(b, 5, r.Output)
		b = shut(b, mark)
	}
	return putUint(b, 4, uint64(j.Hooked))
}

// ParseJob is the reverse of AppendJob. Payload and result share memory with b.
func ParseJob(b []byte) (haulier.Job, error) {
	var j haulier.Job
	err := ReadJob(b, &j)
	return j, err
}

// ReadJob is ParseJob into a job that was zero. After an error its content is of no use.
func ReadJob(b []byte, j *haulier.Job) error {
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case 1:
			f.take(parseSpec(f.bytes(), &j.Spec))
		case 2:
			f.take(ReadStatus(f.bytes(), &j.Status))
		case 3:
			j.Results = more(&f, j.Results, f.needResult(), maxItems)
		case 4:
			j.Hooked = haulier.Hooked(f.byte())
		}
	}
	return f.err("job")
}

func (f *fields) needResult() (r haulier.NeedResult) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			r.Ref = e.text()
		case 2:
			r.Job = e.id()
		case 3:
			r.State = e.state()
		case 4:
			r.Result = bytes.Clone(e.bytes())
		case 5:
			r.Output = e.text()
		}
	}
	if r.State == 0 {
		e.fail("no state")
	}
	f.take(e.bad)
	return r
}

// AppendJobs appends jobs as the reply to a claim has them.
func AppendJobs(b []byte, jobs []haulier.Job) []byte {
	for i := range jobs {
		var mark int
		b, mark = open(b, 1)
		b = shut(AppendJob(b, &jobs[i]), mark)
	}
	return b
}

// ParseJobs is the reverse of AppendJobs. Unlike other parsers it copies
// payloads and results: jobs of one claim live for different times.
func ParseJobs(b []byte) ([]haulier.Job, error) {
	jobs := make([]haulier.Job, 0, min(count(b, 1), MaxJobs))
	f := fields{rest: b}
	for f.next() {
		if f.num != 1 {
			continue
		}
		jobs = more(&f, jobs, haulier.Job{}, MaxJobs)
		if f.bad != nil {
			break
		}
		j := &jobs[len(jobs)-1]
		f.take(ReadJob(f.bytes(), j))
		j.Payload, j.Result = bytes.Clone(j.Payload), bytes.Clone(j.Result)
	}
	return jobs, f.err("jobs")
}

// count is how many fields of the number b has.
func count(b []byte, num protowire.Number) (n int) {
	f := fields{rest: b}
	for f.next() {
		if f.num == num {
			n++
		}
	}
	return n
}

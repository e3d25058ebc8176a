package wire

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// Fields of a Spec.
const (
	specID protowire.Number = iota + 1
	specTenant
	specQueue
	specType
	specExec
	specPayload
	specBlob
	specPriority
	specCreatedAt
	specRunAt
	specMaxAttempts
	specBackoff
	specRetryUntil
	specTimeout
	specLabel
	specRetention
	specGroup
	specParent
	specFlow
	specNone
	specHTTP
	specInput
	specOutputs
	specContainer
	specRunsOn
	specWasi
	specScript
)

// AppendSpec appends s.
func AppendSpec(b []byte, s *haulier.Spec) []byte {
	b = putID(b, specID, s.ID)
	b = putText(b, specTenant, s.Tenant)
	b = putText(b, specQueue, s.Queue)
	b = putText(b, specType, s.Type)
	if s.Task.Exec != nil {
		b = appendExec(b, s.Task.Exec)
	}
	b = putText(b, specPayload, s.Payload)
	b = putText(b, specBlob, s.Blob)
	b = putInt(b, specPriority, s.Priority)
	b = putTime(b, specCreatedAt, s.CreatedAt)
	b = putTime(b, specRunAt, s.RunAt)
	b = putInt(b, specMaxAttempts, s.MaxAttempts)
	b = appendBackoff(b, s.Backoff)
	b = putTime(b, specRetryUntil, s.RetryUntil)
	b = putInt(b, specTimeout, s.Timeout)
	b = putMap(b, specLabel, s.Labels)
	b = putInt(b, specRetention, s.Retention)
	b = putMap(b, specRunsOn, s.RunsOn)
	b = putText(b, specGroup, s.Group)
	b = putID(b, specParent, s.Parent)
	if s.Flow != nil {
		b = appendFlow(b, s.Flow)
	}
	if s.Files != nil {
		b = appendFiles(b, s.Files)
	}
	if s.Task.HTTP != nil {
		b = appendHTTP(b, s.Task.HTTP)
	}
	if s.Task.Container != nil {
		b = appendContainer(b, s.Task.Container)
	}
	if s.Task.Wasi != nil {
		b = appendWasi(b, s.Task.Wasi)
	}
	if t := s.Task.Script; t != nil {
		var mark int
		b, mark = open(b, specScript)
		b = shut(putText(putInt(b, 1, t.Version), 2, t.Digest), mark)
	}
	return putBool(b, specNone, s.Task.None != nil)
}

// ParseSpec is the reverse of AppendSpec. Its payload shares memory with b.
func ParseSpec(b []byte) (haulier.Spec, error) {
	var s haulier.Spec
	err := parseSpec(b, &s)
	return s, err
}

func parseSpec(b []byte, s *haulier.Spec) error {
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case specID:
			s.ID = f.id()
		case specTenant:
			s.Tenant = f.name()
		case specQueue:
			s.Queue = f.name()
		case specType:
			s.Type = f.name()
		case specPayload:
			s.Payload = f.bytes()
		case specBlob:
			s.Blob = f.text()
		case specPriority:
			s.Priority = f.int()
		case specCreatedAt:
			s.CreatedAt = f.time()
		case specRunAt:
			s.RunAt = f.time()
		case specMaxAttempts:
			s.MaxAttempts = f.int()
		case specBackoff:
			s.Backoff = f.backoff()
		case specRetryUntil:
			s.RetryUntil = f.time()
		case specTimeout:
			s.Timeout = f.duration()
		case specLabel:
			s.Labels = f.entry(s.Labels)
		case specRunsOn:
			s.RunsOn = f.entry(s.RunsOn)
		case specRetention:
			s.Retention = f.duration()
		case specGroup:
			s.Group = f.name()
		case specParent:
			s.Parent = f.id()
		case specFlow:
			s.Flow = f.flow()
		default:
			f.work(s)
		}
	}
	return f.err("spec")
}

// work reads a field that says what runs, and with what.
func (f *fields) work(s *haulier.Spec) {
	switch f.num {
	case specExec:
		s.Task.Exec = f.exec()
	case specHTTP:
		s.Task.HTTP = f.http()
	case specContainer:
		s.Task.Container = f.container()
	case specWasi:
		s.Task.Wasi = f.wasi()
	case specScript:
		s.Task.Script = f.script()
	case specNone:
		if f.bool() {
			s.Task.None = new(haulier.NoTask)
		}
	case specInput:
		w := filesOf(s)
		w.Inputs = more(f, w.Inputs, f.input(), maxItems)
	case specOutputs:
		filesOf(s).Outputs = f.outputs()
	}
}

func appendExec(b []byte, x *haulier.ExecTask) []byte {
	b, mark := open(b, specExec)
	for _, arg := range x.Argv {
		b = putItem(b, 1, arg)
	}
	b = putBool(b, 2, x.Shell)
	b = putMap(b, 3, x.Env)
	b = putText(b, 4, x.Dir)
	b = putInt(b, 5, x.Grace)
	b = putLimits(b, 6, x.Limits)
	return shut(b, mark)
}

func (f *fields) exec() *haulier.ExecTask {
	x := new(haulier.ExecTask)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			x.Argv = more(&e, x.Argv, e.text(), maxItems)
		case 2:
			x.Shell = e.bool()
		case 3:
			x.Env = e.entry(x.Env)
		case 4:
			x.Dir = e.name()
		case 5:
			x.Grace = e.duration()
		case 6:
			x.Limits = e.limits()
		}
	}
	f.take(e.bad)
	return x
}

func putLimits(b []byte, num protowire.Number, l *haulier.Limits) []byte {
	if l == nil {
		return b
	}
	b, mark := open(b, num)
	b = putInt(putInt(putInt(b, 1, l.Memory), 2, l.CPU), 3, l.Processes)
	return shut(putInt(putInt(b, 4, l.FileSize), 5, l.OpenFiles), mark)
}

func (f *fields) limits() *haulier.Limits {
	l := new(haulier.Limits)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			l.Memory = e.int64()
		case 2:
			l.CPU = e.duration()
		case 3:
			l.Processes = e.int64()
		case 4:
			l.FileSize = e.int64()
		case 5:
			l.OpenFiles = e.int64()
		}
	}
	f.take(e.bad)
	return l
}

func appendHTTP(b []byte, x *haulier.HTTPTask) []byte {
	b, mark := open(b, specHTTP)
	b = putText(putText(b, 1, x.URL), 2, x.Method)
	b = putText(putMap(b, 3, x.Headers), 4, x.Secret)
	b = putInt(putBool(b, 5, x.Lines), 6, x.Batch)
	return shut(b, mark)
}

func (f *fields) script() *haulier.ScriptTask {
	x := new(haulier.ScriptTask)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			x.Version = e.int()
		case 2:
			x.Digest = e.name()
		}
	}
	f.take(e.bad)
	return x
}

func (f *fields) http() *haulier.HTTPTask {
	x := new(haulier.HTTPTask)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			x.URL = e.text()
		case 2:
			x.Method = e.name()
		case 3:
			x.Headers = e.entry(x.Headers)
		case 4:
			x.Secret = e.name()
		case 5:
			x.Lines = e.bool()
		case 6:
			x.Batch = e.int()
		}
	}
	f.take(e.bad)
	return x
}

func appendContainer(b []byte, x *haulier.ContainerTask) []byte {
	b, mark := open(b, specContainer)
	b = putText(putText(b, 1, x.Config), 2, x.Pull)
	b = putInt(putText(b, 3, x.Auth), 4, x.Grace)
	return shut(b, mark)
}

func (f *fields) container() *haulier.ContainerTask {
	x := new(haulier.ContainerTask)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			x.Config = bytes.Clone(e.bytes())
		case 2:
			x.Pull = haulier.Pull(e.name())
		case 3:
			x.Auth = e.name()
		case 4:
			x.Grace = e.duration()
		}
	}
	f.take(e.bad)
	return x
}

func appendWasi(b []byte, x *haulier.WasiTask) []byte {
	b, mark := open(b, specWasi)
	b = putText(putText(b, 1, x.Module), 2, x.Stdin)
	b = putMap(putItems(b, 3, x.Args), 4, x.Env)
	b = putInt(putInt(b, 5, x.Memory), 6, x.CPU)
	b = putBool(putBool(b, 7, x.Clock), 8, x.Random)
	return shut(b, mark)
}

func (f *fields) wasi() *haulier.WasiTask {
	x := new(haulier.WasiTask)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			x.Module = e.name()
		case 2:
			x.Stdin = e.text()
		case 3:
			x.Args = more(&e, x.Args, e.text(), maxItems)
		case 4:
			x.Env = e.entry(x.Env)
		case 5:
			x.Memory = e.int64()
		case 6:
			x.CPU = e.duration()
		case 7:
			x.Clock = e.bool()
		case 8:
			x.Random = e.bool()
		}
	}
	f.take(e.bad)
	return x
}

func appendBackoff(b []byte, o *haulier.Backoff) []byte {
	if o == nil || o.Constant == 0 && len(o.List) == 0 && o.Base == 0 && o.Max == 0 && !o.NoJitter {
		return b
	}
	b, mark := open(b, specBackoff)
	b = putInt(b, 1, o.Constant)
	for _, d := range o.List {
		b = putMicros(b, 2, int64(d)) // an item of a list is written also when it is zero
	}
	b = putInt(b, 3, o.Base)
	b = putInt(b, 4, o.Max)
	b = putBool(b, 5, o.NoJitter)
	return shut(b, mark)
}

func (f *fields) backoff() *haulier.Backoff {
	o := &haulier.Backoff{}
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			o.Constant = e.duration()
		case 2:
			o.List = more(&e, o.List, e.duration(), maxItems)
		case 3:
			o.Base = e.duration()
		case 4:
			o.Max = e.duration()
		case 5:
			o.NoJitter = e.bool()
		}
	}
	f.take(e.bad)
	return o
}

package process

import (
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// The protocol between a worker and its supervisor; docs/shim.md is its specification.
//
//	frame = length (4 bytes, big endian, of what follows) | kind (1 byte) | fields
//	field = as in the protobuf wire format; unknown numbers are skipped
const (
	protocolVersion = 2       // newest that this program speaks
	confineVersion  = 2       // first that heeds limits, user and sandbox
	protocolOldest  = 1       // oldest that it still speaks
	maxFrame        = 4 << 20 // bytes of kind and fields
	maxStrings      = 100_000 // entries of argv or of an environment
)

// kind says what a message is.
type kind byte

// From the worker.
const (
	msgHello  kind = 1 // versions, environ, patience
	msgStart  kind = 2 // run a command
	msgAttach kind = 3 // send the output and the end of a command that is known
	msgStop   kind = 4 // TERM now, KILL when grace has passed
	msgAck    kind = 5 // output before offset is safe
	msgForget kind = 6 // KILL if need be, and drop everything
	msgQuit   kind = 7 // end, if nothing is known
	msgLease  kind = 8 // commands may run for this time, unless another such message follows
)

// From the supervisor.
const (
	msgWelcome kind = 65 // versions, build, pid
	msgKnown   kind = 66 // a command that is there; after Welcome, one for each
	msgListed  kind = 67 // all of them were told
	msgOutput  kind = 68 // frames from offset on
	msgExit    kind = 69 // how a command ended; size is where its output ends
	msgStarted kind = 70 // the command runs; pid is also its group
)

// message is any message; the kind says which fields count.
type message struct {
	Kind kind
	Ref  haulier.Ref

	Version, Oldest uint64
	Build           string
	PID             int64
	Environ         []string
	Patience        time.Duration

	Path      string
	Argv      []string
	Env       []string
	Dir       string // working folder
	Folder    string // of the attempt within the state folder, removed when it is forgotten
	Result    string // file that the command may leave its result in
	Stdin     []byte // at most maxInlineStdin
	StdinFile string
	Timeout   time.Duration
	Grace     time.Duration
	Head      int64
	Tail      int64
	Limits    haulier.Limits
	UID       int64  // that the program becomes by itself; zero: it stays the supervisor's
	Sandboxed int64  // not zero: the program is a sandbox, which is not to get TERM itself
	Cgroup    string // folder of a hierarchy of version 2 in which commands get a group each; empty: none

	Offset int64
	Data   []byte // shares the frame's memory

	Code   int64
	Signal int64
	Why    reason
	Error  string
	Size   int64
	CPU    time.Duration // user and system time
	MaxRSS int64         // bytes
}

// reason says why a command ended, beyond its status.
type reason uint64

const (
	endedItself    reason = 0
	endedStopped   reason = 1 // after Stop
	endedTimeout   reason = 2 // after its timeout
	endedAbandoned reason = 3 // the worker's lease was over, or no worker came back in time
	endedNoStart   reason = 4 // could not be started, and never can
	endedNoRoom    reason = 5 // could not be started for now: no memory, processes or files
)

// field numbers
const (
	fJob = iota + 1
	fAttempt
	fVersion
	fOldest
	fBuild
	fPID
	fEnviron
	fPatience
	fPath
	fArgv
	fEnv
	fDir
	fFolder
	fResult
	fStdin
	fStdinFile
	fTimeout
	fGrace
	fHead
	fTail
	fOffset
	fData
	fCode
	fSignal
	fWhy
	fError
	fSize
	fCPU
	fMaxRSS
	fMemory
	fCPULimit
	fProcesses
	fFileSize
	fOpenFiles
	fUID
	fSandboxed
	fCgroup
)

// appendMessage appends m as a frame.
func appendMessage(b []byte, m *message) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(m.Kind))
	if !m.Ref.Job.IsNil() {
		b = appendBytes(b, fJob, m.Ref.Job[:])
	}
	for _, n := range m.numbers() {
		if *n.at != 0 {
			b = protowire.AppendTag(b, n.field, protowire.VarintType)
			b = protowire.AppendVarint(b, protowire.EncodeZigZag(*n.at))
		}
	}
	for _, s := range m.texts() {
		if *s.at != "" {
			b = protowire.AppendTag(b, s.field, protowire.BytesType)
			b = protowire.AppendString(b, *s.at)
		}
	}
	for _, l := range m.lists() {
		for _, s := range *l.at {
			b = protowire.AppendTag(b, l.field, protowire.BytesType)
			b = protowire.AppendString(b, s)
		}
	}
	b = appendBytes(b, fStdin, m.Stdin)
	b = appendBytes(b, fData, m.Data)
	n := len(b) - start - 4
	b[start], b[start+1], b[start+2], b[start+3] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return b
}

func appendBytes(b []byte, f protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, f, protowire.BytesType), v)
}

// readFrame reads one frame into buf, which it grows as needed. io.EOF: the stream ended between frames.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return buf, err
	}
	n := int(head[0])<<24 | int(head[1])<<16 | int(head[2])<<8 | int(head[3])
	if n < 1 || n > maxFrame {
		return buf, fmt.Errorf("frame: %w: of %d bytes, at most %d", haulier.ErrCorrupt, n, maxFrame)
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, io.ErrUnexpectedEOF
	}
	return buf, nil
}

// parseMessage decodes a frame without its length. The error wraps ErrCorrupt.
func parseMessage(b []byte) (*message, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("message: %w: it is empty", haulier.ErrCorrupt)
	}
	m := &message{Kind: kind(b[0])}
	for b = b[1:]; len(b) > 0; {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, badField(0, n)
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, k := protowire.ConsumeVarint(b)
			if n = k; n >= 0 {
				m.setNumber(field, protowire.DecodeZigZag(v))
			}
		case protowire.BytesType:
			v, k := protowire.ConsumeBytes(b)
			if n = k; n >= 0 {
				if err := m.setBytes(field, v); err != nil {
					return nil, err
				}
			}
		default:
			n = protowire.ConsumeFieldValue(field, typ, b)
		}
		if n < 0 {
			return nil, badField(field, n)
		}
		b = b[n:]
	}
	return m, m.check()
}

func badField(field protowire.Number, n int) error {
	return fmt.Errorf("message: %w: field %d: %w", haulier.ErrCorrupt, field, protowire.ParseError(n))
}

func (m *message) check() error {
	if m.Ref.Attempt < 0 || m.Offset < 0 || m.Size < 0 || m.Head < 0 || m.Tail < 0 || m.Timeout < 0 {
		return fmt.Errorf("message %d: %w: a number is negative", m.Kind, haulier.ErrCorrupt)
	}
	return nil
}

type number struct {
	field protowire.Number
	at    *int64
}

// numbers lists the numeric fields.
func (m *message) numbers() [23]number {
	attempt := int64(m.Ref.Attempt)
	version, oldest, why := int64(m.Version), int64(m.Oldest), int64(m.Why)
	return [23]number{
		{fAttempt, &attempt}, {fVersion, &version}, {fOldest, &oldest}, {fPID, &m.PID},
		{fPatience, (*int64)(&m.Patience)}, {fTimeout, (*int64)(&m.Timeout)}, {fGrace, (*int64)(&m.Grace)},
		{fHead, &m.Head}, {fTail, &m.Tail}, {fOffset, &m.Offset}, {fCode, &m.Code}, {fSignal, &m.Signal},
		{fWhy, &why}, {fSize, &m.Size}, {fCPU, (*int64)(&m.CPU)}, {fMaxRSS, &m.MaxRSS},
		{fMemory, &m.Limits.Memory}, {fCPULimit, (*int64)(&m.Limits.CPU)}, {fProcesses, &m.Limits.Processes}, {fFileSize, &m.Limits.FileSize},
		{fOpenFiles, &m.Limits.OpenFiles}, {fUID, &m.UID}, {fSandboxed, &m.Sandboxed},
	}
}

func (m *message) setNumber(field protowire.Number, v int64) {
	switch field {
	case fAttempt:
		m.Ref.Attempt = int(min(v, math.MaxInt32))
	case fVersion:
		m.Version = uint64(v)
	case fOldest:
		m.Oldest = uint64(v)
	case fWhy:
		m.Why = reason(v)
	default:
		for _, n := range m.numbers() {
			if n.field == field {
				*n.at = v
			}
		}
	}
}

type text struct {
	field protowire.Number
	at    *string
}

func (m *message) texts() [8]text {
	return [8]text{
		{fBuild, &m.Build}, {fPath, &m.Path}, {fDir, &m.Dir}, {fFolder, &m.Folder},
		{fResult, &m.Result}, {fStdinFile, &m.StdinFile}, {fError, &m.Error}, {fCgroup, &m.Cgroup},
	}
}

type list struct {
	field protowire.Number
	at    *[]string
}

func (m *message) lists() [3]list {
	return [3]list{{fEnviron, &m.Environ}, {fArgv, &m.Argv}, {fEnv, &m.Env}}
}

func (m *message) setBytes(field protowire.Number, v []byte) error {
	switch field {
	case fJob:
		if len(v) != len(m.Ref.Job) {
			return fmt.Errorf("message: %w: a job's id has %d bytes", haulier.ErrCorrupt, len(v))
		}
		copy(m.Ref.Job[:], v)
	case fStdin:
		m.Stdin = append([]byte(nil), v...)
	case fData:
		m.Data = nil
		if len(v) > 0 {
			m.Data = v
		}
	}
	for _, s := range m.texts() {
		if s.field == field {
			*s.at = string(v)
		}
	}
	for _, l := range m.lists() {
		if l.field == field {
			if len(*l.at) >= maxStrings {
				return fmt.Errorf("message: %w: field %d has more than %d entries", haulier.ErrCorrupt, field, maxStrings)
			}
			*l.at = append(*l.at, string(v))
		}
	}
	return nil
}

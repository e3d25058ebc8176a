package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haulier/haulier"
)

// A line is one job:
//
//	17|2026-11-21T09:05:36.123456Z|acme/mail|0199c3f0-7d3a-7000-8000-1b2c3d4e5f60|1/1|{"queue":"bulk"}|{"to":"ann"}|9f3c2a1b
//	│  │                           │         │                                    │   │                │            └ CRC-32C, of all before its bar
//	│  └ written                   │         └ id, which makes repeating it safe  │   └ what else      └ payload
//	└ sequence                     └ tenant and type                              └ place in its request
//
// Bytes that would end a line or a field, and those that are no text, are escaped: see escape. Bars of the payload stand as they are,
// as what follows it is of a fixed length.

const (
	maxLine    = 2 << 20 // bytes
	sumSize    = 9       // of the checksum and its bar
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is one job in the journal.
type Entry struct {
	// Seq is its position, Nth of Of its place in its request. Write sets them.
	Seq     uint64
	Nth, Of int
	// At is when it was accepted; Write sets it when it is zero.
	At time.Time
	// Job must be plain and have an ID; see Plain.
	Job haulier.Spec
	By  string // who asked, for the history
}

// more is what a line has of a job besides its own fields.
type more struct {
	By          string            `json:"by,omitempty"`
	Queue       string            `json:"queue,omitempty"`
	Task        haulier.Task      `json:"task,omitzero"`
	Priority    int               `json:"priority,omitempty"`
	RunAt       time.Time         `json:"run_at,omitzero"`
	MaxAttempts int               `json:"max_attempts,omitempty"`
	Backoff     *haulier.Backoff  `json:"backoff,omitempty"`
	RetryUntil  time.Time         `json:"retry_until,omitzero"`
	Timeout     haulier.Duration  `json:"timeout,omitzero"`
	Labels      map[string]string `json:"labels,omitempty"`
	RunsOn      map[string]string `json:"runs_on,omitempty"`
	Retention   haulier.Duration  `json:"retention,omitzero"`
	Group       string            `json:"group,omitempty"`
}

// Plain reports whether a journal takes the job: one that stands for itself, with its payload in the store. What needs others or holds
// keys (Flow), has files or a large payload has to be decided at the store.
func Plain(s *haulier.Spec) bool {
	return s.Flow == nil && s.Files == nil && s.Task.None == nil && s.Blob == "" && len(s.Payload) <= haulier.MaxPayload
}

// appendBody appends a line from its time up to the checksum's bar.
func appendBody(b []byte, e *Entry) ([]byte, error) {
	s := &e.Job
	m := more{
		By: e.By, Queue: s.Queue, Task: s.Task, Priority: s.Priority, RunAt: s.RunAt, MaxAttempts: s.MaxAttempts, Backoff: s.Backoff,
		RetryUntil: s.RetryUntil, Timeout: s.Timeout, Labels: s.Labels, RunsOn: s.RunsOn, Retention: s.Retention, Group: s.Group,
	}
	rest, err := json.Marshal(&m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", haulier.ErrInvalid, err)
	}
	if bytes.Contains(rest, []byte(`\ufffd`)) { // what package json puts in place of other bytes
		return nil, fmt.Errorf("%w: a text of the job, such as a label or an argument, is not UTF-8", haulier.ErrInvalid)
	}
	start := len(b)
	b = e.At.UTC().AppendFormat(b, timeLayout)
	b = append(b, '|')
	b = escape(b, []byte(s.Tenant), "|/")
	b = append(b, '/')
	b = escape(b, []byte(s.Type), "|")
	b = append(b, '|')
	b, _ = s.ID.AppendText(b)
	b = append(b, '|')
	b = strconv.AppendInt(b, int64(e.Nth), 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(e.Of), 10)
	b = append(b, '|')
	b = escape(b, rest, "|")
	b = append(b, '|')
	b = escape(b, s.Payload, "")
	if n := len(b) - start; n > maxLine-64 {
		return nil, fmt.Errorf("%w: the job takes %d bytes as a line of the journal, at most %d", haulier.ErrTooLarge, n, maxLine-64)
	}
	return b, nil
}

// appendLine appends a whole line, of its sequence and body.
func appendLine(b []byte, seq uint64, body []byte) []byte {
	start := len(b)
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, '|')
	b = append(b, body...)
	return appendSum(b, start)
}

func appendSum(b []byte, start int) []byte {
	return fmt.Appendf(b, "|%08x\n", crc32.Checksum(b[start:], castagnoli))
}

// summed returns a line without its checksum, which must be right.
func summed(line []byte) ([]byte, bool) {
	n := len(line) - sumSize
	if n < 0 || line[n] != '|' {
		return nil, false
	}
	return line[:n], string(fmt.Appendf(nil, "%08x", crc32.Checksum(line[:n], castagnoli))) == string(line[n+1:])
}

// parseHead reads of a line, without its end, what says where it stands.
func parseHead(line []byte) (e Entry, fields [][]byte, ok bool) {
	line, ok = summed(line)
	if !ok {
		return e, nil, false
	}
	fields = bytes.SplitN(line, []byte("|"), 7)
	if len(fields) != 7 {
		return e, nil, false
	}
	var err error
	if e.Seq, err = strconv.ParseUint(string(fields[0]), 10, 64); err != nil || e.Seq == 0 {
		return e, nil, false
	}
	nth, of, _ := strings.Cut(string(fields[4]), "/")
	e.Nth, _ = strconv.Atoi(nth)
	e.Of, _ = strconv.Atoi(of)
	return e, fields, e.Nth >= 1 && e.Nth <= e.Of && e.Of <= haulier.MaxBatch
}

// parseLine reads a line without its end. ErrCorrupt: it is none.
func parseLine(line []byte) (Entry, error) {
	e, fields, ok := parseHead(line)
	if !ok {
		return e, fmt.Errorf("%w: not a line of a journal, or a damaged one: %.80q", haulier.ErrCorrupt, line)
	}
	seen := func(err error) error { return fmt.Errorf("%w: line %d: %w", haulier.ErrCorrupt, e.Seq, err) }
	var err error
	if e.At, err = time.Parse(timeLayout, string(fields[1])); err != nil {
		return e, seen(err)
	}
	tenant, typ, ok := bytes.Cut(fields[2], []byte("/"))
	if !ok {
		return e, seen(fmt.Errorf("%.80q has no tenant", fields[2]))
	}
	if err := e.Job.ID.UnmarshalText(fields[3]); err != nil {
		return e, seen(err)
	}
	texts := make([][]byte, 4)
	for i, f := range [][]byte{tenant, typ, fields[5], fields[6]} {
		if texts[i], ok = unescape(f); !ok {
			return e, seen(fmt.Errorf("%.80q has an escape that there is not", f))
		}
	}
	var m more
	if err := json.Unmarshal(texts[2], &m); err != nil {
		return e, seen(err)
	}
	e.By = m.By
	e.Job = haulier.Spec{
		ID: e.Job.ID, Tenant: string(texts[0]), Type: string(texts[1]), Payload: texts[3], Queue: m.Queue, Task: m.Task, Priority: m.Priority,
		RunAt: m.RunAt, MaxAttempts: m.MaxAttempts, Backoff: m.Backoff, RetryUntil: m.RetryUntil, Timeout: m.Timeout, Labels: m.Labels, RunsOn: m.RunsOn,
		Retention: m.Retention, Group: m.Group,
	}
	if len(e.Job.Payload) == 0 {
		e.Job.Payload = nil
	}
	return e, nil
}

// escape appends text: a backslash as \\, the ends of lines as \n and \r, and as \x and two digits the other control
// characters, bytes that are not UTF-8, and those of special.
func escape(b, text []byte, special string) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			if r, n := utf8.DecodeRune(text[i:]); r != utf8.RuneError || n > 1 {
				b = append(b, text[i:i+n]...)
				i += n
				continue
			}
		}
		i++
		switch {
		case c == '\\':
			b = append(b, `\\`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < ' ' && c != '\t' || c >= 0x7f || special != "" && strings.IndexByte(special, c) >= 0:
			b = append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

const hexDigits = "0123456789abcdef"

// unescape is the reverse of escape, in memory of its own.
func unescape(text []byte) ([]byte, bool) {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		if i++; i == len(text) {
			return nil, false
		}
		switch text[i] {
		case '\\':
			out = append(out, '\\')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 'x':
			if i+2 >= len(text) {
				return nil, false
			}
			v, err := strconv.ParseUint(string(text[i+1:i+3]), 16, 8)
			if err != nil {
				return nil, false
			}
			out = append(out, byte(v))
			i += 2
		default:
			return nil, false
		}
	}
	return out, true
}

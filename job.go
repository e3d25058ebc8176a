package haulier

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a job. What lies beyond them is refused at the edge.
const (
	MaxPayload      = 64 << 10 // bytes of payload kept in the store; larger ones become blobs
	MaxBlobPayload  = 64 << 20 // bytes of payload at all
	MaxResult       = 64 << 10 // bytes of result kept with the job; the rest is cut
	MaxName         = 200      // bytes of a tenant, queue or type
	MaxBatch        = 10_000   // jobs in one enqueue request
	MaxLabels       = 32       // labels of a job
	MaxLabelSize    = 256      // bytes of a label's key and value together
	MaxRunsOn       = 8        // labels that a job asks of its worker, of MaxName bytes together
	MaxPriority     = 10       // priorities go from -MaxPriority to MaxPriority
	MaxAttemptLimit = 1000     // most attempts a job may ask for
	MaxBackoffList  = 64       // entries of a back-off list
	MaxHistory      = 40       // changes kept in a job's history: the first and the newest
	MaxStep         = 256      // bytes of a step, reason or error class; errors may have MaxErrorText
	MaxErrorText    = 4 << 10  // bytes of an attempt's error text
)

// Names that hold unless said.
const (
	DefaultTenant = "default"
	DefaultQueue  = "default"
)

// Defaults of a job's policies.
const (
	DefaultMaxAttempts     = 10
	DefaultRetention       = 7 * 24 * time.Hour  // of jobs that succeeded, were cancelled or collapsed
	DefaultFailedRetention = 30 * 24 * time.Hour // of jobs that failed
	DefaultLease           = 30 * time.Second
	// PoisonAfter is how many workers in a row a job may take down with it before it ends failed.
	PoisonAfter = 3
)

// Job is one piece of work: what was asked (Spec, written once) and how it
// stands (Status, rewritten at each change).
type Job struct {
	Spec
	Status
	// Results are those of the jobs that it needs. Only Claim brings them.
	Results []NeedResult
	// Hooked says around what of this attempt the worker is to call AskHooks. Only Claim brings it.
	Hooked Hooked
}

// Hooked is a set of HookEvents.
type Hooked uint8

// Its members.
const (
	HookedBefore Hooked = 1 << iota // BeforePerform
	HookedAfter                     // AfterPerform
)

// Spec is what was asked. It never changes after the enqueue.
type Spec struct {
	ID        ID        `json:"id"`
	Tenant    string    `json:"tenant"`
	Queue     string    `json:"queue"`
	Type      string    `json:"type"` // names what the job does; selects handler or Go function
	Task      Task      `json:"task"`
	Payload   []byte    `json:"-"`                      // opaque; at most MaxPayload here
	Blob      string    `json:"payload_blob,omitempty"` // SHA-256 of a payload that is a blob
	Priority  int       `json:"priority"`               // higher first
	CreatedAt time.Time `json:"created_at"`
	// RunAt is the earliest start; zero: at once. After the enqueue Status.RunAt counts.
	RunAt       time.Time         `json:"-"`
	MaxAttempts int               `json:"max_attempts"`
	Backoff     *Backoff          `json:"backoff,omitempty"`    // nil: exponential with its defaults
	RetryUntil  time.Time         `json:"retry_until,omitzero"` // no further attempt starts after it
	Timeout     Duration          `json:"timeout,omitzero"`     // of one attempt; zero: none
	Labels      map[string]string `json:"labels,omitempty"`
	RunsOn      map[string]string `json:"runs_on,omitempty"`  // labels that a worker must have to claim it
	Retention   Duration          `json:"retention,omitzero"` // how long it is kept when done; zero: by its end state
	Group       string            `json:"group,omitempty"`    // name shared by jobs that were made together, as by map
	Parent      ID                `json:"parent,omitzero"`    // job whose finish brought this one
	*Files                        // what it finds in its working folder, and what stays of it; nil: nothing
	*Flow                         // what it asks for beside its time; nil: nothing
}

// Lane is the unit in which jobs wait and which the scheduler picks. The kind of
// task is part of it, so that a worker that can't run a kind never has to
// pass over the jobs of that kind to reach others; likewise the labels that the
// jobs ask of a worker.
type Lane struct {
	Tenant string `json:"tenant"`
	Queue  string `json:"queue"`
	Type   string `json:"type"`
	Kind   Kind   `json:"kind"`
	// RunsOn are the labels of Spec.RunsOn as key=value, in order of their keys, with commas between. Most lanes have none.
	RunsOn string `json:"runs_on,omitempty"`
}

// String returns tenant/queue/type (kind), and on which labels it runs.
func (l Lane) String() string {
	s := l.Tenant + "/" + l.Queue + "/" + l.Type + " (" + string(l.Kind) + ")"
	if l.RunsOn != "" {
		s += " on " + l.RunsOn
	}
	return s
}

// Compare orders lanes by their fields, one after the other.
func (l Lane) Compare(m Lane) int {
	return cmp.Or(cmp.Compare(l.Tenant, m.Tenant), cmp.Compare(l.Queue, m.Queue), cmp.Compare(l.Type, m.Type),
		cmp.Compare(l.Kind, m.Kind), cmp.Compare(l.RunsOn, m.RunsOn))
}

// Lane is where the job waits.
func (s *Spec) Lane() Lane {
	return Lane{Tenant: s.Tenant, Queue: s.Queue, Type: s.Type, Kind: s.Task.Kind(), RunsOn: runsOnText(s.RunsOn)}
}

func runsOnText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	pairs := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, k+"="+labels[k])
	}
	return strings.Join(pairs, ",")
}

// ParseRunsOn is Spec.RunsOn of a job of the lane.
func (l Lane) ParseRunsOn() map[string]string {
	if l.RunsOn == "" {
		return nil
	}
	labels := map[string]string{}
	for pair := range strings.SplitSeq(l.RunsOn, ",") {
		k, v, _ := strings.Cut(pair, "=")
		labels[k] = v
	}
	return labels
}

// Kind says how a task runs.
type Kind string

// The kinds of task.
const (
	KindGo   Kind = "go"   // a function registered in a worker
	KindExec Kind = "exec" // a command of the worker's machine
	KindHTTP Kind = "http" // a call of an address
	KindWasi Kind = "wasi" // a WebAssembly module
	KindNone Kind = "none" // nothing: the job succeeds as soon as it may start, without a worker
	// KindContainer is a container of an engine that the worker reaches.
	KindContainer Kind = "container"
	// KindScript is a handler that the server keeps under the job's type.
	KindScript Kind = "script"
)

// Task is how a job runs: the member that is set says the kind. None set: KindGo.
type Task struct {
	Exec *ExecTask `json:"exec,omitempty"`
	HTTP *HTTPTask `json:"http,omitempty"`
	Wasi *WasiTask `json:"wasi,omitempty"`
	None *NoTask   `json:"none,omitempty"`

	Container *ContainerTask `json:"container,omitempty"`
	// Script has the handler of the job's type run it.
	Script *ScriptTask `json:"script,omitempty"`
}

// NoTask is nothing to run: a point at which other jobs meet.
type NoTask struct{}

// Kind of the task.
func (t Task) Kind() Kind {
	if t.Exec != nil {
		return KindExec
	}
	if t.HTTP != nil {
		return KindHTTP
	}
	if t.Wasi != nil {
		return KindWasi
	}
	if t.None != nil {
		return KindNone
	}
	if t.Container != nil {
		return KindContainer
	}
	if t.Script != nil {
		return KindScript
	}
	return KindGo
}

// ExecTask is a command. Its standard input is the payload.
type ExecTask struct {
	Argv  []string          `json:"argv"`            // program and arguments; no shell sees them
	Shell bool              `json:"shell,omitempty"` // Argv is one string for sh -c, further ones its $0, $1 …
	Env   map[string]string `json:"env,omitempty"`   // added to the worker's
	Dir   string            `json:"dir,omitempty"`   // working folder; empty: one of its own, removed afterwards
	Grace Duration          `json:"grace,omitzero"`  // from TERM to KILL; zero: 10 s
	// Limits of an attempt, within those of its worker. Nil: the worker's.
	Limits *Limits `json:"limits,omitempty"`
}

// Limits bound what a command may take. Zero: no limit. docs/executors.md has how each is kept.
type Limits struct {
	Memory    int64    `json:"memory,omitempty"`     // bytes
	CPU       Duration `json:"cpu,omitzero"`         // processor time of each process, in whole seconds
	Processes int64    `json:"processes,omitempty"`  // at once, threads too
	FileSize  int64    `json:"file_size,omitempty"`  // bytes of each file that it writes
	OpenFiles int64    `json:"open_files,omitempty"` // of each process
}

// Within returns the tighter of the limits, one by one.
func (l Limits) Within(m Limits) Limits {
	return Limits{
		Memory: tighter(l.Memory, m.Memory), CPU: tighter(l.CPU, m.CPU), Processes: tighter(l.Processes, m.Processes),
		FileSize: tighter(l.FileSize, m.FileSize), OpenFiles: tighter(l.OpenFiles, m.OpenFiles),
	}
}

func tighter[T int64 | Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// HTTPTask is a call whose body is the payload. Its status says how the attempt ends: 2xx ok; 408, 425 and 429 retry and 5xx error, after what
// Retry-After says; all others failed. The result is the body of the answer, as far as MaxResult goes.
//
// Each call has the job's id in the header webhook-id, which stays the same when it is tried again.
type HTTPTask struct {
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"` // POST unless said
	Headers map[string]string `json:"headers,omitempty"`
	// Secret names the one with which the server signs each attempt when it is claimed; see Gatekeeper.
	Secret string `json:"secret,omitempty"`
	// Lines: the body is the payload and a newline, and lines of the answer that begin with "J: " or "#J: " go to the output, where a job that
	// chains brings jobs by them. It is how the serverless queue calls.
	Lines bool `json:"lines,omitempty"`
	// Batch is how many jobs may share a call, at most MaxHTTPBatch; 0: none. The body has a line for each, its payload, and the answer a line
	// for each in the same order, which begins with a number: 1xx retry, 2xx ok, 4xx failed, others error. Lines before it that begin
	// with # are its comments. The jobs have the same tenant, type, task and timeout, and the same worker. It implies Lines.
	Batch int `json:"batch,omitempty"`
}

// MaxHTTPBatch is how many jobs may share a call.
const MaxHTTPBatch = 200

// Body is what the call sends for a payload.
func (t *HTTPTask) Body(payload []byte) []byte {
	if !t.Lines && t.Batch == 0 {
		return payload
	}
	return append(payload[:len(payload):len(payload)], '\n')
}

// ContainerTask is a container, created for the attempt and removed after it. Its standard input is the payload.
type ContainerTask struct {
	// Config is the body of the call that creates a container in Docker's Engine API: Image, Cmd, Env, HostConfig and so on.
	// What of it a worker allows is said by its policy file.
	Config json.RawMessage `json:"config"`
	Pull   Pull            `json:"pull,omitempty"` // when the image is fetched; PullMissing unless said
	Auth   string          `json:"auth,omitempty"` // name of the login, in the worker's policy file, with which it is fetched
	Grace  Duration        `json:"grace,omitzero"` // from TERM, or the config's StopSignal, to KILL; zero: 10 s
}

// Pull says when the image of a container is fetched from its registry.
type Pull string

// The choices.
const (
	PullMissing Pull = "missing" // when the engine does not have it
	PullAlways  Pull = "always"  // before each attempt
	PullNever   Pull = "never"   // the job fails where the engine does not have it
)

// Account is what is known of how an attempt ran, as far as its kind tells.
type Account struct {
	CPU       Duration `json:"cpu,omitzero"`         // user and system time
	MaxMemory int64    `json:"max_memory,omitempty"` // most bytes at once
	Read      int64    `json:"read,omitempty"`       // bytes from block devices
	Written   int64    `json:"written,omitempty"`    // bytes to block devices
	Received  int64    `json:"received,omitempty"`   // bytes from networks
	Sent      int64    `json:"sent,omitempty"`       // bytes to networks
	// Container is what the engine said of the container after its end: the inspect object of its API. At most MaxResult bytes.
	Container json.RawMessage `json:"container,omitempty"`
}

// WasiTask is a WebAssembly module for WASI preview 1, run within the worker's process. It sees its working folder as /, and no network; its
// clock and its random numbers are the same in each run unless it may have real ones. What it writes to its standard output is the result,
// as far as MaxResult goes, and the whole of it a blob: see Status.ResultBlob. Standard error is the output of the job.
//
// The blobs stay as long as the job does.
type WasiTask struct {
	Module string            `json:"module"`           // address of the blob
	Stdin  string            `json:"stdin,omitempty"`  // address of the blob that it reads; empty: the payload
	Args   []string          `json:"args,omitempty"`   // its arguments; the name of the program, before them, is the type of the job
	Env    map[string]string `json:"env,omitempty"`    // nothing of the worker's own is added
	Memory int64             `json:"memory,omitempty"` // bytes that it may have at most; zero: as many as the worker allows
	CPU    Duration          `json:"cpu,omitzero"`     // time of a processor that it may use; zero: no limit
	Clock  bool              `json:"clock,omitempty"`  // it sees the time, and sleeps
	Random bool              `json:"random,omitempty"` // its random numbers are ones
}

// Blobs are the addresses of the blobs that the task names.
func (t Task) Blobs() []string {
	switch {
	case t.Wasi == nil:
		return nil
	case t.Wasi.Stdin == "":
		return []string{t.Wasi.Module}
	}
	return []string{t.Wasi.Module, t.Wasi.Stdin}
}

// Status is how a job stands. Rev grows by one with each change.
type Status struct {
	Rev   uint64 `json:"rev"`
	State State  `json:"state"`
	// Cancelling is set from the request to cancel a claimed or running job until its worker acknowledges it.
	Cancelling bool `json:"cancelling,omitempty"`
	// RunAt is when a scheduled job becomes pending; of a pending job, since when it is.
	RunAt time.Time `json:"run_at,omitzero"`
	// Attempt numbers the claims, from 1. With Session it fences every write.
	Attempt int `json:"attempt"`
	// Spared is how many of the attempts do not count against MaxAttempts:
	// those a drain interrupted, and all that came before a retry by hand.
	Spared int `json:"spared,omitempty"`
	// Crashes counts the attempts in a row in which the job ran when its worker was lost.
	Crashes int `json:"crashes,omitempty"`
	// Session owns a claimed or running job; Worker is that session's name, kept after the end.
	Session       ID        `json:"session,omitzero"`
	Worker        string    `json:"worker,omitempty"`
	Percent       float64   `json:"percent,omitempty"`        // progress of this attempt, 0 to 100
	Step          string    `json:"step,omitempty"`           // what it is doing, in the job's own words
	Outcome       Outcome   `json:"outcome,omitempty"`        // of the newest attempt that ended
	Code          int       `json:"code,omitempty"`           // exit code or status of that attempt
	Error         string    `json:"error,omitempty"`          // why that attempt did not end ok
	Reason        string    `json:"reason,omitempty"`         // why the job stands where it does, in words
	OutputVersion int       `json:"output_version,omitempty"` // of the fileset that attempt left; 0: none
	Result        []byte    `json:"-"`                        // of the newest attempt; at most MaxResult
	ResultBlob    string    `json:"result_blob,omitempty"`    // address of all that the newest attempt gave as its result, where it kept that
	LogBlob       string    `json:"log_blob,omitempty"`
	LogSize       int64     `json:"log_size,omitempty"` // bytes of output of the newest attempt
	Account       *Account  `json:"account,omitempty"`  // of the newest attempt that ended; nil: nothing is known
	UpdatedAt     time.Time `json:"updated_at"`
	StartedAt     time.Time `json:"started_at,omitzero"`  // of the newest attempt
	FinishedAt    time.Time `json:"finished_at,omitzero"` // when it became terminal
	PurgeAt       time.Time `json:"purge_at,omitzero"`    // when a terminal job may be removed
	History       []Change  `json:"history,omitempty"`
	// HistoryCut is how many changes between the first and the rest were dropped.
	HistoryCut int `json:"history_cut,omitempty"`
	*Standing      // how it stands in its flow; nil: there is nothing to say
}

// Change is one line of a job's history.
type Change struct {
	At    time.Time `json:"at"`
	State State     `json:"state"`
	Step  string    `json:"step,omitempty"` // free text: why, or what the job was doing
	By    string    `json:"by,omitempty"`   // worker, token or part of the server
}

// Tries is how many attempts count against MaxAttempts.
func (s *Status) Tries() int { return s.Attempt - s.Spared }

// Backoff says how long a job waits before its next attempt. One of Constant,
// List and the exponential fields holds; all zero means exponential with its defaults.
type Backoff struct {
	Constant Duration   `json:"constant,omitzero"` // always this long
	List     []Duration `json:"list,omitempty"`    // by attempt; the last holds from then on
	// Base doubles with each attempt (zero: 1 s) up to Max (zero: 1 h).
	Base Duration `json:"base,omitzero"`
	Max  Duration `json:"max,omitzero"`
	// NoJitter turns off the spread of half the exponential delay that keeps jobs which failed together apart.
	NoJitter bool `json:"no_jitter,omitempty"`
}

// Duration is a time.Duration that reads and prints as "1m30s" in JSON.
type Duration time.Duration

// String as time.Duration prints it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The error wraps ErrInvalid.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%w: %.40q is not a duration such as 1m30s", ErrInvalid, b)
	}
	*d = Duration(v)
	return nil
}

// jobJSON is a Job as JSON: flat, with payload and result as the JSON that they are,
// or as base64 when they are something else.
type jobJSON struct {
	Spec
	Status
	Payload      json.RawMessage `json:"payload,omitempty"`
	PayloadBytes []byte          `json:"payload_bytes,omitempty"`
	Result       json.RawMessage `json:"result,omitempty"`
	ResultBytes  []byte          `json:"result_bytes,omitempty"`
	Results      []NeedResult    `json:"results,omitempty"`
	Hooks        []HookEvent     `json:"hooks,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (j Job) MarshalJSON() ([]byte, error) {
	v := jobJSON{Spec: j.Spec, Status: j.Status, Results: j.Results, Hooks: j.Hooked.events()}
	v.Payload, v.PayloadBytes = splitJSON(j.Payload)
	v.Result, v.ResultBytes = splitJSON(j.Result)
	return json.Marshal(v)
}

// UnmarshalJSON implements json.Unmarshaler.
func (j *Job) UnmarshalJSON(b []byte) error {
	var v jobJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*j = Job{Spec: v.Spec, Status: v.Status, Results: v.Results, Hooked: hookedOf(v.Hooks)}
	j.Payload = joinJSON(v.Payload, v.PayloadBytes)
	j.Result = joinJSON(v.Result, v.ResultBytes)
	return nil
}

func (h Hooked) events() (list []HookEvent) {
	if h&HookedBefore != 0 {
		list = append(list, BeforePerform)
	}
	if h&HookedAfter != 0 {
		list = append(list, AfterPerform)
	}
	return list
}

func hookedOf(list []HookEvent) (h Hooked) {
	if contains(list, BeforePerform) {
		h |= HookedBefore
	}
	if contains(list, AfterPerform) {
		h |= HookedAfter
	}
	return h
}

func splitJSON(b []byte) (json.RawMessage, []byte) {
	if len(b) > 0 && (!json.Valid(b) || !utf8.Valid(b)) { // json.Valid lets other bytes pass in strings
		return nil, b
	}
	return b, nil
}

func joinJSON(raw json.RawMessage, b []byte) []byte {
	if len(b) > 0 {
		return b
	}
	return raw
}

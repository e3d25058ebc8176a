package haulier

import (
	"context"
	"encoding/json"
	"time"
)

// Labels of what a schedule starts.
const (
	LabelSchedule = "schedule" // its name
	LabelTick     = "tick"     // the time for which it was started, RFC 3339
)

// Planner is what starts jobs by the clock, and keeps them from starting.
type Planner interface {
	// SetSchedule makes a schedule, or changes the one of that name, and returns it with its next time. What it
	// has counted stays.
	SetSchedule(ctx context.Context, s Schedule) (Schedule, error)
	// Schedules lists those of a tenant by name.
	Schedules(ctx context.Context, tenant string) ([]Schedule, error)
	// Schedule returns one. ErrNotFound: there is none of that name.
	Schedule(ctx context.Context, tenant, name string) (Schedule, error)
	// DeleteSchedule removes one; what it has started goes on. ErrNotFound: there is none of that name.
	DeleteSchedule(ctx context.Context, tenant, name string) error
	// PauseSchedule stops a schedule, or lets it go on with its next time; what fell into the pause is not made up for.
	PauseSchedule(ctx context.Context, tenant, name string, paused bool) (Schedule, error)
	// SetWindow makes a window, or changes the one of that name; jobs that wait for it are looked at again at once.
	SetWindow(ctx context.Context, w Window) (Window, error)
	// Windows lists those of a tenant by name.
	Windows(ctx context.Context, tenant string) ([]Window, error)
	// DeleteWindow removes a window; jobs that wait for it may start. ErrNotFound: there is none of that name.
	DeleteWindow(ctx context.Context, tenant, name string) error
	// RunSchedule starts at once what a schedule starts, whatever its policies say, and returns the ids of the jobs.
	RunSchedule(ctx context.Context, tenant, name, by string) ([]ID, error)
}

// Overlap says what a schedule does when what it started last has not ended.
type Overlap string

// The overlap policies.
const (
	OverlapAllow    Overlap = "allow"    // start beside it
	OverlapSkip     Overlap = "skip"     // leave this time out
	OverlapWait     Overlap = "wait"     // start afterwards
	OverlapCollapse Overlap = "collapse" // start afterwards; of those that wait only the newest runs
	OverlapReplace  Overlap = "replace"  // cancel it, then start
)

// Missed says what a schedule does about times at which no server was there.
type Missed string

// The policies for missed times.
const (
	MissedNone Missed = "none" // nothing
	MissedOnce Missed = "once" // start once for all of them
	MissedAll  Missed = "all"  // start for each of the last Schedule.MissedMost
)

// MaxMissed is the most of Schedule.MissedMost.
const MaxMissed = 100

// Schedule starts a job again and again. It is identified by tenant and name.
type Schedule struct {
	Tenant string `json:"tenant,omitempty"` // default unless said
	Name   string `json:"name,omitempty"`
	// Cron is when, as package calendar reads it: five or six fields, @daily, @every 1h; H is decided by the name.
	Cron string `json:"cron"`
	// Zone is whose clock Cron means, as in Europe/Berlin; UTC unless said.
	Zone string `json:"zone,omitempty"`
	// Executor has Cron read as the executor queue does: the minute is always spread by the name.
	Executor bool     `json:"executor_queue,omitempty"`
	Jitter   Duration `json:"jitter,omitzero"` // each start is put off by up to this, by how much is decided by name and time

	Job *Template `json:"job"` // what is started

	Overlap    Overlap   `json:"overlap,omitempty"`     // allow unless said
	Missed     Missed    `json:"missed,omitempty"`      // once unless said
	MissedMost int       `json:"missed_most,omitempty"` // of all; 10 unless said
	Start      time.Time `json:"start,omitzero"`        // no time before this
	End        time.Time `json:"end,omitzero"`          // no time after this
	Paused     bool      `json:"paused,omitempty"`

	ScheduleStanding
}

// ScheduleStanding is how a schedule stands. Only the server sets it.
type ScheduleStanding struct {
	CreatedAt time.Time    `json:"created_at,omitzero"`
	Next      time.Time    `json:"next,omitzero"`    // zero: never again, or paused
	Last      *ScheduleRun `json:"last,omitempty"`   // what was started last
	Started   int64        `json:"started,omitzero"` // how often something was started
	Skipped   int64        `json:"skipped,omitzero"` // times that were left out since the last had not ended
}

// ScheduleRun is one start of a schedule.
type ScheduleRun struct {
	Tick  time.Time `json:"tick"` // for which it was started
	Job   ID        `json:"job"`
	State State     `json:"state,omitzero"` // of the job, as far as it is still kept
}

// Template is a job that is made again and again. What is left out has a default.
type Template struct {
	Type         string            `json:"type,omitempty" doc:"names what the job does; the kind of its task unless said"`
	Queue        string            `json:"queue,omitempty" doc:"default unless said"`
	Task         Task              `json:"task,omitzero" doc:"how it runs; a function of that type in a worker unless said"`
	Payload      json.RawMessage   `json:"payload,omitempty" doc:"any JSON"`
	PayloadBytes []byte            `json:"payload_bytes,omitempty" doc:"instead of payload: any bytes, as base64"`
	Priority     int               `json:"priority,omitempty" doc:"from -10 to 10, higher first"`
	MaxAttempts  int               `json:"max_attempts,omitempty" doc:"10 unless said"`
	Inputs       []Input           `json:"inputs,omitempty" doc:"filesets that it finds in its working folder"`
	Outputs      *Output           `json:"outputs,omitempty" doc:"what becomes a version of a fileset when it has ended"`
	Backoff      *Backoff          `json:"backoff,omitzero" doc:"the wait between attempts: exponential with jitter unless said"`
	RetryFor     Duration          `json:"retry_for,omitzero" doc:"no further attempt starts after this has passed"`
	Timeout      Duration          `json:"timeout,omitzero" doc:"of one attempt; none unless said"`
	Labels       map[string]string `json:"labels,omitempty"`
	RunsOn       map[string]string `json:"runs_on,omitempty" doc:"labels that a worker must have to run it, such as gpu: true"`
	Retention    Duration          `json:"retention,omitzero" doc:"how long it is kept when it has ended; 7 days, failed 30, unless said"`
	Group        string            `json:"group,omitempty" doc:"name shared by jobs that belong together"`
	*Flow
}

// Spec is a new job of the template, at a time. It shares labels and flow with it.
func (t *Template) Spec(tenant string, now time.Time) Spec {
	s := Spec{
		Tenant: tenant, Queue: t.Queue, Type: t.Type, Task: t.Task, Payload: t.PayloadBytes, Priority: t.Priority, MaxAttempts: t.MaxAttempts,
		Files: FilesOf(t.Inputs, t.Outputs), Backoff: t.Backoff, Timeout: t.Timeout, Labels: t.Labels, RunsOn: t.RunsOn, Retention: t.Retention, Group: t.Group, Flow: t.Flow,
	}
	if t.Payload != nil {
		s.Payload = t.Payload
	}
	if t.RetryFor > 0 {
		s.RetryUntil = now.Add(time.Duration(t.RetryFor))
	}
	return s
}

// TemplateOf is a template whose jobs are as s is; payloads of JSON are kept as such.
func TemplateOf(s *Spec) *Template {
	t := &Template{
		Type: s.Type, Queue: s.Queue, Task: s.Task, PayloadBytes: s.Payload, Priority: s.Priority, MaxAttempts: s.MaxAttempts, Backoff: s.Backoff,
		Timeout: s.Timeout, Labels: s.Labels, RunsOn: s.RunsOn, Retention: s.Retention, Group: s.Group, Flow: s.Flow,
	}
	if s.Files != nil {
		t.Inputs, t.Outputs = s.Inputs, s.Outputs
	}
	if json.Valid(s.Payload) {
		t.Payload, t.PayloadBytes = s.Payload, nil
	}
	return t
}

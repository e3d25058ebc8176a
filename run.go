package haulier

import (
	"context"
	"time"
)

// Workflows is what starts jobs in order.
type Workflows interface {
	// ApplyWorkflow keeps a new version of a workflow, unless the text is that of the newest. The name is
	// that in the text, or else the given one. What is wrong with the text is told with lines.
	ApplyWorkflow(ctx context.Context, tenant, name, source, by string) (Workflow, error)
	// Workflows lists those of a tenant by name, without their texts.
	Workflows(ctx context.Context, tenant string) ([]Workflow, error)
	// Workflow returns a version with its text; 0: the newest. ErrNotFound: there is none.
	Workflow(ctx context.Context, tenant, name string, version int) (Workflow, error)
	// DeleteWorkflow removes a workflow with all versions and what starts it by itself. Its runs go on.
	DeleteWorkflow(ctx context.Context, tenant, name string) error
	// StartRun starts a run: all its jobs are there, or none.
	StartRun(ctx context.Context, r RunRequest) (Run, error)
	// Runs lists the newest runs of a workflow, without their jobs.
	Runs(ctx context.Context, tenant, workflow string, limit int) ([]Run, error)
	// GetRun returns a run with its jobs. ErrNotFound: there is none of that id.
	GetRun(ctx context.Context, tenant, id string) (Run, error)
	// CancelRun cancels what has not ended of a run.
	CancelRun(ctx context.Context, tenant, id, by, reason string) (Changed, error)
	// RetryRun runs again what has failed or was cancelled by hand; what was cancelled for its sake comes back.
	RetryRun(ctx context.Context, tenant, id, by string) (Changed, error)
	// WorkflowGraph draws a workflow, or with a run's id that run with the states of its jobs: as text, or as SVG.
	WorkflowGraph(ctx context.Context, tenant, workflow, run string, svg bool) (string, error)
	// PostEvent starts the workflows that wait for the event, each once. When it returns they will be
	// started, whatever happens.
	PostEvent(ctx context.Context, e Signal) error
}

// Signal is something that has happened.
type Signal struct {
	Tenant  string `json:"tenant,omitempty"` // default unless said
	Name    string `json:"name"`             // without a colon
	Payload []byte `json:"-"`                // of the jobs that come first
	By      string `json:"-"`
}

// Workflow is a text that says which jobs run in which order; see docs/workflows.md.
type Workflow struct {
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"`
	Version   int       `json:"version"` // from 1
	Digest    string    `json:"digest"`  // SHA-256 of the text
	AppliedAt time.Time `json:"applied_at"`
	AppliedBy string    `json:"applied_by,omitempty"`
	Jobs      []string  `json:"jobs"`             // their names, in the order of the text
	Events    []string  `json:"events,omitempty"` // that start it; workflow: and a name is the success of that one
	Schedules []string  `json:"schedules,omitempty"`
	Runs      int64     `json:"runs,omitzero"` // how many were started
	Source    string    `json:"source,omitempty"`
}

// RunRequest asks for a run.
type RunRequest struct {
	Tenant   string `json:"-"`
	Workflow string `json:"-"`
	Version  int    `json:"version,omitempty" doc:"the newest unless said"`
	From     string `json:"from,omitempty" doc:"job at which it starts; the whole workflow unless said"`
	Payload  []byte `json:"-"` // of the jobs that come first
	Force    bool   `json:"force,omitempty" doc:"start in spite of windows"`
	By       string `json:"-"`
}

// RunState is how a run stands.
type RunState string

// The states of a run.
const (
	RunWaiting   RunState = "waiting" // nothing of it has started
	RunRunning   RunState = "running"
	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"    // a job failed, and all have ended
	RunCancelled RunState = "cancelled" // and none failed
	RunCollapsed RunState = "collapsed" // a newer run took its place before it had begun
	RunGone      RunState = "gone"      // its jobs were removed
)

// Run is a workflow that was started.
type Run struct {
	ID        string         `json:"id"` // the workflow's name and the number: build-42
	Tenant    string         `json:"tenant"`
	Workflow  string         `json:"workflow"`
	Version   int            `json:"version"`
	Number    int64          `json:"number"`
	From      string         `json:"from,omitempty"`
	StartedAt time.Time      `json:"started_at"`
	StartedBy string         `json:"started_by,omitempty"`
	End       ID             `json:"end"`               // job with which it ends
	Size      int            `json:"size"`              // how many jobs it has, with meeting points
	State     RunState       `json:"state,omitempty"`   // of GetRun and Runs
	EndedAt   time.Time      `json:"ended_at,omitzero"` // when it succeeded
	Counts    map[string]int `json:"counts,omitempty"`  // of GetRun: jobs by state
	Jobs      []RunJob       `json:"jobs,omitempty"`    // of Run
}

// RunJob is a job of a run.
type RunJob struct {
	ID    ID     `json:"id"`
	Ref   string `json:"ref"` // its name in the workflow, with its place in a matrix
	State State  `json:"state"`
}

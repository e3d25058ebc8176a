package haulier

import (
	"context"
	"time"
)

// Gatekeeper keeps hooks that are reached over HTTP, and the secrets that sign what is sent to addresses that others name.
type Gatekeeper interface {
	// SetHook makes a hook, or replaces the one of that name. Other servers over the store know of it within seconds.
	SetHook(ctx context.Context, h Hook) (Hook, error)
	// Hooks lists those of a tenant by name, the order in which they are asked.
	Hooks(ctx context.Context, tenant string) ([]Hook, error)
	// Hook returns one. ErrNotFound: there is none of that name.
	Hook(ctx context.Context, tenant, name string) (Hook, error)
	// DeleteHook removes one. ErrNotFound: there is none of that name.
	DeleteHook(ctx context.Context, tenant, name string) error
	// TestHook asks a hook about a made-up job, and tells what it answers.
	TestHook(ctx context.Context, tenant, name string, event HookEvent) (HookTrial, error)
	// SetSecret keeps a secret under a name, in place of the one before. Without a value it makes one, and returns it this once.
	SetSecret(ctx context.Context, tenant, name, value string) (Secret, error)
	// Secrets lists those of a tenant by name, without their values.
	Secrets(ctx context.Context, tenant string) ([]Secret, error)
	// DeleteSecret removes one; what is signed with it fails from then on. ErrNotFound: there is none of that name.
	DeleteSecret(ctx context.Context, tenant, name string) error
}

// HookEvent is when a hook is called.
type HookEvent string

// The events.
const (
	BeforeEnqueue HookEvent = "before_enqueue"
	AfterEnqueue  HookEvent = "after_enqueue"
	BeforePerform HookEvent = "before_perform"
	AfterPerform  HookEvent = "after_perform"
)

// HookEvents lists them in the order of a job's life.
var HookEvents = []HookEvent{BeforeEnqueue, AfterEnqueue, BeforePerform, AfterPerform}

// HookPolicy is what an error of a hook means: one that can't be reached, or does not answer as it should.
type HookPolicy string

// The policies.
const (
	HookFail   HookPolicy = "fail"   // as an error of a hook in Go
	HookIgnore HookPolicy = "ignore" // as if it had allowed; the server's log tells of it
)

// Bounds of hooks.
const (
	MaxHookTimeout = 30 * time.Second
	MaxHooks       = 100 // of a tenant
	MaxURL         = 2048
)

// Hook is called over HTTP. It is identified by tenant and name.
type Hook struct {
	Tenant string `json:"tenant,omitempty"` // default unless said
	Name   string `json:"name,omitempty"`
	URL    string `json:"url"`
	// Events are when it is called.
	Events []HookEvent `json:"events"`
	// Queues and Types select the jobs about which it is called; empty: all.
	Queues []string `json:"queues,omitempty"`
	Types  []string `json:"types,omitempty"`
	// Timeout is how long it may take, with what is tried again; zero: DefaultHookTimeout.
	Timeout Duration `json:"timeout,omitzero"`
	// OnError is what it means when that passes in vain; fail unless said.
	OnError HookPolicy `json:"on_error,omitempty"`
	// Secret is the name of one with which calls are signed; empty: they are not.
	Secret    string    `json:"secret,omitempty"`
	UpdatedAt time.Time `json:"updated_at,omitzero"` // set by the server
}

// On reports whether the hook is called at an event.
func (h *Hook) On(e HookEvent) bool { return contains(h.Events, e) }

// Selects reports whether the hook is called about a job.
func (h *Hook) Selects(s *Spec) bool {
	return h.Tenant == s.Tenant && (len(h.Queues) == 0 || contains(h.Queues, s.Queue)) && (len(h.Types) == 0 || contains(h.Types, s.Type))
}

// HookTrial is what a hook answered when it was tested.
type HookTrial struct {
	Verdict
	Status int      `json:"status,omitempty"` // of HTTP
	Took   Duration `json:"took"`
	Error  string   `json:"error,omitempty"` // why it would count as failed
}

// Secret is a name for something that only the server knows.
type Secret struct {
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"`
	UpdatedAt time.Time `json:"updated_at"`
	Value     string    `json:"value,omitempty"` // when the server has just made it
}

// HookCall is how a worker has the server ask the hooks around an attempt.
type HookCall struct {
	Ref
	Event HookEvent // BeforePerform or AfterPerform
	End   Report    // of AfterPerform: how it ended
}

// HookAnswer is what the hooks around an attempt say, up to the first that does not allow it.
type HookAnswer struct {
	Verdict
	Hook  string `json:"hook,omitempty"`  // whose verdict or error it is
	Error string `json:"error,omitempty"` // a hook failed, for which there is no verdict
	// Change, before an attempt, is what it gets in place of what the job says.
	Change *HookChange `json:"change,omitempty"`
}

// HookChange is what hooks have made of an attempt.
type HookChange struct {
	Task    Task     `json:"task,omitzero"`
	Payload []byte   `json:"payload,omitempty"`
	Timeout Duration `json:"timeout,omitzero"`
}

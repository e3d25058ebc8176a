package haulier

import (
	"context"
	"time"
)

// Bounds of handlers.
const (
	MaxHandlerSource   = 160 << 10 // bytes of a handler's four scripts together
	MaxHandlerVersions = 100       // versions that are kept of a handler, the newest
	MaxScriptPayload   = 1 << 20   // bytes of payload of a job of kind script
)

// Handlers keeps the scripts that run jobs of kind script. Each belongs to a tenant and a type of job.
type Handlers interface {
	// SetHandler keeps a handler as the next version, unless it is what the newest says. Jobs that are claimed from then on run by it.
	SetHandler(ctx context.Context, h Handler, by string) (Handler, error)
	// Handlers lists the newest versions of a tenant by type, without their scripts, and with Version 0 the types that have
	// none though jobs wait for one.
	Handlers(ctx context.Context, tenant string) ([]Handler, error)
	// Handler returns a version with its scripts; 0: the newest. ErrNotFound: there is none.
	Handler(ctx context.Context, tenant, typ string, version int) (Handler, error)
	// HandlerVersions lists the versions that are kept, the newest first, without their scripts. ErrNotFound: there is none.
	HandlerVersions(ctx context.Context, tenant, typ string) ([]Handler, error)
	// RollbackHandler makes the next version of what an earlier one says; 0: the one before the newest.
	RollbackHandler(ctx context.Context, tenant, typ string, version int, by string) (Handler, error)
	// DeleteHandler removes a handler with all its versions. Jobs of the type wait for another, as far as no worker has them.
	DeleteHandler(ctx context.Context, tenant, typ string) error
}

// Handler is a version of what runs the jobs of a type; see docs/handlers.md.
type Handler struct {
	Tenant  string    `json:"tenant,omitempty"`
	Type    string    `json:"type,omitempty"`
	Version int       `json:"version,omitempty"` // from 1
	Digest  string    `json:"digest,omitempty"`  // SHA-256 over language, engine id and scripts
	SetAt   time.Time `json:"set_at,omitzero"`
	SetBy   string    `json:"set_by,omitempty"`
	// Lang is the language, by the name that workers have for it, such as node, python or sh.
	Lang string `json:"lang,omitempty"`
	// Engine is an id that handlers share which may run in one process, one after the other. Empty: this version runs in processes of its own.
	Engine string `json:"eid,omitempty"`
	Scripts
	// Waiting is how many jobs are pending. Only Handlers sets it.
	Waiting int64 `json:"waiting,omitempty"`
}

// Scripts are the texts of a handler, in its language.
type Scripts struct {
	Body       string `json:"body,omitempty"`        // what runs a job
	Before     string `json:"before,omitempty"`      // runs once in each process
	BeforeEach string `json:"before_each,omitempty"` // runs before each batch of jobs
	AfterEach  string `json:"after_each,omitempty"`  // runs after each batch; what it fails, the batch's jobs have not done
}

// ScriptTask is a job run by the handler of its type. It waits as long as there is none.
type ScriptTask struct {
	// Version of the handler that this attempt runs by. Only Claim sets it; 0: the handler was removed meanwhile.
	Version int `json:"version,omitempty"`
	// Digest of that version.
	Digest string `json:"digest,omitempty"`
}

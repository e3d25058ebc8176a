package haulier

import (
	"context"
	"time"
)

// Batches is what follows jobs together.
type Batches interface {
	// CreateBatch makes a batch with its first jobs, all or none. Further jobs join it by Flow.Batch, until all that are in it
	// have ended. Its callbacks wait until it is closed.
	CreateBatch(ctx context.Context, r BatchRequest) (BatchStatus, error)
	// CloseBatch says that no more jobs come from outside, so that the callbacks may run. Closing twice does no harm.
	CloseBatch(ctx context.Context, tenant string, id ID, by string) (BatchStatus, error)
	// GetBatch returns a batch. ErrNotFound: there is none of that id.
	GetBatch(ctx context.Context, tenant string, id ID) (BatchStatus, error)
	// ListBatches lists those of a tenant, the newest first.
	ListBatches(ctx context.Context, tenant string, limit int) ([]BatchStatus, error)
}

// LabelBatch is the label of a batch's callbacks: its id. Its jobs have the id as group, unless they have another.
const LabelBatch = "batch"

// BatchRequest asks for a batch.
type BatchRequest struct {
	Tenant    string
	Name      string // for people
	Jobs      []Spec
	OnSuccess *Spec // enqueued when all jobs have succeeded, also after a retry of some
	OnEnd     *Spec // enqueued when all jobs have ended, however
	Open      bool  // more jobs come: CloseBatch is called later
	By        string
}

// BatchStatus is how a batch stands.
type BatchStatus struct {
	ID        ID        `json:"id"`
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	Closed    bool      `json:"closed"`
	Total     int       `json:"total"`
	Ended     int       `json:"ended"`
	Failed    int       `json:"failed"` // ended otherwise than well, and not run again since
	Percent   float64   `json:"percent"`
	OnSuccess ID        `json:"on_success"`     // job that waits for the success of all, the callback if there is one
	OnEnd     ID        `json:"on_end"`         // job that waits for the end of all
	Jobs      []ID      `json:"jobs,omitempty"` // of CreateBatch: those of the request
}

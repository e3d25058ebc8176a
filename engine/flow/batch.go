package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// DocBatch is the kind of a batch's document. Its key is tenant/id.
const DocBatch haulier.DocKind = "batch"

// Batch is the document of a batch. Three jobs belong to it that are none of its own: a lid, which is there until the batch
// is closed, and two that need the lid and all jobs of the batch, one their success and one their end.
type Batch struct {
	ID        haulier.ID `json:"id"`
	Name      string     `json:"name,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
	Lid       haulier.ID `json:"lid"`
	Success   haulier.ID `json:"success"`
	End       haulier.ID `json:"end"`
	Total     int        `json:"total"`
}

func batchKey(tenant string, id haulier.ID) string { return tenant + "/" + id.String() }

// ParseBatch reads a batch's document.
func ParseBatch(d *haulier.Doc) (Batch, error) {
	var b Batch
	return b, decode(DocBatch, d.Key, d.Value, &b)
}

// AddBatch adds a batch whose lid and callbacks are among the jobs of the transaction.
func (t *Tx) AddBatch(tenant string, b *Batch) { t.put(DocBatch, batchKey(tenant, b.ID), encode(b)) }

// join makes a new job one of a batch, whose callbacks wait for it as well.
func (t *Tx) join(ctx context.Context, j *haulier.Job) error {
	name := batchKey(j.Tenant, j.Flow.Batch)
	v, err := t.get(ctx, DocBatch, name)
	if err != nil {
		return err
	}
	if v == nil {
		return field("batch", fmt.Sprintf("%v is none of tenant %s", j.Flow.Batch, j.Tenant))
	}
	var b Batch
	if err := decode(DocBatch, name, v, &b); err != nil {
		return err
	}
	b.Total++
	t.put(DocBatch, name, encode(&b))
	if err := t.await(ctx, j, b.End, haulier.OnFinished); err != nil {
		return err
	}
	return t.await(ctx, j, b.Success, haulier.OnSucceeded)
}

// await lets a job that waits for others wait for j as well.
func (t *Tx) await(ctx context.Context, j *haulier.Job, id haulier.ID, on haulier.Condition) error {
	gate, err := t.Job(ctx, id)
	if err != nil {
		return err
	}
	ended := j.State.Terminal()
	switch {
	case ended && on.Met(j.State):
		return nil
	case gate == nil || gate.State != haulier.Blocked && gate.State != haulier.Cancelled:
		return fmt.Errorf("batch %v: %w: all its jobs have ended; make another", j.Flow.Batch, haulier.ErrConflict)
	}
	if err := t.change(ctx, gate, haulier.Event{Kind: haulier.EventAwait, N: 1}); err != nil {
		if errors.Is(err, haulier.ErrConflict) {
			return fmt.Errorf("batch %v: %w: all its jobs have ended; make another", j.Flow.Batch, haulier.ErrConflict)
		}
		return err
	}
	if err := t.needed(ctx, j); err != nil {
		return err
	}
	t.putEdge(edge{needKey(j.ID, id), id, on, ended})
	if ended {
		return t.change(ctx, gate, barredBy(j.ID, j.State))
	}
	return nil
}

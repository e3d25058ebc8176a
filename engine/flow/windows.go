package flow

import (
	"context"
	"time"

	"github.com/haulier/haulier"
)

// The kinds of document of jobs that wait for a window.
const (
	DocFrozen haulier.DocKind = "frozen"       // key: tenant/window/job
	DocNewest haulier.DocKind = "frozennewest" // key: tenant/window/queue/type; the newest job that waits
)

// Freeze says which window keeps a job from starting, and until when.
type Freeze struct {
	Window string
	Until  time.Time
	Newest bool // only the newest job of its queue and type is to survive
}

func frozenBy(s *haulier.Status) string {
	if s.Standing == nil {
		return ""
	}
	return s.Frozen
}

func frozenKey(j *haulier.Job, window string) string {
	return j.Tenant + "/" + window + "/" + j.ID.String()
}

// freeze sends a claimed job back to wait for a window.
func (t *Tx) freeze(ctx context.Context, j *haulier.Job, f Freeze) error {
	ev := haulier.Event{Kind: haulier.EventDefer, Session: j.Session, Attempt: j.Attempt, Key: f.Window, At: f.Until, By: "server", Error: "frozen by window " + f.Window}
	if err := t.change(ctx, j, ev); err != nil || frozenBy(&j.Status) != f.Window {
		return err
	}
	t.putNew(DocFrozen, frozenKey(j, f.Window), []byte{})
	if !f.Newest {
		return nil
	}
	return t.survive(ctx, j, f.Window)
}

// survive makes j the one job of its queue and type that waits for a window, or lets it be replaced by the one that is newer.
func (t *Tx) survive(ctx context.Context, j *haulier.Job, window string) error {
	name := j.Tenant + "/" + window + "/" + j.Queue + "/" + j.Type
	b, err := t.get(ctx, DocNewest, name)
	if err != nil {
		return err
	}
	var k kept
	if err := decode(DocNewest, name, b, &k); err != nil {
		return err
	}
	if !k.Job.IsNil() && k.Job != j.ID {
		other, err := t.Job(ctx, k.Job)
		switch {
		case err != nil:
			return err
		case other == nil || frozenBy(&other.Status) != window:
		case newer(other, j):
			if err := t.replace(ctx, j, other); err != nil || !j.State.Waits() {
				return err
			}
		default:
			if err := t.replace(ctx, other, j); err != nil {
				return err
			}
		}
	}
	t.put(DocNewest, name, encode(kept{j.ID}))
	return nil
}

// thaw takes back what freeze noted, when the job does not wait for the window any more.
func (t *Tx) thaw(ctx context.Context, j *haulier.Job, before *haulier.Status) error {
	window := frozenBy(before)
	if window == "" || frozenBy(&j.Status) == window {
		return nil
	}
	t.putNew(DocFrozen, frozenKey(j, window), nil)
	name := j.Tenant + "/" + window + "/" + j.Queue + "/" + j.Type
	return t.forget(ctx, DocNewest, name, j.ID)
}

// putNew changes a document that belongs to a job alone, whose revision stands for it.
func (t *Tx) putNew(kind haulier.DocKind, key string, value []byte) {
	n := docName{kind, key}
	if t.docs[n] == nil {
		t.docs[n] = &doc{rev: haulier.AnyRev}
	}
	t.put(kind, key, value)
}

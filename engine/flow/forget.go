package flow

import (
	"context"

	"github.com/haulier/haulier"
)

// Forget adds to b the removal of what a job that is deleted leaves behind, and returns
// the keys of the documents that say what is left to do: those that needed it are told in further commits.
func Forget(ctx context.Context, store haulier.Store, j *haulier.Job, b *haulier.Batch) (work []string, err error) {
	t := Begin(store, j.FinishedAt)
	if j.Standing != nil && j.Needed && j.State != haulier.Collapsed {
		prefix := j.ID.String() + "/"
		edges, err := store.Docs(ctx, DocNeed, prefix, prefix, 1)
		if err != nil {
			return nil, err
		}
		if len(edges) > 0 {
			work = t.noteRest([]Rest{{Do: doGone, Job: j.ID, State: j.State}})
		}
	}
	if j.Flow != nil && j.Unique != nil {
		key, err := UniqueKey(&j.Spec)
		if err == nil { // a job that was accepted has a key
			err = t.forget(ctx, DocUnique, lockKey(j.Tenant, key), j.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	if j.Flow != nil && j.Memo != nil {
		key, err := memoKey(&j.Spec)
		if err == nil {
			err = t.forget(ctx, DocMemo, key, j.ID)
		}
		if err != nil {
			return nil, err
		}
	}
	if j.Flow != nil && j.Collapse != "" {
		if err := t.forgetNewest(ctx, j); err != nil {
			return nil, err
		}
	}
	t.write(b)
	return work, nil
}

// forget removes a key's document when it names the job.
func (t *Tx) forget(ctx context.Context, kind haulier.DocKind, name string, id haulier.ID) error {
	v, err := t.get(ctx, kind, name)
	if err != nil || v == nil {
		return err
	}
	var k kept
	if err := decode(kind, name, v, &k); err != nil || k.Job != id {
		return err
	}
	t.put(kind, name, nil)
	return nil
}

// forgetNewest removes the document of a collapse key when it names the job, and no other that may still wait.
func (t *Tx) forgetNewest(ctx context.Context, j *haulier.Job) error {
	v, err := t.newest(ctx, j)
	if err != nil || v.Job != j.ID {
		return err
	}
	now := line{}
	for _, id := range v.Older {
		old, err := t.Job(ctx, id)
		if err != nil {
			return err
		}
		if old != nil && !old.State.Terminal() {
			now.Older = append(now.Older, id)
		}
	}
	if len(now.Older) > 0 {
		t.put(DocCollapse, lockKey(j.Tenant, j.Collapse), encode(now))
		return nil
	}
	t.put(DocCollapse, lockKey(j.Tenant, j.Collapse), nil)
	return nil
}

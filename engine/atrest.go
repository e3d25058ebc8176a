package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// DocKinds lists every kind of document, for those who go through a whole store, which can't tell by itself what is in it.
var DocKinds = []haulier.DocKind{
	haulier.DocSession, haulier.DocQueue, haulier.DocToken, haulier.DocRequest, haulier.DocWork, haulier.DocLog, haulier.DocBlob, haulier.DocBlobRef,
	haulier.DocCopy,
	flow.DocLock, flow.DocWaiter, flow.DocNeed, flow.DocUnique, flow.DocCollapse, flow.DocLimit, flow.DocFrozen, flow.DocNewest, flow.DocBatch, flow.DocMemo,
	DocDuty, DocWindow, DocSecret, DocSchedule, DocWorkflow, DocWorkflowText, DocRun, DocRunJobs, DocInputs, DocOutcomes, DocChain,
	DocFileset, DocFilesetHead, DocHook, DocHandler, DocHandlerText,
}

// AtRest is ErrConflict when a server works over the store. It notices servers of shared stores, the last of which to die by at most
// the time of its duty; a store that one server has for itself is locked by that.
func AtRest(ctx context.Context, store haulier.Store) error {
	d, err := store.Doc(ctx, DocDuty, dutyKey)
	if errors.Is(err, haulier.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for servers: %w", err)
	}
	now, err := store.Now(ctx)
	if err != nil {
		return fmt.Errorf("look for servers: %w", err)
	}
	var held dutyDoc
	if json.Unmarshal(d.Value, &held) != nil || !now.Before(held.Until) {
		return nil
	}
	left := held.Until.Sub(now).Round(time.Second)
	return fmt.Errorf("%w: a server works over the store: stop all of them; if one was killed just now, wait %v", haulier.ErrConflict, max(left, time.Second))
}

// whole is ErrConflict when a copy into the store has not been completed.
func whole(ctx context.Context, store haulier.Store) error {
	_, err := store.Doc(ctx, haulier.DocCopy, haulier.CopyKey)
	switch {
	case err == nil:
		return fmt.Errorf("%w: a copy or import into this store is not complete: give the same command once more, or empty the store", haulier.ErrConflict)
	case errors.Is(err, haulier.ErrNotFound):
		return nil
	}
	return err
}

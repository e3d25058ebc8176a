package flow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// DocMemo is the kind of the document of the newest success of jobs that are alike. Its key is tenant/digest.
const DocMemo haulier.DocKind = "memo"

// memoKey names what two jobs share whose results stand for each other: tenant, type, task and payload.
func memoKey(s *haulier.Spec) (string, error) {
	task, err := json.Marshal(s.Task)
	if err != nil {
		return "", field("task", "can't be told from others: "+err.Error())
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(s.Type), task, []byte(s.Blob), s.Payload} {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return lockKey(s.Tenant, hex.EncodeToString(h.Sum(nil))), nil
}

// recall ends a new job that may start at once by the result of one that is alike.
func (t *Tx) recall(ctx context.Context, j *haulier.Job) error {
	if j.Flow == nil || j.Memo == nil || j.Memo.Fresh || j.State != haulier.Pending {
		return nil
	}
	name, err := memoKey(&j.Spec)
	if err != nil {
		return err
	}
	v, err := t.get(ctx, DocMemo, name)
	if err != nil || v == nil {
		return err
	}
	var k kept
	if err := decode(DocMemo, name, v, &k); err != nil {
		return err
	}
	old, err := t.Job(ctx, k.Job)
	if err != nil || old == nil || old.State != haulier.Succeeded || old.ResultBlob != "" {
		return err
	}
	if age := time.Duration(j.Memo.MaxAge); age > 0 && t.now.Sub(old.FinishedAt) > age {
		return nil
	}
	return t.change(ctx, j, haulier.Event{Kind: haulier.EventRecall, Other: old.ID, Code: old.Code, Result: old.Result, By: "server"})
}

// memorize notes a success for those that are alike and come later.
func (t *Tx) memorize(ctx context.Context, j *haulier.Job) error {
	if j.Memo == nil || j.Standing != nil && !j.MemoOf.IsNil() {
		return nil
	}
	name, err := memoKey(&j.Spec)
	if err != nil {
		return err
	}
	if _, err := t.get(ctx, DocMemo, name); err != nil {
		return err
	}
	t.put(DocMemo, name, encode(kept{j.ID}))
	return nil
}

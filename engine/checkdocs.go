package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// checkDocs looks through the documents of one kind, as far as nobody else does.
func (c *checker) checkDocs(ctx context.Context, kind haulier.DocKind) error {
	look := c.decodes
	switch kind {
	case haulier.DocLog, DocChain, DocInputs:
		look = c.ofJobs
	case haulier.DocBlobRef:
		look = c.blobRefs
	case flow.DocWaiter, flow.DocNeed, flow.DocFrozen, flow.DocLock, haulier.DocSession, haulier.DocWork, DocWorkflowText, DocRunJobs:
		look = func(context.Context, []haulier.Doc) error { return nil } // seen to elsewhere, or any bytes do
	}
	err := c.each(ctx, kind, func(ctx context.Context, docs []haulier.Doc) error {
		c.out.Docs += int64(len(docs))
		c.progress("documents", c.out.Docs)
		return look(ctx, docs)
	})
	if err != nil {
		return fmt.Errorf("documents of kind %s: %w", kind, err)
	}
	return nil
}

// form is what a document of the kind decodes to.
func form(kind haulier.DocKind) any {
	switch kind {
	case haulier.DocBlob:
		return &blobDoc{}
	case haulier.DocToken:
		return &tokenDoc{}
	case haulier.DocRequest:
		return &keyed{}
	case flow.DocBatch:
		return &flow.Batch{}
	case flow.DocLimit:
		return &haulier.Limit{}
	case DocOutcomes:
		return &tally{}
	case DocDuty:
		return &dutyDoc{}
	case DocWorkflow:
		return &haulier.Workflow{}
	case DocRun:
		return &haulier.Run{}
	case DocHandler, DocHandlerText:
		return &handlerText{}
	case DocFilesetHead:
		return &filesetHead{}
	}
	return &json.RawMessage{}
}

// decodes finds documents whose bytes are damaged. They are kept: what they should say nobody knows.
func (c *checker) decodes(_ context.Context, docs []haulier.Doc) error {
	for i := range docs {
		d := &docs[i]
		if err := json.Unmarshal(d.Value, form(d.Kind)); err != nil {
			c.fault(Fault{What: string(d.Kind), Of: d.Key, Text: fmt.Sprintf("its bytes do not decode: %v", err), Advice: adviceRestore})
		}
	}
	return nil
}

// ofJobs finds documents of jobs that do not exist. The key begins with the job's id.
func (c *checker) ofJobs(ctx context.Context, docs []haulier.Doc) error {
	there, err := c.jobs(ctx, docs, func(d *haulier.Doc) string { return tenantOf(d.Key) })
	if err != nil {
		return err
	}
	for i := range docs {
		if !there[i] {
			if err := c.remove(ctx, &docs[i], "belongs to a job that does not exist"); err != nil {
				return err
			}
		}
	}
	return nil
}

// jobs reports which of the jobs exist that documents name.
func (c *checker) jobs(ctx context.Context, docs []haulier.Doc, name func(*haulier.Doc) string) ([]bool, error) {
	var ids []haulier.ID
	at := map[haulier.ID]int{}
	of := make([]haulier.ID, len(docs))
	for i := range docs {
		id, err := haulier.ParseID(name(&docs[i]))
		if err != nil {
			continue
		}
		of[i] = id
		if _, ok := at[id]; !ok {
			at[id] = len(ids)
			ids = append(ids, id)
		}
	}
	jobs, err := c.store.Jobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(docs))
	for i, id := range of {
		out[i] = !id.IsNil() && jobs[at[id]] != nil
	}
	return out, nil
}

// blobRefs finds holds on blobs whose holder is gone, and blobs that are gone though somebody holds them.
func (c *checker) blobRefs(ctx context.Context, docs []haulier.Doc) error {
	there, err := c.jobs(ctx, docs, func(d *haulier.Doc) string { return holderOf(d.Key) })
	if err != nil {
		return err
	}
	for i := range docs {
		d := &docs[i]
		key := d.Key[:max(strings.LastIndexByte(d.Key, '/'), 0)]
		if name, ok := strings.CutPrefix(holderOf(d.Key), "="); ok {
			if there[i], err = c.hasFileset(ctx, tenantOf(d.Key), name); err != nil {
				return err
			}
		}
		_, rev, err := c.changes.blobDoc(ctx, key)
		switch {
		case errors.Is(err, haulier.ErrCorrupt):
			continue // told with the blobs
		case err != nil:
			return err
		case !there[i]:
			err = c.mend(ctx, Fault{What: string(d.Kind), Of: d.Key, Text: "is held by a job or fileset that does not exist"}, func(ctx context.Context, b *haulier.Batch) error {
				return c.letGo(ctx, d, key, b)
			})
		case rev == 0:
			c.fault(Fault{What: string(d.Kind), Of: d.Key, Text: "holds a blob that does not exist", Advice: adviceRestore})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) hasFileset(ctx context.Context, tenant, ref string) (bool, error) {
	name, version, err := haulier.ParseFilesetRef(ref)
	if err != nil {
		return false, nil //nolint:nilerror // a holder of no sense is none
	}
	_, err = c.store.Doc(ctx, DocFileset, filesetKey(tenant, name, version))
	if errors.Is(err, haulier.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// letGo takes a hold away. The blob becomes an upload, so that the server removes it in time when nobody else holds it.
func (c *checker) letGo(ctx context.Context, d *haulier.Doc, key string, b *haulier.Batch) error {
	b.Docs = append(b.Docs, haulier.DocWrite{Kind: d.Kind, Key: d.Key, Expect: d.Rev})
	doc, rev, err := c.changes.blobDoc(ctx, key)
	if err != nil || rev == 0 || !doc.Until.IsZero() {
		return err
	}
	doc.Until = c.now.Add(uploadsStay)
	w, err := doc.write(key, rev)
	b.Docs = append(b.Docs, w)
	return err
}

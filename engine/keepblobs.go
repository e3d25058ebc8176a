package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
)

const (
	blobsEvery    = time.Hour
	strayAge      = 2 * uploadsStay // of an object that has no document
	blobsAtOnce   = 100_000         // uploads that are looked at together
	blobsPageSize = 500
)

// keepBlobs removes uploads whose time is over and which nothing uses, and counts what the tenants keep.
func (e *Engine) keepBlobs(ctx context.Context) error {
	tick := time.NewTicker(blobsEvery)
	defer tick.Stop()
	for {
		e.duty.await(ctx)
		if err := e.SweepBlobs(ctx); err != nil && ctx.Err() == nil {
			e.log.Error("blobs not looked through", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// SweepBlobs does at once what Run does each hour: it removes the uploads that nothing has used for
// a day, and objects that a crash left. It may be called while the engine is in use.
func (e *Engine) SweepBlobs(ctx context.Context) error {
	bytes := map[string]int64{}
	for after := ""; ; {
		now, err := e.now(ctx)
		if err != nil {
			return err
		}
		var next string
		var stale []staleBlob
		if stale, next, err = e.staleBlobs(ctx, after, now, bytes); err != nil {
			return err
		}
		if err := e.removeStale(ctx, stale, bytes); err != nil {
			return err
		}
		if next == "" {
			break
		}
		after = next
	}
	e.usage.set(bytes)
	return e.removeStrays(ctx)
}

type staleBlob struct {
	key string
	doc blobDoc
	rev uint64
}

// staleBlobs lists uploads whose time is over, and adds up what is kept.
func (e *Engine) staleBlobs(ctx context.Context, after string, now time.Time, bytes map[string]int64) (stale []staleBlob, next string, err error) {
	for len(stale) < blobsAtOnce {
		docs, err := e.store.Docs(ctx, haulier.DocBlob, "", after, blobsPageSize)
		if err != nil {
			return nil, "", err
		}
		for _, d := range docs {
			after = d.Key
			b := staleBlob{key: d.Key, rev: d.Rev}
			if err := json.Unmarshal(d.Value, &b.doc); err != nil {
				return nil, "", fmt.Errorf("blob %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			bytes[tenantOf(d.Key)] += b.doc.Size
			if !b.doc.Until.IsZero() && b.doc.Until.Before(now) {
				stale = append(stale, b)
			}
		}
		if len(docs) < blobsPageSize {
			return stale, "", nil
		}
	}
	return stale, after, nil
}

// removeStale removes those that no manifest lists. The manifests are read after the blobs were listed with their
// revisions: what a newer manifest lists was renewed before, so that its removal meets a conflict.
func (e *Engine) removeStale(ctx context.Context, stale []staleBlob, bytes map[string]int64) error {
	if len(stale) == 0 {
		return nil
	}
	left := make(map[string]staleBlob, len(stale))
	for _, b := range stale {
		left[b.key] = b
	}
	if err := e.spareListed(ctx, left); err != nil {
		return err
	}
	for key, b := range left {
		removed, err := e.removeBlob(ctx, key, &b.doc, b.rev)
		if err != nil {
			return err
		}
		if removed {
			bytes[tenantOf(key)] -= b.doc.Size
		}
	}
	return nil
}

// spareListed takes out what a manifest lists.
func (e *Engine) spareListed(ctx context.Context, left map[string]staleBlob) error {
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocBlob, "", after, blobsPageSize)
		if err != nil {
			return err
		}
		for _, d := range docs {
			after = d.Key
			var doc blobDoc
			if err := json.Unmarshal(d.Value, &doc); err != nil {
				return fmt.Errorf("blob %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			if !doc.Files {
				continue
			}
			tenant, addr, _ := strings.Cut(d.Key, "/")
			if held, err := e.held(ctx, d.Key); err != nil || !held {
				if err != nil {
					return err
				}
				continue
			}
			if err := e.eachFile(ctx, tenant, addr, func(f *fileset.Entry) error {
				delete(left, blobKey(tenant, f.Blob))
				return nil
			}); err != nil && !errors.Is(err, haulier.ErrNotFound) {
				return err
			}
		}
		if len(docs) < blobsPageSize {
			return nil
		}
	}
}

// held reports whether somebody refers to a blob.
func (e *Engine) held(ctx context.Context, key string) (bool, error) {
	refs, err := e.store.Docs(ctx, haulier.DocBlobRef, key+"/", "", 1)
	return len(refs) > 0, err
}

// eachFile calls f for each entry of a manifest that has content.
func (e *Engine) eachFile(ctx context.Context, tenant, manifest string, f func(*fileset.Entry) error) error {
	content, err := e.readBlob(ctx, tenant, manifest)
	if err != nil {
		return err
	}
	return fileset.Read(bytes.NewReader(content), func(entry *fileset.Entry) error {
		if entry.Blob == "" {
			return nil
		}
		return f(entry)
	})
}

// removeStrays removes old objects that no document names.
func (e *Engine) removeStrays(ctx context.Context) error {
	return e.blobs.Each(ctx, time.Now().Add(-strayAge), func(object string) error {
		tenant, rest, ok := strings.Cut(object, "/")
		name := rest[strings.LastIndexByte(rest, '/')+1:]
		addr, _, marked := strings.Cut(name, ".")
		if !ok || !marked || checkAddress(tenant, addr) != nil {
			return nil // not ours
		}
		doc, rev, err := e.blobDoc(ctx, blobKey(tenant, addr))
		if err != nil || rev != 0 && doc.Object == object {
			return err
		}
		return e.blobs.Delete(ctx, object)
	})
}

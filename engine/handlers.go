package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/haulier/haulier"
)

// The kinds of document of handlers.
const (
	DocHandler     haulier.DocKind = "handler"     // key: tenant/type; the newest version, without its scripts
	DocHandlerText haulier.DocKind = "handlertext" // key: tenant/type/version; a version with its scripts
)

// handlerText is the document of a version. Its scripts are bytes, so that what JSON would escape does not swell.
type handlerText struct {
	haulier.Handler
	Texts [4][]byte `json:"texts"` // body, before, before each, after each
}

func textOf(h haulier.Handler) handlerText {
	t := handlerText{Handler: h, Texts: [4][]byte{[]byte(h.Body), []byte(h.Before), []byte(h.BeforeEach), []byte(h.AfterEach)}}
	t.Scripts = haulier.Scripts{}
	return t
}

func (t *handlerText) handler() haulier.Handler {
	h := t.Handler
	h.Scripts = haulier.Scripts{Body: string(t.Texts[0]), Before: string(t.Texts[1]), BeforeEach: string(t.Texts[2]), AfterEach: string(t.Texts[3])}
	return h
}

func handlerKey(tenant, typ string) string { return tenant + "/" + typ }

func versionKey(h *haulier.Handler, version int) string {
	return fmt.Sprintf("%s/%s/%08d", h.Tenant, h.Type, version)
}

// handlers is the view of the newest handlers, by tenant and type. It costs nothing when there are none.
type handlers struct {
	loading sync.Mutex
	set     atomic.Pointer[map[string]haulier.Handler]
}

// of is the handler of a lane's jobs; nil: there is none, or they need none.
func (h *handlers) of(l haulier.Lane) *haulier.Handler {
	if k, ok := (*h.set.Load())[handlerKey(l.Tenant, l.Type)]; ok && l.Kind == haulier.KindScript {
		return &k
	}
	return nil
}

// fit reports whether a session can run a lane's jobs, as far as handlers go.
func (h *handlers) fit(s *haulier.Session, l haulier.Lane) bool {
	if l.Kind != haulier.KindScript {
		return true
	}
	k := h.of(l)
	return k != nil && has(s.Languages, k.Lang)
}

// mark tells the worker of claimed jobs by which version of their handler they run.
func (h *handlers) mark(jobs []haulier.Job) {
	for i := range jobs {
		h.tell(&jobs[i].Spec)
	}
}

// tell puts the version into a job of kind script.
func (h *handlers) tell(s *haulier.Spec) {
	if s.Task.Script == nil {
		return
	}
	t := haulier.ScriptTask{} // what the store gave may be its own
	if k := h.of(s.Lane()); k != nil {
		t.Version, t.Digest = k.Version, k.Digest
	}
	s.Task.Script = &t
}

// loadHandlers reads all handlers. One reads at a time, so that the view never goes back.
func (e *Engine) loadHandlers(ctx context.Context) error {
	e.handlers.loading.Lock()
	defer e.handlers.loading.Unlock()
	seen := map[string]haulier.Handler{}
	err := e.eachHandler(ctx, "", func(h haulier.Handler) { seen[handlerKey(h.Tenant, h.Type)] = h })
	if err != nil {
		return err
	}
	old := e.handlers.set.Swap(&seen)
	for key := range seen {
		if seen[key].Digest != (*old)[key].Digest {
			e.sched.wakeAll() // jobs may have waited for it
			break
		}
	}
	return nil
}

func (e *Engine) eachHandler(ctx context.Context, prefix string, f func(haulier.Handler)) error {
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocHandler, prefix, after, 500)
		if err != nil {
			return fmt.Errorf("handlers: %w", err)
		}
		if len(docs) == 0 {
			return nil
		}
		for i := range docs {
			after = docs[i].Key
			h, err := parseHandler(&docs[i])
			if err != nil {
				return err
			}
			f(h)
		}
	}
}

func parseHandler(d *haulier.Doc) (h haulier.Handler, err error) {
	if err := json.Unmarshal(d.Value, &h); err != nil {
		return h, fmt.Errorf("handler %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	return h, nil
}

// handlerDoc reads the newest version of a handler, without its scripts; revision 0: there is none.
func (e *Engine) handlerDoc(ctx context.Context, tenant, typ string) (haulier.Handler, uint64, error) {
	d, err := e.store.Doc(ctx, DocHandler, handlerKey(tenant, typ))
	if errors.Is(err, haulier.ErrNotFound) {
		return haulier.Handler{}, 0, nil
	}
	if err != nil {
		return haulier.Handler{}, 0, fmt.Errorf("handler %s: %w", typ, err)
	}
	h, err := parseHandler(&d)
	return h, d.Rev, err
}

func noHandler(tenant, typ string) error {
	return fmt.Errorf("handler %s: %w: `haulier handlers list` shows those of tenant %s", typ, haulier.ErrNotFound, tenant)
}

// handlerDigest is the same for handlers that do the same.
func handlerDigest(h *haulier.Handler) string {
	sum := sha256.New()
	for _, s := range []string{h.Lang, h.Engine, h.Body, h.Before, h.BeforeEach, h.AfterEach} {
		fmt.Fprintf(sum, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// SetHandler implements haulier.Handlers.
func (e *Engine) SetHandler(ctx context.Context, h haulier.Handler, by string) (haulier.Handler, error) {
	h = haulier.Handler{Tenant: tenantOr(h.Tenant), Type: h.Type, Lang: h.Lang, Engine: h.Engine, Scripts: h.Scripts}
	if err := checkHandler(&h); err != nil {
		return h, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return h, err
	}
	h.Digest, h.SetAt, h.SetBy = handlerDigest(&h), now.UTC().Truncate(time.Second), by
	for range conflictTries {
		newest, rev, err := e.handlerDoc(ctx, h.Tenant, h.Type)
		if err != nil {
			return h, err
		}
		if newest.Digest == h.Digest {
			return newest, nil
		}
		h.Version = newest.Version + 1
		err = e.putHandler(ctx, h, rev)
		if err == nil {
			h.Scripts = haulier.Scripts{}
			return h, e.loadHandlers(ctx)
		}
		if !errors.Is(err, haulier.ErrConflict) {
			return h, err
		}
	}
	return h, fmt.Errorf("handler %s: %w: others keep changing it; try again", h.Type, haulier.ErrConflict)
}

// putHandler writes a version, and lets go of the one that is too old.
func (e *Engine) putHandler(ctx context.Context, h haulier.Handler, rev uint64) error {
	text, err := json.Marshal(textOf(h))
	if err != nil {
		return err
	}
	head := h
	head.Scripts = haulier.Scripts{}
	value, err := json.Marshal(head)
	if err != nil {
		return err
	}
	docs := []haulier.DocWrite{
		{Kind: DocHandler, Key: handlerKey(h.Tenant, h.Type), Expect: rev, Value: value},
		{Kind: DocHandlerText, Key: versionKey(&h, h.Version), Expect: haulier.AnyRev, Value: text},
	}
	if old := h.Version - haulier.MaxHandlerVersions; old > 0 {
		docs = append(docs, haulier.DocWrite{Kind: DocHandlerText, Key: versionKey(&h, old), Expect: haulier.AnyRev})
	}
	if err := e.store.Commit(ctx, &haulier.Batch{Docs: docs, Sync: true, Tell: true}); err != nil {
		return fmt.Errorf("handler %s: %w", h.Type, err)
	}
	return nil
}

func checkHandler(h *haulier.Handler) error {
	size := 0
	for _, s := range []struct{ field, text string }{{"body", h.Body}, {"before", h.Before}, {"before_each", h.BeforeEach}, {"after_each", h.AfterEach}} {
		size += len(s.text)
		if !utf8.ValidString(s.text) {
			return field(s.field, "is not UTF-8 text")
		}
	}
	switch {
	case strings.TrimSpace(h.Body) == "":
		return field("body", "is empty: give the script that runs a job")
	case size > haulier.MaxHandlerSource:
		return &haulier.FieldError{Field: "body", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf(
			"has %d bytes with before, before_each and after_each: at most %d; install what is larger on the workers", size, haulier.MaxHandlerSource)}
	}
	return first(
		func() error { return checkName("tenant", h.Tenant) },
		func() error { return checkName("type", h.Type) },
		func() error { return checkName("lang", h.Lang) },
		func() error { return optional("eid", h.Engine) },
	)
}

// Handlers implements haulier.Handlers.
func (e *Engine) Handlers(ctx context.Context, tenant string) ([]haulier.Handler, error) {
	tenant = tenantOr(tenant)
	bands, err := e.store.Bands(ctx)
	if err != nil {
		return nil, fmt.Errorf("handlers: %w", err)
	}
	waiting := map[string]int64{}
	for _, b := range bands {
		if b.Lane.Kind == haulier.KindScript && b.Lane.Tenant == tenant {
			waiting[b.Lane.Type] += b.N
		}
	}
	var out []haulier.Handler
	if err := e.eachHandler(ctx, tenant+"/", func(h haulier.Handler) {
		h.Waiting = waiting[h.Type]
		delete(waiting, h.Type)
		out = append(out, h)
	}); err != nil {
		return nil, err
	}
	for typ, n := range waiting {
		if n > 0 {
			out = append(out, haulier.Handler{Tenant: tenant, Type: typ, Waiting: n})
		}
	}
	slices.SortFunc(out, func(a, b haulier.Handler) int { return strings.Compare(a.Type, b.Type) })
	return out, nil
}

// Handler implements haulier.Handlers.
func (e *Engine) Handler(ctx context.Context, tenant, typ string, version int) (haulier.Handler, error) {
	tenant = tenantOr(tenant)
	h, rev, err := e.handlerDoc(ctx, tenant, typ)
	if err != nil {
		return h, err
	}
	if rev == 0 {
		return h, noHandler(tenant, typ)
	}
	if version == 0 {
		version = h.Version
	}
	d, err := e.store.Doc(ctx, DocHandlerText, versionKey(&h, version))
	if err != nil {
		return haulier.Handler{}, fmt.Errorf("handler %s, version %d: %w: `haulier handlers versions %s` shows those that are kept", typ, version, err, typ)
	}
	var t handlerText
	if err := json.Unmarshal(d.Value, &t); err != nil {
		return haulier.Handler{}, fmt.Errorf("handler %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	return t.handler(), nil
}

// HandlerVersions implements haulier.Handlers.
func (e *Engine) HandlerVersions(ctx context.Context, tenant, typ string) ([]haulier.Handler, error) {
	tenant = tenantOr(tenant)
	var out []haulier.Handler
	prefix := handlerKey(tenant, typ) + "/"
	for after := prefix; ; {
		docs, err := e.store.Docs(ctx, DocHandlerText, prefix, after, 10) // they are large
		if err != nil {
			return nil, fmt.Errorf("handler %s: %w", typ, err)
		}
		if len(docs) == 0 {
			break
		}
		for i := range docs {
			after = docs[i].Key
			h, err := parseHandler(&docs[i])
			if err != nil {
				return nil, err
			}
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		return nil, noHandler(tenant, typ)
	}
	slices.Reverse(out)
	return out, nil
}

// RollbackHandler implements haulier.Handlers.
func (e *Engine) RollbackHandler(ctx context.Context, tenant, typ string, version int, by string) (haulier.Handler, error) {
	if version == 0 {
		newest, rev, err := e.handlerDoc(ctx, tenantOr(tenant), typ)
		switch {
		case err != nil:
			return haulier.Handler{}, err
		case rev == 0:
			return haulier.Handler{}, noHandler(tenantOr(tenant), typ)
		case newest.Version == 1:
			return haulier.Handler{}, field("version", "is missing: the handler has no other")
		}
		version = newest.Version - 1
	}
	h, err := e.Handler(ctx, tenant, typ, version)
	if err != nil {
		return haulier.Handler{}, err
	}
	return e.SetHandler(ctx, h, by)
}

// DeleteHandler implements haulier.Handlers.
func (e *Engine) DeleteHandler(ctx context.Context, tenant, typ string) error {
	h, rev, err := e.handlerDoc(ctx, tenantOr(tenant), typ)
	if err != nil {
		return err
	}
	if rev == 0 {
		return noHandler(tenantOr(tenant), typ)
	}
	// The scripts first: without the other, nobody would find them.
	if err := e.removeDocs(ctx, DocHandlerText, handlerKey(h.Tenant, typ)+"/"); err != nil {
		return fmt.Errorf("handler %s: %w", typ, err)
	}
	w := haulier.DocWrite{Kind: DocHandler, Key: handlerKey(h.Tenant, typ), Expect: rev}
	if err := e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true, Tell: true}); err != nil {
		return fmt.Errorf("handler %s: %w", typ, err)
	}
	return e.loadHandlers(ctx)
}

// expireUnhandled ends jobs that have waited for a handler until their deadline. No claim comes to them, which would find that out.
func (e *Engine) expireUnhandled(ctx context.Context) error {
	bands, err := e.store.Bands(ctx)
	if err != nil {
		return fmt.Errorf("jobs without a handler: %w", err)
	}
	seen := map[haulier.Lane]bool{}
	for _, b := range bands {
		if b.Lane.Kind != haulier.KindScript || b.N <= 0 || seen[b.Lane] || e.handlers.of(b.Lane) != nil {
			continue
		}
		seen[b.Lane] = true
		if err := e.expireLane(ctx, b.Lane); err != nil {
			return fmt.Errorf("jobs without a handler: %w", err)
		}
	}
	return nil
}

func (e *Engine) expireLane(ctx context.Context, lane haulier.Lane) error {
	for cursor := ""; ; {
		page, err := e.store.List(ctx, haulier.Query{State: haulier.Pending, Lanes: []haulier.Lane{lane}, Cursor: cursor, Limit: pageSize})
		if err != nil {
			return err
		}
		now, err := e.now(ctx)
		if err != nil {
			return err
		}
		over := slices.DeleteFunc(page.Jobs, func(j *haulier.Job) bool { return j.RetryUntil.IsZero() || now.Before(j.RetryUntil) })
		if _, err := e.applyEach(ctx, over, func(*haulier.Job) haulier.Event {
			return haulier.Event{Kind: haulier.EventExpire, Error: "there was no handler for type " + lane.Type, By: "deadline"}
		}, false); err != nil {
			return err
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

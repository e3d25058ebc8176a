package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/fileset"
	"github.com/haulier/haulier/store/mem"
)

// TestLargePayloadsComeWhileOthersGo enqueues several requests with large payloads in one call, again
// and again, while others are removed: neither may wait for the other for ever.
func TestLargePayloadsComeWhileOthersGo(t *testing.T) {
	store := mem.New()
	defer store.Close()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	e, err := engine.New(engine.Config{Store: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for round := range 50 {
				if err := comeAndGo(t, e, fmt.Sprint(w, round)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func comeAndGo(t *testing.T, e *engine.Engine, mark string) error {
	reqs := make([]haulier.EnqueueRequest, 8)
	for i := range reqs {
		payload := append(bytes.Repeat([]byte("x"), haulier.MaxPayload), mark...)
		reqs[i].Jobs = []haulier.Spec{{Type: "large", Payload: append(payload, byte(i))}}
	}
	results, err := e.Enqueue(t.Context(), reqs)
	if err != nil {
		return err
	}
	var ids []haulier.ID
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
		ids = append(ids, r.IDs...)
	}
	if _, err := e.Cancel(t.Context(), haulier.Selection{IDs: ids}, "test", ""); err != nil {
		return err
	}
	gone, err := e.Delete(t.Context(), haulier.Selection{IDs: ids}, "test")
	if err == nil && gone.N != len(ids) {
		err = fmt.Errorf("%d of %d removed", gone.N, len(ids))
	}
	return err
}

func TestQuotaOfBlobs(t *testing.T) {
	store := mem.New()
	defer store.Close()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	e, err := engine.New(engine.Config{Store: store, Blobs: blobs, BlobQuota: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	put := func(tenant string, content []byte) error {
		return e.PutBlob(t.Context(), tenant, haulier.BlobAddress(content), bytes.NewReader(content))
	}
	first, second := bytes.Repeat([]byte("1"), 60<<10), bytes.Repeat([]byte("2"), 60<<10)
	if err := errors.Join(put("a", first), put("a", first), put("b", second)); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("3"), haulier.MaxPayload+1)
	res, err := e.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "large", Tenant: "a", Payload: large}}}})
	if err != nil || !errors.Is(res[0].Err, haulier.ErrTooLarge) {
		t.Errorf("a payload beyond the quota: %v, %v; want ErrTooLarge", res, err)
	}
	if err := put("a", second); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("a blob beyond the quota: %v, want ErrTooLarge", err)
	}
	if err := e.SweepBlobs(t.Context()); err != nil { // counts anew
		t.Fatal(err)
	}
	if err := errors.Join(put("a", first), put("a", []byte("little"))); err != nil {
		t.Errorf("within the quota: %v", err)
	}
	if err := put("a", second); !errors.Is(err, haulier.ErrTooLarge) {
		t.Errorf("after the count: %v, want ErrTooLarge", err)
	}
}

// TestFilesAreThereAsLongAsSomethingNeedsThem has two servers over one store, where filesets and payloads of few
// contents come and go while what is not needed is swept away: what is needed can be read, and in the end nothing is left.
func TestFilesAreThereAsLongAsSomethingNeedsThem(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) { newHoard(t, seed).live() })
	}
}

type hoard struct {
	t       *testing.T
	seed    uint64
	store   haulier.Store
	blobs   *blob.Store
	servers [2]*engine.Engine
	mu      sync.Mutex
	jobs    []haulier.ID
}

func newHoard(t *testing.T, seed uint64) *hoard {
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	h := &hoard{t: t, seed: seed, store: mem.New(), blobs: blobs}
	for i := range h.servers {
		if h.servers[i], err = engine.New(engine.Config{Store: h.store, Blobs: blobs}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *hoard) live() {
	defer func() {
		for _, e := range h.servers {
			e.Close()
		}
		h.store.Close()
		h.blobs.Close()
	}()
	for round := range 4 {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(h.seed, uint64(10*round+w)))
				for range 15 {
					if err := h.step(rng, h.servers[w%2]); err != nil {
						h.t.Errorf("seed %d: %v", h.seed, err)
					}
				}
			})
		}
		wg.Wait()
		h.check()
		<-time.After(time.Duration(h.seed%5) * 13 * time.Hour)
	}
	h.clear()
}

func content(n int) []byte { return bytes.Repeat([]byte(fmt.Sprint(n)), haulier.MaxPayload+1) }

func (h *hoard) step(rng *rand.Rand, e *engine.Engine) error {
	ctx := h.t.Context()
	switch rng.IntN(6) {
	case 0, 1:
		return h.push(rng, e)
	case 2:
		err := e.DeleteFileset(ctx, "default", fmt.Sprint("f", rng.IntN(3)), 0)
		if errors.Is(err, haulier.ErrNotFound) {
			err = nil
		}
		return err
	case 3:
		res, err := e.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "large", Payload: content(rng.IntN(4))}}}})
		if err == nil {
			err = res[0].Err
		}
		if err == nil {
			h.mu.Lock()
			h.jobs = append(h.jobs, res[0].IDs...)
			h.mu.Unlock()
		}
		return err
	case 4:
		return h.drop(e, 1)
	default:
		<-time.After(time.Duration(rng.IntN(16)) * time.Hour)
		return e.SweepBlobs(ctx)
	}
}

// push does as package fileset does.
func (h *hoard) push(rng *rand.Rand, e *engine.Engine) error {
	ctx := h.t.Context()
	lines, addrs := "{\"fileset\":1}\n", []string{}
	for i := range 4 {
		if rng.IntN(2) == 0 {
			a := haulier.BlobAddress(content(i))
			addrs = append(addrs, a)
			lines += fmt.Sprintf("{\"path\":\"%d\",\"mode\":\"644\",\"size\":%d,\"blob\":%q}\n", i, len(content(i)), a)
		}
	}
	missing, err := e.MissingBlobs(ctx, "default", addrs)
	if err != nil {
		return err
	}
	for i := range 4 {
		if slices.Contains(missing, haulier.BlobAddress(content(i))) {
			if err := e.PutBlob(ctx, "default", haulier.BlobAddress(content(i)), bytes.NewReader(content(i))); err != nil {
				return err
			}
		}
	}
	manifest := haulier.BlobAddress([]byte(lines))
	if err := e.PutBlob(ctx, "default", manifest, strings.NewReader(lines)); err != nil {
		return err
	}
	<-time.After(time.Duration(rng.IntN(8)) * time.Hour)
	_, err = e.AddFileset(ctx, haulier.FilesetRequest{Tenant: "default", Name: fmt.Sprint("f", rng.IntN(3)), Manifest: manifest, Keep: rng.IntN(3)})
	return err
}

func (h *hoard) drop(e *engine.Engine, n int) error {
	h.mu.Lock()
	n = min(n, len(h.jobs))
	ids := slices.Clone(h.jobs[:n])
	h.jobs = h.jobs[n:]
	h.mu.Unlock()
	if n == 0 {
		return nil
	}
	if _, err := e.Cancel(h.t.Context(), haulier.Selection{IDs: ids}, "test", ""); err != nil {
		return err
	}
	_, err := e.Delete(h.t.Context(), haulier.Selection{IDs: ids}, "test")
	return err
}

// check reads all that is needed.
func (h *hoard) check() {
	ctx, e := h.t.Context(), h.servers[0]
	read := func(what, addr string) {
		r, _, err := e.ReadBlob(ctx, "default", addr, 0, -1)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err != nil {
			h.t.Errorf("seed %d: %s: %v", h.seed, what, err)
		}
	}
	for f := range 3 {
		all, err := e.Filesets(ctx, "default", fmt.Sprint("f", f), "", 1000)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, fs := range all {
			read("manifest of "+fs.String(), fs.Manifest)
			entries, err := fileset.List(ctx, e, "default", fs.Manifest, nil)
			if err != nil {
				h.t.Errorf("seed %d: %v", h.seed, err)
			}
			for _, x := range entries {
				read(fs.String()+" "+x.Path, x.Blob)
			}
		}
	}
	jobs, err := e.Get(ctx, "default", h.jobs)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, j := range jobs {
		read("payload", j.Blob)
	}
}

// clear removes all that needs blobs: then there must be none.
func (h *hoard) clear() {
	ctx, e := h.t.Context(), h.servers[0]
	if err := h.drop(e, len(h.jobs)); err != nil {
		h.t.Fatal(err)
	}
	for f := range 3 {
		if err := e.DeleteFileset(ctx, "default", fmt.Sprint("f", f), 0); err != nil && !errors.Is(err, haulier.ErrNotFound) {
			h.t.Fatal(err)
		}
	}
	for range 2 { // manifests first, then what they listed
		<-time.After(100 * time.Hour)
		if err := e.SweepBlobs(ctx); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, kind := range []haulier.DocKind{haulier.DocBlob, haulier.DocBlobRef} {
		if docs, err := h.store.Docs(ctx, kind, "", "", 10); err != nil || len(docs) > 0 {
			h.t.Errorf("seed %d: left are %d documents of kind %s, such as %v, %v", h.seed, len(docs), kind, docs, err)
		}
	}
	err := h.blobs.Each(ctx, time.Now(), func(object string) error { return errors.New(object + " is left") })
	if err != nil {
		h.t.Errorf("seed %d: %v", h.seed, err)
	}
}

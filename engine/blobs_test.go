package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
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

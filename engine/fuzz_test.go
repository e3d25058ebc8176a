package engine_test

import (
	"errors"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
)

func fuzzed(f *testing.F) *engine.Engine {
	f.Helper()
	blobs, err := blob.Open(f.Context(), "mem://")
	if err != nil {
		f.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: mem.New(), Blobs: blobs})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close(); blobs.Close() })
	return e
}

// FuzzCursor: what comes as a cursor is a place in a listing or an ErrInvalid.
func FuzzCursor(f *testing.F) {
	e := fuzzed(f)
	jobs := make([]haulier.Spec, 5)
	for i := range jobs {
		jobs[i].Type = "t"
	}
	if _, err := e.Enqueue(f.Context(), []haulier.EnqueueRequest{{Jobs: jobs}}); err != nil {
		f.Fatal(err)
	}
	filter := haulier.Filter{States: []haulier.State{haulier.Pending}}
	page, err := e.List(f.Context(), filter, "", 2)
	if err != nil || page.Next == "" {
		f.Fatal(err, page.Next)
	}
	f.Add(page.Next)
	f.Add("e30")
	f.Add("%%%")
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, filter := range []haulier.Filter{{}, filter} {
			if _, err := e.List(t.Context(), filter, cursor, 2); err != nil && !errors.Is(err, haulier.ErrInvalid) {
				t.Fatalf("cursor %q: %v", cursor, err)
			}
		}
	})
}

// FuzzSecret: nothing but a secret that was handed out lets anybody in.
func FuzzSecret(f *testing.F) {
	e := fuzzed(f)
	_, secret, err := e.CreateToken(f.Context(), haulier.Token{Name: "n", Role: haulier.RoleViewer})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(secret[:40])
	f.Add("hlr_")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := e.Authenticate(t.Context(), s); s != secret && !errors.Is(err, haulier.ErrUnauthenticated) {
			t.Fatalf("secret %q: %v", s, err)
		}
	})
}

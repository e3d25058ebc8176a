package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var closeTests = []test{
	{"a closed store is unavailable", testClosed},
	{"close waits for the calls under way", testCloseWaits},
	{"a new store has lost no claims", testOpened},
}

func testClosed(t *testing.T, f *fixture) {
	session := f.session(time.Hour)
	f.insert(f.job(mail))
	f.must(f.s.Close())
	ctx := t.Context()
	calls := map[string]func() error{
		"Commit": func() error { return f.s.Commit(ctx, &haulier.Batch{Insert: []haulier.Job{f.job(mail)}}) },
		"Claim": func() error {
			_, err := f.s.Claim(ctx, session, "w", []haulier.Take{take(mail, 0, 1)})
			return err
		},
		"Bands":  func() error { _, err := f.s.Bands(ctx); return err },
		"Due":    func() error { _, err := f.s.Due(ctx, 1); return err },
		"Jobs":   func() error { _, err := f.s.Jobs(ctx, []haulier.ID{session}); return err },
		"List":   func() error { _, err := f.s.List(ctx, haulier.Query{Limit: 1}); return err },
		"Counts": func() error { _, err := f.s.Counts(ctx); return err },
		"Doc":    func() error { _, err := f.s.Doc(ctx, "other", "k"); return err },
		"Docs":   func() error { _, err := f.s.Docs(ctx, "other", "", "", 1); return err },
		"Renew":  func() error { return f.s.Renew(ctx, session, time.Hour) },
		"Now":    func() error { _, err := f.s.Now(ctx); return err },
	}
	for method, call := range calls {
		if err := call(); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("%s of a closed store: %v, want ErrUnavailable", method, err)
		}
	}
	f.s.Watch(ctx, func([]haulier.JobChange) {})
}

func testCloseWaits(t *testing.T, f *fixture) {
	session := f.session(time.Hour)
	f.closeUnder(t.Context(), session)
}

// closeUnder closes the store while clients use it, and returns which inserts were acknowledged.
func (f *fixture) closeUnder(ctx context.Context, session haulier.ID) map[haulier.ID]bool {
	f.t.Helper()
	var mu sync.Mutex
	acknowledged := map[haulier.ID]bool{}
	working := make(chan struct{}, 100)
	var wg sync.WaitGroup
	for client := range 6 {
		wg.Go(func() {
			for {
				j := f.job(mail)
				err := f.s.Commit(ctx, &haulier.Batch{Insert: []haulier.Job{j}, Sync: client%2 == 0})
				if err == nil {
					mu.Lock()
					acknowledged[j.ID] = true
					mu.Unlock()
					_, err = f.s.Claim(ctx, session, "w", []haulier.Take{take(mail, 0, 1)})
				}
				if err == nil {
					_, err = f.s.List(ctx, haulier.Query{Limit: 10})
				}
				if errors.Is(err, haulier.ErrUnavailable) {
					return
				}
				if err != nil {
					f.t.Errorf("while the store closes: %v, want ErrUnavailable", err)
					return
				}
				select {
				case working <- struct{}{}:
				default:
				}
			}
		})
	}
	gone := make(chan struct{})
	go func() {
		wg.Wait()
		close(gone)
	}()
	for range 12 {
		select {
		case <-working:
		case <-gone:
			f.t.Fatalf("all clients gave up")
		}
	}
	f.must(f.s.Close())
	<-gone
	return acknowledged
}

func testOpened(_ *testing.T, f *fixture) {
	if f.s.Opened().ClaimsLost {
		f.t.Fatalf("it says that claims were lost")
	}
}

package e2e_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/services"
)

// TestTheStoreGoesAway cuts a server off from its store for longer than a lease: the server stays and says that it can't work now, the
// worker keeps its command running, and all goes on when the store is back.
func TestTheStoreGoesAway(t *testing.T) {
	for name, open := range sharedStores {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			s := newSite(t)
			k := services.NewLink(t, store.network, store.addr)
			s.serve("--store", store.url(k.Addr()))
			s.ready(ctx)
			w := s.work("w", "--lease", "30s")
			id := s.enqueue(ctx, s.shell("echo begun; sleep 12; echo done"))
			s.await(ctx, "it runs", func() bool { return s.job(ctx, id).State == haulier.Running })
			k.Set(services.LinkDown)
			s.await(ctx, "the server says that it is not ready", func() bool { return !s.isReady(ctx) })
			s.await(ctx, "it answers 503 and when to come again", func() bool {
				q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/jobs", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := http.DefaultClient.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				return res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") != ""
			})
			pause(ctx, 8*time.Second)
			if s.server.ended() || w.ended() {
				t.Fatalf("server or worker ended:\n%s\n%s", tail(s.server.output(t)), tail(w.output(t)))
			}
			k.Set(services.LinkUp)
			s.await(ctx, "the server is ready again", func() bool { return s.isReady(ctx) })
			done, err := s.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{id})
			if err != nil || done[0].State != haulier.Succeeded || done[0].Attempt != 1 {
				t.Fatalf("the job that ran meanwhile: %+v, %v", done, err)
			}
			after, err := s.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{s.enqueue(ctx, s.shell("true"))})
			if err != nil || after[0].State != haulier.Succeeded {
				t.Fatalf("a job afterwards: %+v, %v", after, err)
			}
		})
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

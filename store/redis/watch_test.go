package redis_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
)

// listener keeps what a store tells.
type listener struct {
	mu      sync.Mutex
	changes []haulier.JobChange
}

func listen(t *testing.T, s haulier.Store) *listener {
	l := &listener{}
	s.Watch(t.Context(), func(changes []haulier.JobChange) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changes = append(l.changes, changes...)
	})
	return l
}

// story is what was told, as text.
func (l *listener) story() (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.changes {
		lines = append(lines, fmt.Sprintf("%v %v %v %d %v %s", c.Spec.ID, c.Before, c.Status.State, c.Status.Rev, c.Status.Session, c.Spec.Lane()))
	}
	return lines
}

// TestWatchOfOthers lets servers work at the same time over one Redis, whose connections break now and then. All
// must hear of the same changes in the same order.
func TestWatchOfOthers(t *testing.T) {
	server := services.StartRedis(t, t.TempDir(), "--save", "", "--appendfsync", "no")
	var stores []*redis.Store
	var heard []*listener
	for range 3 {
		s := open(t, server.URL(""), redis.Options{})
		stores, heard = append(stores, s), append(heard, listen(t, s))
	}
	var wg sync.WaitGroup
	for _, s := range stores {
		session := newSession(t, s)
		for range 3 {
			wg.Go(func() {
				for range 60 {
					_ = s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1 + int(time.Now().UnixNano()%70))}) // it may meet a cut
					jobs, _ := s.Claim(t.Context(), session, "a worker", []haulier.Take{{Band: benchBand, N: 20}})
					var b haulier.Batch
					for i := range jobs {
						b.Update = append(b.Update, finish(t, &jobs[i]))
					}
					if s.Commit(t.Context(), &b) != nil || len(jobs) == 0 {
						continue
					}
					_ = s.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: jobs[0].ID, Expect: b.Update[0].Status.Rev}}})
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for cutting := true; cutting; {
		select {
		case <-done:
			cutting = false
		case <-time.After(100 * time.Millisecond):
			server.Command(t, "CLIENT", "KILL", "TYPE", "normal")
		}
	}
	last := newJobs(1)
	if err := stores[0].Commit(t.Context(), &haulier.Batch{Insert: last}); err != nil {
		t.Fatal(err)
	}
	for _, l := range heard {
		eventually(t, "the last change was heard of", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.changes) > 0 && l.changes[len(l.changes)-1].Spec.ID == last[0].ID
		})
	}
	first := heard[0].story()
	for i, l := range heard[1:] {
		if story := l.story(); fmt.Sprint(story) != fmt.Sprint(first) {
			t.Fatalf("server %d heard of %d changes, server 0 of %d, or in another order", i+1, len(story), len(first))
		}
	}
	revisions(t, heard[0])
	t.Logf("%d changes", len(first))
}

// revisions checks that those of each job follow one another.
func revisions(t *testing.T, l *listener) {
	t.Helper()
	at := map[haulier.ID]haulier.Status{}
	for _, c := range l.changes {
		before := at[c.Spec.ID]
		if before.State != c.Before || c.Status.State != 0 && c.Status.Rev != before.Rev+1 {
			t.Fatalf("job %v was heard of as %v at %d, then from %v at %d", c.Spec.ID, before.State, before.Rev, c.Before, c.Status.Rev)
		}
		at[c.Spec.ID] = c.Status
	}
}

// TestWatchTellsAllButBytes compares what other servers hear with what the one that did it hears.
func TestWatchTellsAllButBytes(t *testing.T) {
	url := services.Redis(t).URL(freshPrefix())
	a, b := open(t, url, redis.Options{}), open(t, url, redis.Options{})
	near, far := listen(t, a), listen(t, b)
	session := newSession(t, a)
	jobs := newJobs(120) // more than an entry of the stream has
	if err := a.Commit(t.Context(), &haulier.Batch{Insert: jobs}); err != nil {
		t.Fatal(err)
	}
	claimed, err := a.Claim(t.Context(), session, "a worker's name", []haulier.Take{{Band: benchBand, N: 60}})
	if err != nil {
		t.Fatal(err)
	}
	u := finish(t, &claimed[0])
	u.Status.Result = []byte("result")
	if err := a.Commit(t.Context(), &haulier.Batch{Update: []haulier.JobUpdate{u}, Delete: []haulier.JobDelete{{ID: claimed[1].ID, Expect: 2}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all was heard of", func() bool { return len(far.story()) == 120+60+2 })
	for i, c := range near.changes {
		spec := *c.Spec
		if len(spec.Payload) == 0 {
			t.Fatal("the server that makes a change hears of no payload")
		}
		spec.Payload, c.Status.Result = nil, nil
		if want, got := text(t, spec, c.Status), text(t, *far.changes[i].Spec, far.changes[i].Status); want != got {
			t.Fatalf("the other server heard of\n%s\nwant\n%s", got, want)
		}
	}
}

func text(t *testing.T, spec haulier.Spec, status haulier.Status) string {
	t.Helper()
	b, err := haulier.Job{Spec: spec, Status: status}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLostAnswer cuts connections between a commit and its answer.
func TestLostAnswer(t *testing.T) {
	server := services.Redis(t)
	p := newProxy(t, &proxy{}, server.Addr)
	s := open(t, "redis://"+p.addr+"/0?"+freshPrefix(), redis.Options{})
	l := listen(t, s)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}); err != nil { // which makes the script known
		t.Fatal(err)
	}
	for range 20 {
		jobs := newJobs(2)
		b := haulier.Batch{Insert: jobs, Docs: []haulier.DocWrite{{Kind: "other", Key: jobs[0].ID.String(), Value: []byte("x")}}}
		p.armed.Store(true)
		err := s.Commit(t.Context(), &b)
		if !errors.Is(err, haulier.ErrUnavailable) || errors.Is(err, haulier.ErrConflict) {
			t.Fatalf("error is %v, want ErrUnavailable", err)
		}
		eventually(t, "the change is heard of nevertheless", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.changes) > 1 && l.changes[len(l.changes)-1].Spec.ID == jobs[1].ID
		})
		if err := s.Commit(t.Context(), &b); !errors.Is(err, haulier.ErrConflict) {
			t.Fatalf("the repeated commit: %v, want ErrConflict", err)
		}
	}
	revisions(t, l)
}

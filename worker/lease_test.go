package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/worker"
)

// silent is a server in made time that gives one job, and whose renewals a test answers.
type silent struct {
	haulier.Consumer
	renew func(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error)

	mu       sync.Mutex
	given    bool
	opened   int
	renewals []time.Time
	reports  []haulier.Report
	refuse   error         // of reports and claims
	late     time.Duration // that the job takes to the worker
}

func (s *silent) OpenSession(_ context.Context, in haulier.Session) (haulier.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	in.ID = haulier.NewID(time.Now())
	return in, nil
}

func (s *silent) Renew(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
	s.mu.Lock()
	s.renewals = append(s.renewals, time.Now())
	s.mu.Unlock()
	return s.renew(ctx, r)
}

// held answers after the wait, as a server does that has nothing to tell.
func held(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
	select {
	case <-time.After(r.Wait):
		return haulier.RenewReply{Epoch: "e"}, nil
	case <-ctx.Done():
		return haulier.RenewReply{}, ctx.Err()
	}
}

func (s *silent) CloseSession(context.Context, haulier.ID) error { return nil }

func (s *silent) Claim(ctx context.Context, r haulier.ClaimRequest) ([]haulier.Job, error) {
	s.mu.Lock()
	given, refuse := s.given, s.refuse
	s.given = true
	s.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	if given {
		select {
		case <-time.After(r.Wait):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	<-time.After(s.late)
	j := haulier.Job{Spec: haulier.Spec{ID: haulier.NewID(time.Now()), Type: "job"}}
	j.Attempt = 1
	return []haulier.Job{j}, nil
}

func (s *silent) Report(_ context.Context, _ haulier.ID, reports []haulier.Report) ([]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.reports = append(s.reports, reports...)
	return make([]error, len(reports)), nil
}

func (s *silent) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// kinds lists the kinds of the reports that came.
func (s *silent) kinds() []haulier.ReportKind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []haulier.ReportKind
	for _, r := range s.reports {
		out = append(out, r.Kind)
	}
	return out
}

// work runs a worker in made time whose only job notes when and why its context ended.
func work(t *testing.T, s *silent, lease time.Duration) (ended <-chan error, stop func()) {
	t.Helper()
	w, err := worker.New(worker.Config{Consumer: s, Concurrency: 1, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 2)
	haulier.Handle(w, "job", func(ctx context.Context, _ *haulier.Job, _ struct{}) error {
		<-ctx.Done()
		end <- context.Cause(ctx)
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	synctest.Wait()
	return end, func() {
		cancel()
		w.Abort()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// pass lets made time pass, and all that it sets off happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRenewalsFollowEachOtherWithoutAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{renew: held}
		begin := time.Now()
		_, stop := work(t, s, 30*time.Second)
		pass(time.Minute + time.Second)
		for i, at := range s.renewals {
			if want := time.Duration(i) * 10 * time.Second; at.Sub(begin) != want {
				t.Errorf("renewal %d after %v, want %v", i, at.Sub(begin), want)
			}
		}
		if len(s.renewals) != 7 {
			t.Errorf("%d renewals in a minute, want 7", len(s.renewals))
		}
		stop()
	})
}

func TestJobsEndWithTheLeaseByTheWorkersClock(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(context.Context, haulier.RenewRequest) (haulier.RenewReply, error)
	}{
		{"when calls are refused", func(context.Context, haulier.RenewRequest) (haulier.RenewReply, error) {
			return haulier.RenewReply{}, fmt.Errorf("%w: %w", errDown, syscall.ECONNREFUSED)
		}},
		{"when calls are never answered", func(ctx context.Context, _ haulier.RenewRequest) (haulier.RenewReply, error) {
			<-ctx.Done()
			return haulier.RenewReply{}, ctx.Err()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &silent{renew: held}
				var mu sync.Mutex
				answer := held
				s.renew = func(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
					mu.Lock()
					f := answer
					mu.Unlock()
					return f(ctx, r)
				}
				ended, stop := work(t, s, 30*time.Second)
				pass(15 * time.Second) // the second renewal was sent after 10 s
				last := time.Now().Add(-5 * time.Second)
				mu.Lock()
				answer = c.fail
				mu.Unlock()
				s.set(errDown)
				pass(5 * time.Second) // its answer still comes
				cause := <-ended
				if lived := time.Since(last); lived != 27*time.Second {
					t.Errorf("job ended %v after the last renewal was sent, want 27s, before others may run it: %v", lived, cause)
				}
				mu.Lock()
				answer = held
				mu.Unlock()
				s.set(nil)
				pass(time.Minute)
				if k := s.kinds(); len(k) != 2 || k[1] != haulier.ReportRelease || s.opened != 1 {
					t.Errorf("reports of kinds %v in %d sessions: a session that lives on hears of the job's return", k, s.opened)
				}
				stop()
			})
		})
	}
}

func TestJobThatArrivesAfterTheLeaseIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{late: 28 * time.Second}
		s.renew = func(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
			<-time.After(time.Minute) // longer than the worker listens
			return held(ctx, r)
		}
		ended, stop := work(t, s, 30*time.Second)
		pass(29 * time.Second)
		select {
		case cause := <-ended:
			t.Errorf("the job was started, and ended by %v", cause)
		default:
		}
		if k := s.kinds(); len(k) != 1 || k[0] != haulier.ReportRelease {
			t.Errorf("reports of kinds %v, want the job's return", k)
		}
		pass(2 * time.Minute)
		stop()
	})
}

func TestJobsEndBeforeTheLeaseThatABrokenConnectionShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue(t)
		o := newOutage(q)
		var mu sync.Mutex
		var story []string
		tell := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			story = append(story, what)
		}
		job := func(name string) func(haulier.Registry) {
			return func(r haulier.Registry) {
				haulier.Handle(r, "job", func(ctx context.Context, _ *haulier.Job, _ struct{}) error {
					tell(name + " begins")
					if name == "first" {
						<-ctx.Done()
						tell(name + " ends")
					}
					return ctx.Err()
				})
			}
		}
		start(t, worker.Config{Consumer: o, Name: "first", Concurrency: 1, Lease: 30 * time.Second}, job("first"))
		id := enqueue(t, q, haulier.Spec{Type: "job"})[0]
		synctest.Wait()
		start(t, worker.Config{Consumer: q, Name: "second", Concurrency: 1, Lease: 30 * time.Second}, job("second"))
		pass(15 * time.Second)
		o.set(true)
		broke := time.Now()
		if j := end(t, q, id)[0]; j.State != haulier.Succeeded || j.Attempt != 2 {
			t.Errorf("got %+v", j.Status)
		}
		if took := time.Since(broke); took > 11*time.Second {
			t.Errorf("the job ran elsewhere after %v, want within a third of the lease", took)
		}
		if want := []string{"first begins", "first ends", "second begins"}; !slices.Equal(story, want) {
			t.Errorf("%q, want %q", story, want)
		}
		o.set(false)
	})
}

func TestLostSessionIsFollowedByANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{}
		first := true
		s.renew = func(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
			if first {
				first = false
				<-time.After(r.Wait)
				return haulier.RenewReply{}, haulier.ErrLeaseLost
			}
			return held(ctx, r)
		}
		ended, stop := work(t, s, 30*time.Second)
		if cause := <-ended; !errors.Is(cause, haulier.ErrLeaseLost) {
			t.Errorf("job ended by %v", cause)
		}
		synctest.Wait()
		if k := s.kinds(); len(k) != 1 || s.opened != 2 {
			t.Errorf("reports of kinds %v in %d sessions: nothing is said of a lost job", k, s.opened)
		}
		stop()
	})
}

func TestServerThatAsksIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{}
		told := make(chan haulier.RenewRequest, 1)
		n := 0
		s.renew = func(ctx context.Context, r haulier.RenewRequest) (haulier.RenewReply, error) {
			if len(r.Held) > 0 {
				told <- r
				return haulier.RenewReply{Epoch: "new", Lost: r.Held}, nil
			}
			if n++; n == 2 {
				return haulier.RenewReply{Epoch: "new", Resend: true}, nil
			}
			return held(ctx, r)
		}
		begin := time.Now()
		ended, stop := work(t, s, 30*time.Second)
		r := <-told
		if after := time.Since(begin); after != 10*time.Second || len(r.Held) != 1 || r.Epoch != "new" {
			t.Errorf("told %+v after %v, want at the renewal that asked", r, after)
		}
		if cause := <-ended; !errors.Is(cause, haulier.ErrLeaseLost) {
			t.Errorf("what the server called lost ended by %v", cause)
		}
		stop()
	})
}

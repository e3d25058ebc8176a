package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var commitTests = []test{
	{"what was committed comes back in full", testRoundTrip},
	{"payload and result keep their bytes up to the limit", testLargePayload},
	{"jobs come in the order of their ids, and unknown ones are nil", testJobs},
	{"a batch of all kinds of writes happens together", testWholeBatch},
	{"a conflict leaves nothing behind", testConflictLeavesNothing},
	{"an insert with a known id is a conflict when ids are checked", testCheckIDs},
	{"an update or removal holds only for the expected revision", testJobRevisions},
	{"of concurrent updates of one revision one is made", testOneUpdateWins},
	{"an update changes the status alone", testUpdateKeepsSpec},
	{"an update may raise the revision by several", testUpdateSkips},
	{"a removed job is gone from everywhere", testRemoved},
	{"an empty batch changes nothing", testEmptyBatch},
	{"a synced commit is visible like any other", testSync},
	{"a batch holds as many jobs as an enqueue may", testLargeBatch},
	{"the clock does not go back", testClock},
}

// fullJob has every field set, so that each must come back.
func fullJob(f *fixture) haulier.Job {
	return haulier.Job{
		Spec: haulier.Spec{
			ID: haulier.NewID(f.now), Tenant: "größe", Queue: "a.b-c_d", Type: "send:mail", Priority: -3,
			Task: haulier.Task{Exec: &haulier.ExecTask{
				Argv: []string{"sh", "", "-c", "echo \"ü\""}, Shell: true, Env: map[string]string{"A": "1", "B": ""},
				Dir: "/tmp", Grace: haulier.Duration(1500 * time.Millisecond),
				Limits: &haulier.Limits{Memory: 1 << 40, CPU: haulier.Duration(time.Second), Processes: 3, FileSize: 4, OpenFiles: 5},
			}},
			Payload: []byte{0, 1, 0xff, '{'}, Blob: "sha256", CreatedAt: f.now, RunAt: f.at(time.Hour + time.Microsecond), MaxAttempts: 7,
			Backoff: &haulier.Backoff{
				Constant: haulier.Duration(time.Second), List: []haulier.Duration{1, 2}, Base: 3, Max: 4, NoJitter: true,
			},
			RetryUntil: f.at(240 * time.Hour), Timeout: haulier.Duration(time.Minute), Labels: map[string]string{"k": "v", "empty": ""},
			RunsOn:    map[string]string{"gpu": "true", "arch": "arm64"},
			Retention: haulier.Duration(time.Hour), Group: "g", Parent: haulier.NewID(f.now),
			Files: &haulier.Files{
				Inputs:  []haulier.Input{{Fileset: "f", From: "a", Patterns: []string{"*"}, To: "t"}},
				Outputs: &haulier.Output{Fileset: "o", Patterns: []string{"p"}, On: haulier.OnFailed, Keep: 2},
			},
			Flow: &haulier.Flow{
				Ref: "r", Needs: []haulier.Need{{Job: haulier.NewID(f.now), Ref: "a", On: haulier.OnFinished}}, Holds: []string{"h"},
				YieldsTo: []haulier.Yield{{Key: "y", Below: 3, For: haulier.Duration(time.Minute)}},
				Unique:   &haulier.Unique{Key: "u", Fields: []string{"f"}, Scope: haulier.UniquePeriod, For: 7, Duplicate: haulier.DuplicateReject},
				Collapse: "c", Limits: []string{"l"}, Then: "t", Signal: "s", Windows: []string{"w"}, Force: true, Chain: true, Memo: &haulier.Memo{MaxAge: 9, Fresh: true}, Batch: haulier.ID{9}, Notify: []haulier.Notify{{URL: "http://n", On: haulier.OnFailed, Secret: "k"}},
			},
		},
		Status: haulier.Status{
			Rev: 77, State: haulier.Failed, RunAt: f.at(time.Microsecond), Attempt: 4, Spared: 2, Crashes: 1,
			Session: haulier.NewID(f.now), Worker: "w", Cancelling: true, Percent: 12.5, Step: "step", Outcome: haulier.OutcomeFailed,
			Code: -9, Error: "e", Reason: "r", Result: []byte{0xfe, 0}, OutputVersion: 3, ResultBlob: "whole", LogBlob: "log", LogSize: 1 << 40,
			Account:   &haulier.Account{CPU: 1, MaxMemory: 2, Read: 3, Written: 4, Received: 5, Sent: 6, Container: []byte(`{"Id":"c"}`)},
			UpdatedAt: f.at(1), StartedAt: f.at(2 * time.Microsecond), FinishedAt: f.at(3 * time.Microsecond), PurgeAt: f.at(time.Hour),
			History:    []haulier.Change{{At: f.now, State: haulier.Pending, Step: "s", By: "b"}, {At: f.at(time.Millisecond), State: haulier.Claimed}},
			HistoryCut: 5,
			Standing: &haulier.Standing{
				NeedsLeft: 2, Barred: 1, Needed: true, Gate: "g", CalledAt: f.at(time.Second), Since: f.at(2 * time.Second), Frozen: "w", Forced: true, Held: []string{"h"}, Waived: []string{"w"},
				MemoOf: haulier.NewID(f.now), Survivor: haulier.NewID(f.now), Cause: haulier.NewID(f.now),
			},
		},
	}
}

func testRoundTrip(_ *testing.T, f *fixture) {
	j := fullJob(f)
	j.UpdatedAt = f.now
	for _, part := range []any{j.Spec, j.Status, *j.Backoff, *j.Task.Exec, *j.Task.Exec.Limits, *j.Files, j.Inputs[0], *j.Outputs, *j.Flow, j.Needs[0], j.YieldsTo[0], *j.Unique, *j.Standing, *j.Account} {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				f.t.Fatalf("the test is not whole: it leaves %s of %T empty", v.Type().Field(i).Name, part)
			}
		}
	}
	bare := f.job(mail, func(j *haulier.Job) { j.Payload = nil })
	f.insert(j, bare)
	f.same(f.get(j.ID), &j)
	f.same(f.get(bare.ID), &bare)
	bare.Status = j.Status
	bare.Rev = 2
	f.commit(haulier.Batch{Update: []haulier.JobUpdate{{Spec: &bare.Spec, Expect: 1, Status: bare.Status}}})
	f.same(f.get(bare.ID), &bare)
}

func testLargePayload(_ *testing.T, f *fixture) {
	j := f.job(mail, func(j *haulier.Job) {
		j.Payload = bytes.Repeat([]byte{0, 1, 2, 0xff}, haulier.MaxPayload/4)
		j.Result = bytes.Repeat([]byte{3, 0, 0xfe, 5}, haulier.MaxResult/4)
	})
	f.insert(j)
	f.same(f.get(j.ID), &j)
}

func testJobs(_ *testing.T, f *fixture) {
	a, b := f.job(mail), f.job(mail)
	f.insert(a, b)
	jobs, err := f.s.Jobs(f.ctx, []haulier.ID{b.ID, haulier.NewID(f.now), a.ID, b.ID})
	f.must(err)
	if len(jobs) != 4 || jobs[1] != nil {
		f.t.Fatalf("got %v, want four places, the second nil", jobs)
	}
	f.same(jobs[0], &b)
	f.same(jobs[2], &a)
	f.same(jobs[3], &b)
	none, err := f.s.Jobs(f.ctx, nil)
	f.must(err)
	if len(none) != 0 {
		f.t.Fatalf("no ids returned %v", none)
	}
}

func testWholeBatch(_ *testing.T, f *fixture) {
	old, gone := f.job(mail), f.job(mail)
	f.insert(old, gone)
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: "gone", Value: []byte("x")}}})
	added := f.job(mail)
	f.commit(haulier.Batch{
		Insert: []haulier.Job{added},
		Update: []haulier.JobUpdate{update(&old, ended(haulier.Succeeded, f.at(time.Hour)))},
		Delete: []haulier.JobDelete{{ID: gone.ID, Expect: gone.Rev}},
		Docs:   []haulier.DocWrite{{Kind: "other", Key: "new", Value: []byte("y")}, {Kind: "other", Key: "gone", Expect: 1}},
		Sync:   true, CheckIDs: true,
	})
	f.same(f.get(added.ID), &added)
	f.same(f.get(old.ID), &old)
	f.same(f.get(gone.ID), nil)
	if docs := f.docs("other", ""); len(docs) != 1 || docs[0].Key != "new" {
		f.t.Fatalf("documents are %v, want new alone", docs)
	}
	Check(f.ctx, f.t, f.s)
}

func testConflictLeavesNothing(t *testing.T, f *fixture) {
	known, other, third := f.job(mail), f.job(mail), f.job(mail)
	f.insert(known, other, third)
	f.commit(haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: "known", Value: []byte("x")}}})
	before := f.snapshot()
	stale := known
	good := func() haulier.Batch {
		u, session := other, haulier.NewID(f.now)
		return haulier.Batch{
			Insert: []haulier.Job{f.job(mail), f.job(lane("t", "q", "x"), scheduled(f.at(-time.Hour)))},
			Update: []haulier.JobUpdate{update(&u, blocked)},
			Delete: []haulier.JobDelete{{ID: third.ID, Expect: third.Rev}},
			Docs:   []haulier.DocWrite{{Kind: "other", Key: "b", Value: []byte("x")}, openSession(session, time.Hour)},
		}
	}
	bad := map[string]func(*haulier.Batch){
		"a known id":        func(b *haulier.Batch) { b.CheckIDs, b.Insert = true, append(b.Insert, known) },
		"an update too old": func(b *haulier.Batch) { b.Update = append(b.Update, haulier.JobUpdate{Spec: &stale.Spec, Expect: 9}) },
		"a removal too old": func(b *haulier.Batch) { b.Delete = append(b.Delete, haulier.JobDelete{ID: known.ID, Expect: 9}) },
		"a document that exists": func(b *haulier.Batch) {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: "other", Key: "known", Value: []byte("y")})
		},
		"a document too old": func(b *haulier.Batch) {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: "other", Key: "known", Expect: 2, Value: []byte("y")})
		},
		"a document not there": func(b *haulier.Batch) {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: "other", Key: "a", Expect: 1, Value: []byte("y")})
		},
		"a document's old removal": func(b *haulier.Batch) {
			b.Docs = append(b.Docs, haulier.DocWrite{Kind: "other", Key: "known", Expect: 2})
		},
	}
	for what, spoil := range bad {
		t.Run(what, func(t *testing.T) {
			b := good()
			spoil(&b)
			err := f.s.Commit(t.Context(), &b)
			if !errors.Is(err, haulier.ErrConflict) {
				t.Fatalf("error is %v, want ErrConflict", err)
			}
			if after := f.snapshot(); after != before {
				t.Fatalf("the store has changed\nbefore\n%s\nafter\n%s", before, after)
			}
			if d := f.due(10); len(d.Timers) > 0 {
				t.Fatalf("a timer of the refused batch is due: %v", d.Timers)
			}
			session, err := haulier.ParseID(b.Docs[1].Key)
			f.must(err)
			if err := f.s.Renew(t.Context(), session, time.Hour); !errors.Is(err, haulier.ErrLeaseLost) {
				t.Fatalf("the session of the refused batch can be renewed: %v", err)
			}
		})
	}
	b := good()
	f.commit(b)
}

func testCheckIDs(_ *testing.T, f *fixture) {
	j := f.job(mail)
	f.insert(j)
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Insert: []haulier.Job{j}, CheckIDs: true}), haulier.ErrConflict)
	f.commit(haulier.Batch{Insert: []haulier.Job{f.job(mail)}, CheckIDs: true})
	f.same(f.get(j.ID), &j)
	Check(f.ctx, f.t, f.s)
}

func testJobRevisions(_ *testing.T, f *fixture) {
	j, missing := f.job(mail), f.job(mail)
	f.insert(j)
	f.move(&j, blocked)
	for _, rev := range []uint64{0, j.Rev - 1, j.Rev + 1} {
		u := haulier.JobUpdate{Spec: &j.Spec, Expect: rev, Status: j.Status}
		f.wants(f.s.Commit(f.ctx, &haulier.Batch{Update: []haulier.JobUpdate{u}}), haulier.ErrConflict)
		f.wants(f.s.Commit(f.ctx, &haulier.Batch{Delete: []haulier.JobDelete{{ID: j.ID, Expect: rev}}}), haulier.ErrConflict)
	}
	u := haulier.JobUpdate{Spec: &missing.Spec, Expect: missing.Rev, Status: missing.Status}
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Update: []haulier.JobUpdate{u}}), haulier.ErrConflict)
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Delete: []haulier.JobDelete{{ID: missing.ID, Expect: missing.Rev}}}), haulier.ErrConflict)
	f.same(f.get(missing.ID), nil)
	f.same(f.get(j.ID), &j)
	f.commit(haulier.Batch{Delete: []haulier.JobDelete{{ID: j.ID, Expect: j.Rev}}})
	f.wants(f.s.Commit(f.ctx, &haulier.Batch{Delete: []haulier.JobDelete{{ID: j.ID, Expect: j.Rev}}}), haulier.ErrConflict)
}

func testOneUpdateWins(t *testing.T, f *fixture) {
	for range 10 {
		j := f.job(mail)
		f.insert(j)
		const racers = 8
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				next := j
				b := haulier.Batch{Update: []haulier.JobUpdate{update(&next, func(j *haulier.Job) { j.Step = name("racer", i) })}}
				errs[i] = f.s.Commit(t.Context(), &b)
			})
		}
		wg.Wait()
		won := slices.IndexFunc(errs, func(err error) bool { return err == nil })
		if won < 0 {
			t.Fatalf("nobody's update was made: %v", errs)
		}
		for i, err := range errs {
			if i != won {
				f.wants(err, haulier.ErrConflict)
			}
		}
		if got := f.get(j.ID); got.Step != name("racer", won) || got.Rev != 2 {
			t.Fatalf("step is %q at revision %d, want that of racer %d at 2", got.Step, got.Rev, won)
		}
	}
}

func testUpdateKeepsSpec(_ *testing.T, f *fixture) {
	j := f.job(mail, priority(4))
	f.insert(j)
	for i := range 5 {
		f.move(&j, func(j *haulier.Job) { j.Step = name("step", i) })
		f.same(f.get(j.ID), &j)
	}
	f.move(&j, ended(haulier.Succeeded, f.at(time.Hour)))
	f.move(&j, pendingSince(f.now))
	f.same(f.get(j.ID), &j)
	Check(f.ctx, f.t, f.s)
}

func testUpdateSkips(_ *testing.T, f *fixture) {
	j := f.job(mail)
	f.insert(j)
	next := j.Status
	next.Rev, next.Step = 9, "several events in one commit"
	f.commit(haulier.Batch{Update: []haulier.JobUpdate{{Spec: &j.Spec, Expect: j.Rev, Status: next}}})
	j.Status = next
	f.same(f.get(j.ID), &j)
	f.move(&j, blocked)
	f.same(f.get(j.ID), &j)
}

func testRemoved(_ *testing.T, f *fixture) {
	session := f.session(time.Hour)
	changes := []func(*haulier.Job){
		blocked, scheduled(f.at(-time.Hour)), pendingSince(f.now), ownedBy(haulier.Claimed, session), ownedBy(haulier.Running, session),
		ended(haulier.Succeeded, f.at(-time.Hour)), ended(haulier.Failed, f.at(time.Hour)), ended(haulier.Cancelled, f.now), ended(haulier.Collapsed, f.now),
	}
	var b haulier.Batch
	for _, change := range changes {
		j := f.job(mail, change)
		f.insert(j)
		b.Delete = append(b.Delete, haulier.JobDelete{ID: j.ID, Expect: j.Rev})
	}
	Check(f.ctx, f.t, f.s)
	f.commit(b)
	Check(f.ctx, f.t, f.s)
	if jobs := f.list(haulier.Query{}); len(jobs) > 0 {
		f.t.Fatalf("%d jobs are still listed", len(jobs))
	}
	if counts, bands := f.counts(), f.bands(); len(counts)+len(bands) > 0 {
		f.t.Fatalf("still counted: %v, %v", counts, bands)
	}
	if d := f.due(10); len(d.Timers)+len(d.Purge) > 0 {
		f.t.Fatalf("still due: %v", d)
	}
}

func testEmptyBatch(_ *testing.T, f *fixture) {
	before := f.snapshot()
	f.commit(haulier.Batch{})
	f.commit(haulier.Batch{Sync: true, CheckIDs: true})
	if after := f.snapshot(); after != before {
		f.t.Fatalf("the store has changed to\n%s", after)
	}
}

func testSync(_ *testing.T, f *fixture) {
	j := f.job(mail)
	f.commit(haulier.Batch{Insert: []haulier.Job{j}, Sync: true})
	f.same(f.get(j.ID), &j)
	f.commit(haulier.Batch{Update: []haulier.JobUpdate{update(&j, blocked)}, Sync: true})
	f.same(f.get(j.ID), &j)
}

func testLargeBatch(_ *testing.T, f *fixture) {
	jobs := make([]haulier.Job, haulier.MaxBatch)
	for i := range jobs {
		jobs[i] = f.job(mail)
	}
	f.commit(haulier.Batch{Insert: jobs, Sync: true, CheckIDs: true})
	if heads := f.bands(); len(heads) != 1 || heads[0].N != haulier.MaxBatch {
		f.t.Fatalf("bands are %v, want one of %d jobs", heads, haulier.MaxBatch)
	}
	session := f.session(time.Hour)
	claimed := f.claim(session, take(mail, 0, haulier.MaxClaim))
	f.wantIDs(idsOf(claimed), jobs[:haulier.MaxClaim]...)
	var b haulier.Batch
	for i := range claimed {
		b.Update = append(b.Update, update(&claimed[i], ended(haulier.Succeeded, f.at(time.Hour))))
	}
	f.commit(b)
	want := fmt.Sprint([]haulier.Count{{Lane: mail, State: haulier.Pending, N: haulier.MaxBatch - haulier.MaxClaim}, {Lane: mail, State: haulier.Succeeded, N: haulier.MaxClaim}})
	if got := fmt.Sprint(f.counts()); got != want {
		f.t.Fatalf("counts are %v, want %v", got, want)
	}
}

func testClock(_ *testing.T, f *fixture) {
	last := f.clock()
	for range 1000 {
		now, err := f.s.Now(context.WithoutCancel(f.ctx))
		f.must(err)
		if now.Before(last) {
			f.t.Fatalf("the clock went from %v to %v", last, now)
		}
		last = now
	}
}

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
)

const benchBatch = 1000 // jobs of a batch

// warmUp is the part of a measurement's time that goes before it and is not counted.
const warmUp = 5

// enqueue measures callers that each enqueue one job after the other.
func (b *benchRun) enqueue(ctx context.Context, callers int) error {
	return b.enqueueBy(ctx, fmt.Sprintf("enqueue, %s", count(callers, "caller")), callers, 1)
}

// batches measures two callers that enqueue batches.
func (b *benchRun) batches(ctx context.Context) error {
	return b.enqueueBy(ctx, fmt.Sprintf("enqueue, batches of %d", benchBatch), 2, benchBatch)
}

func (b *benchRun) enqueueBy(ctx context.Context, name string, callers, batch int) error {
	r, err := b.newRig(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	if _, _, err := r.enqueueFor(ctx, b.f.span/warmUp, callers, batch); err != nil {
		return err
	}
	r.begin()
	n, took, err := r.enqueueFor(ctx, b.f.span, callers, batch)
	if err != nil {
		return err
	}
	b.note(name, "jobs/s", float64(n)/took.Seconds(), r.cost(n))
	return b.clear(ctx, r)
}

// clear removes what a measurement left in a server that is not ours.
func (b *benchRun) clear(ctx context.Context, r *rig) error {
	if b.f.ownServer {
		return nil
	}
	f := haulier.Filter{Tenant: b.p.settings.Tenant, Queue: benchQueue}
	if _, err := r.client.Cancel(ctx, haulier.Selection{Tenant: f.Tenant, Filter: &f}, "", "the bench is over"); err != nil {
		return err
	}
	_, err := r.client.Delete(ctx, haulier.Selection{Tenant: f.Tenant, Filter: &f}, "")
	return err
}

// enqueueFor lets callers enqueue until the time is over, and returns how many jobs were acknowledged in which time.
func (r *rig) enqueueFor(ctx context.Context, span time.Duration, callers, batch int) (int, time.Duration, error) {
	var acked atomic.Int64
	began := time.Now()
	until := began.Add(span)
	g, ctx := errgroup.WithContext(ctx)
	for range callers {
		g.Go(func() error {
			for time.Now().Before(until) {
				if err := r.add(ctx, batch); err != nil {
					return err
				}
				acked.Add(int64(batch))
			}
			return nil
		})
	}
	err := g.Wait()
	return int(acked.Load()), time.Since(began), err
}

// add enqueues n jobs in one request.
func (r *rig) add(ctx context.Context, n int) error {
	specs := make([]haulier.Spec, n)
	spec := benchSpec(time.Now())
	spec.Tenant = r.b.p.settings.Tenant
	for i := range specs {
		specs[i] = spec
	}
	results, err := r.client.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs}})
	if err == nil {
		err = results[0].Err
	}
	return err
}

// fill enqueues n jobs in batches.
func (r *rig) fill(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for ; n > 0 && ctx.Err() == nil; n -= benchBatch {
		some := min(n, benchBatch)
		g.Go(func() error { return r.add(ctx, some) })
	}
	return g.Wait()
}

// drain measures a worker that empties a queue, until the server counts none left.
func (b *benchRun) drain(ctx context.Context) error {
	r, err := b.newRig(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.fill(ctx, b.f.jobs); err != nil {
		return err
	}
	if err := r.startWorker(ctx, b.f.concurrency); err != nil {
		return err
	}
	r.begin()
	began := time.Now()
	if err := r.worker.goOn(); err != nil {
		return err
	}
	if err := r.emptied(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	b.note(fmt.Sprintf("drain of %d", b.f.jobs), "jobs/s", float64(b.f.jobs)/took.Seconds(), r.cost(b.f.jobs))
	rep, err := r.worker.report()
	if err == nil && rep.Jobs != b.f.jobs {
		err = fmt.Errorf("the worker ran %d jobs of %d", rep.Jobs, b.f.jobs)
	}
	return err
}

// emptied waits until the server counts no job that has not ended.
func (r *rig) emptied(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		counts, err := r.client.Counts(ctx, r.b.p.settings.Tenant)
		if err != nil {
			return err
		}
		left := int64(0)
		for _, c := range counts {
			if c.Queue == benchQueue && !c.State.Terminal() {
				left += c.N
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// latency measures the time from enqueue to start at a given rate.
func (b *benchRun) latency(ctx context.Context, name string, perSecond int) error {
	r, err := b.newRig(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.startWorker(ctx, 50); err != nil {
		return err
	}
	if err := r.worker.goOn(); err != nil {
		return err
	}
	if err := r.connected(ctx); err != nil {
		return err
	}
	r.begin()
	n, err := r.pace(ctx, perSecond)
	if err == nil {
		err = r.emptied(ctx)
	}
	if err != nil {
		return err
	}
	c := r.cost(n)
	rep, err := r.worker.report()
	if err != nil {
		return err
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	b.note("latency "+name+", p50", "ms", ms(rep.P50), c)
	b.note("latency "+name+", p99", "ms", ms(rep.P99))
	b.note("latency "+name+", max", "ms", ms(rep.Max))
	return nil
}

// connected waits until the server knows the worker.
func (r *rig) connected(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := r.client.Sessions(ctx, r.b.p.settings.Tenant)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.Worker == "bench" && s.Connected {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pace enqueues jobs at a steady rate, each at its time whether or not those before are acknowledged.
func (r *rig) pace(ctx context.Context, perSecond int) (n int, err error) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	g, ctx := errgroup.WithContext(ctx)
	for until := time.Now().Add(r.b.f.span); time.Now().Before(until); n++ {
		g.Go(func() error { return r.add(ctx, 1) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return n, g.Wait()
		}
	}
	return n, g.Wait()
}

// memory measures the server's memory while many jobs wait.
func (b *benchRun) memory(ctx context.Context) error {
	if !b.f.ownServer {
		return usagef("--only memory is about a server of this bench's own: leave --url out")
	}
	r, err := b.newRig(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	r.begin()
	if err := r.fill(ctx, b.f.waiting); err != nil {
		return err
	}
	c := r.cost(b.f.waiting)
	b.note(fmt.Sprintf("memory, %d waiting", b.f.waiting), "MiB", float64(c.ServerRSS)/(1<<20), c)
	return nil
}

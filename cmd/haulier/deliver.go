package main

import (
	"context"
	"sync"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	httpexec "github.com/haulier/haulier/executor/http"
	"github.com/haulier/haulier/webhook"
	"github.com/haulier/haulier/worker"
)

// lastDeliveries is how long a server that stops waits for the deliveries under way; others go back to their queue.
const lastDeliveries = 3 * time.Second

// deliveryLease is how long after a crash of the server what it delivered is taken up again.
const deliveryLease = 10 * time.Second

// deliver delivers notifications until ctx ends, by a worker within the server, from when there is the first of them.
func (n *node) deliver(ctx context.Context, f *nodeFlags, version string) error {
	if err := n.engine.AwaitDeliveries(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	w, err := worker.New(worker.Config{
		Consumer: n.engine, Name: "deliveries", Version: version, Log: n.log, Tenants: []string{"*"}, Lease: deliveryLease,
		Queues: map[string]int{haulier.DeliveryQueue: 1}, Types: []string{haulier.DeliveryType}, Concurrency: f.Deliveries,
		Executors: []executor.Executor{httpexec.New(webhook.New(webhook.Config{AllowPrivate: f.AllowPrivate}))},
	})
	if err != nil {
		return err
	}
	var late sync.WaitGroup
	defer late.Wait()
	ended := make(chan struct{})
	defer close(ended)
	late.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		t := time.NewTimer(lastDeliveries)
		defer t.Stop()
		select {
		case <-ended:
		case <-t.C:
			w.Abort()
		}
	})
	return w.Run(ctx)
}

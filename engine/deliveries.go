package engine

import (
	"context"
	"sync"

	"github.com/haulier/haulier"
)

// deliveries tells when there is the first notification to be delivered.
type deliveries struct {
	once sync.Once
	seen chan struct{}
}

func delivers(s *haulier.Spec) bool {
	return s.Task.HTTP != nil && s.Queue == haulier.DeliveryQueue && s.Type == haulier.DeliveryType
}

func (d *deliveries) changed(changes []haulier.JobChange) {
	for i := range changes {
		if s := changes[i].Spec; s.Task.HTTP != nil && delivers(s) && !changes[i].Status.State.Terminal() {
			d.once.Do(func() { close(d.seen) })
			return
		}
	}
}

// AwaitDeliveries returns when there is, or was since the engine was made, a notification to be delivered: before that nobody needs to
// claim them. The error is that of ctx or the store.
func (e *Engine) AwaitDeliveries(ctx context.Context) error {
	counts, err := e.store.Counts(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if c.N > 0 && !c.State.Terminal() && c.Queue == haulier.DeliveryQueue && c.Kind == haulier.KindHTTP {
			return nil
		}
	}
	select {
	case <-e.delivered.seen:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

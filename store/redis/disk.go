package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// disk waits until Redis has on its disk what was written, where appendfsync does not see to that.
// Who waits at the same time waits together: a round writes something small, and waits for that.
// As Redis appends to one file, all that was written before is then there too.
type disk struct {
	client rueidis.Client
	key    string // of a hash

	mu      sync.Mutex
	current *round // the newest that has begun
	next    *round // the one that is joined; nil: none
	rounds  sync.WaitGroup
}

type round struct {
	done chan struct{}
	err  error // to be read after done
}

// diskTime is how long Redis may take. With appendfsync everysec it takes up to a second.
const diskTime = 10 * time.Second

// sync returns when all that was written before the call is on the disk.
func (d *disk) sync(ctx context.Context) error {
	r := d.join()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns a round that begins after the call.
func (d *disk) join() *round {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != nil {
		return d.next
	}
	r := &round{done: make(chan struct{})}
	before := d.current
	d.next = r
	d.rounds.Go(func() {
		defer close(r.done)
		if before != nil {
			<-before.done
		}
		d.mu.Lock()
		d.current, d.next = r, nil
		d.mu.Unlock()
		r.err = d.write()
	})
	return r
}

func (d *disk) write() error {
	ctx := context.Background() // Redis and the client bound the time
	res := d.client.DoMulti(ctx, d.client.B().Hset().Key(d.key).FieldValue().FieldValue("synced", "").Build(),
		d.client.B().Waitaof().Numlocal(1).Numreplicas(0).Timeout(diskTime.Milliseconds()).Build())
	if err := res[0].Error(); err != nil {
		return translate(ctx, err)
	}
	n, err := res[1].AsIntSlice()
	if err != nil {
		return translate(ctx, err)
	}
	if len(n) == 0 || n[0] < 1 {
		return fmt.Errorf("redis: %w: its disk has not taken what was written within %v, so a loss of power may undo it; look at its log", haulier.ErrUnavailable, diskTime)
	}
	return nil
}

// close waits for all that was written. Nothing may be written at the same time.
func (d *disk) close() error {
	r := d.join()
	d.rounds.Wait()
	return r.err
}

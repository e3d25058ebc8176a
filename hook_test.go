package haulier_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
)

// budget lets so many jobs in, and no more.
type budget struct{ left atomic.Int64 }

func (*budget) HookName() string { return "budget" }

func (b *budget) BeforeEnqueue(_ context.Context, jobs []*haulier.Spec) ([]haulier.Verdict, error) {
	if b.left.Add(-int64(len(jobs))) < 0 {
		return nil, errors.New("the budget of today is spent")
	}
	return nil, nil // all are allowed
}

func (*budget) AfterEnqueue(context.Context, []*haulier.Spec) error { return nil }

// A program that has an engine of its own says what may come in.
func ExampleEnqueueHook() {
	if err := spend(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2 jobs: <nil>
	// 0 jobs: refused: hook budget, before the enqueue: the budget of today is spent
}

func spend(ctx context.Context) error {
	blobs, err := blob.Open(ctx, "mem://")
	if err != nil {
		return err
	}
	defer blobs.Close()
	b := &budget{}
	b.left.Store(3)
	queue, err := engine.New(engine.Config{Store: mem.New(), Blobs: blobs, Hooks: []haulier.EnqueueHook{b}})
	if err != nil {
		return err
	}
	defer queue.Close()
	for range 2 {
		r, err := queue.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "mail"}, {Type: "mail"}}}})
		if err != nil {
			return err
		}
		fmt.Printf("%d jobs: %v\n", len(r[0].IDs), r[0].Err)
	}
	return nil
}

package haulier_test

import (
	"context"
	"fmt"
	"log"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/store/mem"
	"github.com/haulier/haulier/worker"
)

// The rules of flow are fields of a job. Here a program with a queue of its own, in memory, builds once for two
// tests, of which one runs at a time, in a batch that reports when both have succeeded.
func ExampleFlow() {
	if err := ship(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// test with build 7
	// test with build 7
	// all succeeded
}

func ship(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blobs, err := blob.Open(ctx, "mem://")
	if err != nil {
		return err
	}
	defer blobs.Close()
	queue, err := engine.New(engine.Config{Store: mem.New(), Blobs: blobs})
	if err != nil {
		return err
	}
	defer queue.Close()
	w, err := worker.New(worker.Config{Consumer: queue, Concurrency: 4})
	if err != nil {
		return err
	}
	haulier.Handle(w, "build", func(ctx context.Context, _ *haulier.Job, _ struct{}) error { return haulier.SetResult(ctx, 7) })
	haulier.Handle(w, "test", func(_ context.Context, job *haulier.Job, _ struct{}) error {
		build, _ := job.NeedResult("build")
		fmt.Printf("test with build %s\n", build)
		return nil
	})
	haulier.Handle(w, "report", func(context.Context, *haulier.Job, struct{}) error {
		fmt.Println("all succeeded")
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	test := haulier.Spec{Type: "test", Payload: []byte("{}"), Flow: &haulier.Flow{
		Needs: []haulier.Need{{Ref: "build"}},
		Holds: []string{"bench"}, YieldsTo: []haulier.Yield{{Key: "bench"}}, // one at a time
	}}
	batch, err := queue.CreateBatch(ctx, haulier.BatchRequest{
		Jobs:      []haulier.Spec{{Type: "build", Flow: &haulier.Flow{Ref: "build"}}, test, test},
		OnSuccess: &haulier.Spec{Type: "report"},
	})
	if err != nil {
		return err
	}
	if _, err := queue.Wait(ctx, "", []haulier.ID{batch.OnSuccess}); err != nil {
		return err
	}
	cancel()
	return <-done
}

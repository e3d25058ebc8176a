package haulier_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/worker"
)

type mail struct {
	To string `json:"to"`
}

// A program that runs jobs is a worker with functions in it.
func ExampleHandle() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := work(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context) error {
	queue, err := client.New(client.FromEnv()) // HAULIER_URL and HAULIER_TOKEN, or the server of this user here
	if err != nil {
		return err
	}
	defer queue.Close()
	w, err := worker.New(worker.Config{Consumer: queue, Concurrency: 10})
	if err != nil {
		return err
	}
	haulier.Handle(w, "mail", func(ctx context.Context, job *haulier.Job, m mail) error {
		haulier.Progress(ctx, 50, "sending to "+m.To)
		return nil // an error runs the job again, after a back-off
	})
	return w.Run(ctx) // until ctx ends; then it finishes what it runs
}

// Anybody may enqueue. With a key, a repeated request answers the ids of the first time.
func ExampleProducer() {
	if err := welcome(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func welcome(ctx context.Context) error {
	queue, err := client.New(client.FromEnv())
	if err != nil {
		return err
	}
	defer queue.Close()
	results, err := queue.Enqueue(ctx, []haulier.EnqueueRequest{{
		Jobs: []haulier.Spec{{Type: "mail", Payload: []byte(`{"to":"ann@example.com"}`)}},
		Key:  "welcome-ann", // repeated, it answers the same ids
	}})
	if err == nil {
		err = results[0].Err
	}
	if err == nil {
		fmt.Println(results[0].IDs)
	}
	return err
}

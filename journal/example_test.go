package journal_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/journal"
)

// A program accepts jobs whether or not the server can be reached, and sends them when it can.
func Example() {
	dir, err := os.MkdirTemp("", "outbox-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		log.Print(err)
		return
	}
	defer j.Close()
	server, err := client.New(client.Config{URL: "http://127.0.0.1:1"}) // nobody answers there
	if err != nil {
		log.Print(err)
		return
	}
	defer server.Close()

	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() {
		if err := (&journal.Ingest{Journal: j, Queue: server}).Run(ctx); err != nil {
			log.Print(err)
		}
	})

	var queue haulier.Producer = &journal.Front{Journal: j, Next: server}
	results, err := queue.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "mail", Payload: []byte(`{"to":"ann"}`)}}}})
	if err != nil || results[0].Err != nil {
		log.Print(err, results)
	} else {
		fmt.Println(len(results[0].IDs), "accepted,", j.Standing().Lines, "waiting")
	}
	cancel()
	sending.Wait()
	// Output: 1 accepted, 1 waiting
}

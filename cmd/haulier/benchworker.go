package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/worker"
)

// benchWorkerCommand is the worker's process of a bench.
func (p *program) benchWorkerCommand() *cobra.Command {
	concurrency := 100
	cmd := &cobra.Command{
		Use: "worker", Short: "The worker's process of a bench", Hidden: true, Args: cobra.NoArgs,
		Long: "The worker's process of a bench, which starts it; there is no need to by hand.",
	}
	cmd.Flags().IntVar(&concurrency, "concurrency", concurrency, "`N` jobs that it runs at once")
	cmd.RunE = p.plain(func(ctx context.Context, _ []string) error { return p.benchWork(ctx, concurrency) })
	return cmd
}

// latencies gathers how long jobs waited.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

func (l *latencies) report() benchReport {
	l.mu.Lock()
	sorted := slices.Sorted(slices.Values(l.all))
	l.mu.Unlock()
	if len(sorted) == 0 {
		return benchReport{}
	}
	n := len(sorted)
	return benchReport{Jobs: n, P50: sorted[n/2], P99: sorted[n*99/100], Max: sorted[n-1]}
}

// benchWork obeys the lines of standard input until that ends.
func (p *program) benchWork(ctx context.Context, concurrency int) error {
	c, err := p.connect(ctx, endless)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := worker.New(worker.Config{
		Consumer: c, Name: "bench", Queues: map[string]int{benchQueue: 1}, Concurrency: concurrency,
		Version: p.version, Log: slog.New(slog.NewTextHandler(p.errs, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	var seen latencies
	haulier.Handle(w, benchType, func(_ context.Context, _ *haulier.Job, payload []byte) error {
		seen.add(time.Since(time.Unix(0, enqueuedAt(payload))))
		return nil
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fmt.Fprintln(p.out, "up")
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for in := bufio.NewReader(p.in); ; {
		line, err := in.ReadString('\n')
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case line == "go\n":
			running.Go(func() {
				if err := w.Run(ctx); err != nil {
					p.say("haulier: %v", err)
				}
			})
		case line == "report\n":
			b, err := json.Marshal(seen.report())
			if err != nil {
				return err
			}
			fmt.Fprintf(p.out, "%s\n", b)
		}
	}
}

// enqueuedAt reads the time out of a payload that benchSpec made, without the cost of a JSON decoder.
func enqueuedAt(payload []byte) (ns int64) {
	for _, c := range payload[min(len(payload), len(`{"at":`)):] {
		if c < '0' || c > '9' {
			break
		}
		ns = ns*10 + int64(c-'0')
	}
	return ns
}

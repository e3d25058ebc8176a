// Package bench lets another program measure Haulier beside other job queues:
// a server in a process of its own, client and worker in the caller's process.
//
// bench/run.sh builds it into the comparison; it has its own module, so that
// nothing of the comparison becomes a dependency of the project.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
	"github.com/haulier/haulier/worker"
)

const jobType = "bench"

// Haulier is one server and one client of it. Its methods are not safe for
// concurrent use, but for Enqueue, EnqueueBatch and Pending after Setup.
type Haulier struct {
	Dir       string // folder of the server's files and its log
	Binary    string // the haulier program
	Durable   string // value of --durability; "" for the default, which syncs
	Over      string // what its store is called in its name; "" for the embedded one
	Store     string // URL of the store; "" for the embedded one
	cmd       *exec.Cmd
	exited    chan struct{}
	log       *os.File
	client    *client.Client
	url, addr string
}

// Name is "haulier", with its store and the durability where those are not the defaults.
func (h *Haulier) Name() string {
	name := "haulier"
	for _, part := range []string{h.Over, h.Durable} {
		if part != "" {
			name += "-" + part
		}
	}
	return name
}

// Durability says in words what an acknowledged enqueue survives.
func (h *Haulier) Durability() string {
	if h.Store != "" {
		return "what its store promises, asked before the reply"
	}
	if h.Durable != "" {
		return "survives kill -9; the last writes may be lost on power loss"
	}
	return "fsync (group commit) before reply: survives power loss"
}

// Setup starts the server, over an empty folder or over what an earlier one left.
func (h *Haulier) Setup(ctx context.Context, fresh bool) error {
	data := filepath.Join(h.Dir, h.Name())
	if fresh {
		if err := os.RemoveAll(data); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	addr, err := sparePort()
	if err != nil {
		return err
	}
	h.addr, h.url = addr, "http://"+addr
	if err := h.start(data); err != nil {
		return err
	}
	if err := h.ready(ctx); err != nil {
		return err
	}
	h.client, err = client.New(client.Config{URL: h.url, Retry: -1}) // a server that was killed is an error at once
	return err
}

func (h *Haulier) start(data string) error {
	var err error
	if h.log, err = os.Create(data + ".log"); err != nil {
		return err
	}
	args := []string{"serve", "--data", data, "--listen", h.addr, "--insecure"}
	if h.Durable != "" {
		args = append(args, "--durability", h.Durable)
	}
	if h.Store != "" {
		args = append(args, "--store", h.Store)
	}
	h.cmd = exec.Command(h.Binary, args...)
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	if err := h.cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w; build it with: make build", err)
	}
	exited := make(chan struct{})
	h.exited = exited
	cmd := h.cmd
	go func() {
		_ = cmd.Wait() // its log says why it ended
		close(exited)
	}()
	return nil
}

// ready waits until the server answers that it is ready, or has ended.
func (h *Haulier) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(h.url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-h.exited:
			return fmt.Errorf("the server ended at once; see %s", h.log.Name())
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w; see %s", ctx.Err(), h.log.Name())
		}
	}
}

// Enqueue adds one job and returns when it is acknowledged.
func (h *Haulier) Enqueue(ctx context.Context, payload []byte) error {
	return h.EnqueueBatch(ctx, [][]byte{payload})
}

// EnqueueBatch adds the jobs together, acknowledged.
func (h *Haulier) EnqueueBatch(ctx context.Context, payloads [][]byte) error {
	specs := make([]haulier.Spec, len(payloads))
	for i, p := range payloads {
		specs[i] = haulier.Spec{Type: jobType, Payload: p}
	}
	results, err := h.client.Enqueue(ctx, []haulier.EnqueueRequest{{Jobs: specs}})
	if err != nil {
		return err
	}
	return results[0].Err
}

// Work starts a worker that hands payloads to fn. The returned function stops it and waits for it.
func (h *Haulier) Work(ctx context.Context, concurrency int, fn func(context.Context, []byte) error) (func(), error) {
	w, err := worker.New(worker.Config{
		Consumer: h.client, Name: "bench",
		Concurrency: concurrency, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, err
	}
	haulier.Handle(w, jobType, func(ctx context.Context, _ *haulier.Job, p []byte) error { return fn(ctx, p) })
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
	})
	return func() { cancel(); running.Wait() }, nil
}

// Pending is how many jobs have not ended, as the server counts them.
func (h *Haulier) Pending(ctx context.Context) (int, error) {
	counts, err := h.client.Counts(ctx, haulier.DefaultTenant)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, c := range counts {
		if !c.State.Terminal() {
			n += c.N
		}
	}
	return int(n), nil
}

// Pids are the server's processes.
func (h *Haulier) Pids() []int { return []int{h.cmd.Process.Pid} }

// Kill ends the server by SIGKILL.
func (h *Haulier) Kill() error { return h.cmd.Process.Kill() }

// Close stops the server and waits for it. More calls do nothing.
func (h *Haulier) Close() error {
	if h.client != nil {
		h.client.Close()
		h.client = nil
	}
	if h.cmd == nil || h.cmd.Process == nil {
		return nil
	}
	_ = h.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-h.exited:
	case <-time.After(15 * time.Second):
		_ = h.cmd.Process.Kill()
		<-h.exited
	}
	h.cmd = nil
	return h.log.Close()
}

// sparePort returns a loopback address that nobody listens on.
func sparePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// rig is a server and a client of it, and a worker when one was started.
type rig struct {
	b      *benchRun
	dir    string
	url    string
	server *exec.Cmd // nil: it is not ours
	worker *benchWorker
	client *client.Client

	before usage3
}

// usage3 is how much CPU the three processes had used at a moment, in seconds.
type usage3 struct{ client, server, worker float64 }

// newRig starts a server in a fresh folder, or takes the one that there is.
func (b *benchRun) newRig(ctx context.Context) (r *rig, err error) {
	r = &rig{b: b, url: b.p.settings.URL}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	token := b.p.settings.Token
	if b.f.ownServer {
		if r.dir, err = os.MkdirTemp(b.dir, "server-"); err != nil {
			return r, err
		}
		if err := r.startServer(ctx); err != nil {
			return r, err
		}
	} else if token == "" {
		token = client.LocalToken(b.p.settings.URL, b.p.settings.env)
	}
	if r.client, err = client.New(client.Config{URL: r.url, Token: token}); err != nil {
		return r, err
	}
	r.before = r.cpu()
	return r, nil
}

func (r *rig) startServer(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	l.Close()
	r.url = "http://" + addr
	if r.server, err = r.start(ctx, "server", nil, nil, "serve", "--data", filepath.Join(r.dir, "data"), "--listen", addr,
		"--insecure", "--durability", r.b.f.node.Durability, "--log-level", "warn"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := knock(ctx, r.url); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			said, _ := os.ReadFile(filepath.Join(r.dir, "server.log"))
			return fmt.Errorf("the server does not answer: %w\n%s", ctx.Err(), said)
		}
	}
}

// start runs this program as another process. What it logs goes to a file.
func (r *rig) start(ctx context.Context, name string, in io.Reader, out io.Writer, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := r.dir
	if dir == "" {
		dir = r.b.dir
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for this process, which ends them
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, log
	return cmd, cmd.Start()
}

// close ends the processes and removes the folder.
func (r *rig) close() {
	if r.worker != nil {
		r.worker.close()
	}
	if r.client != nil {
		r.client.Close()
	}
	if r.server != nil && r.server.Process != nil {
		r.server.Process.Kill() // its folder goes with it
		_ = r.server.Wait()     // it was killed
	}
	if r.dir != "" {
		os.RemoveAll(r.dir)
	}
}

// cpu is what the processes have used so far.
func (r *rig) cpu() (u usage3) {
	var self syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &self) == nil {
		u.client = time.Duration(self.Utime.Nano() + self.Stime.Nano()).Seconds()
	}
	if r.server != nil {
		u.server = processStat(r.server.Process.Pid).CPU
	}
	if r.worker != nil {
		u.worker = processStat(r.worker.cmd.Process.Pid).CPU
	}
	return u
}

// cost is what was used since the rig was made or begin was called.
func (r *rig) cost(jobs int) cost {
	now := r.cpu()
	c := cost{Jobs: jobs, ClientCPU: now.client - r.before.client, ServerCPU: now.server - r.before.server, WorkerCPU: now.worker - r.before.worker}
	if r.server != nil {
		s := processStat(r.server.Process.Pid)
		c.ServerRSS, c.ServerMax = s.RSS, s.Peak
	}
	return c
}

func (r *rig) begin() { r.before = r.cpu() }

// benchWorker is the worker's process. It is told what to do by lines on its
// standard input, and answers report by a line of JSON.
type benchWorker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// benchReport is what the worker saw since it was told to go.
type benchReport struct {
	Jobs int           `json:"jobs"`
	P50  time.Duration `json:"p50"` // from enqueue to start, in nanoseconds
	P99  time.Duration `json:"p99"`
	Max  time.Duration `json:"max"`
}

// startWorker starts the worker's process, which waits for go.
func (r *rig) startWorker(ctx context.Context, concurrency int) error {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inRead.Close(), inWrite.Close())
	}
	args := []string{"bench", "worker", "--url", r.url, "--concurrency", strconv.Itoa(concurrency)}
	cmd, err := r.start(ctx, "worker", inRead, outWrite, args...)
	inRead.Close()
	outWrite.Close()
	if err != nil {
		return errors.Join(err, inWrite.Close(), outRead.Close())
	}
	r.worker = &benchWorker{cmd: cmd, in: inWrite, out: bufio.NewReader(outRead)}
	_, err = r.worker.out.ReadString('\n') // it is up
	return err
}

func (w *benchWorker) goOn() error {
	_, err := io.WriteString(w.in, "go\n")
	return err
}

func (w *benchWorker) report() (rep benchReport, err error) {
	if _, err := io.WriteString(w.in, "report\n"); err != nil {
		return rep, err
	}
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return rep, fmt.Errorf("the worker ended: %w", err)
	}
	return rep, json.Unmarshal(line, &rep)
}

func (w *benchWorker) close() {
	w.in.Close()
	_ = w.cmd.Wait() // its log says how it ended
}

const (
	benchQueue = "bench"
	benchType  = "bench.noop"
)

// benchSpec is a job to measure with: 100 bytes of JSON, with the time in it.
func benchSpec(at time.Time) haulier.Spec {
	payload := fmt.Appendf(make([]byte, 0, 100), `{"at":%d,"pad":"`, at.UnixNano())
	for len(payload) < 98 {
		payload = append(payload, 'x')
	}
	return haulier.Spec{
		Queue: benchQueue, Type: benchType, Payload: append(payload, `"}`...),
		Retention: haulier.Duration(time.Minute), MaxAttempts: 3,
	}
}

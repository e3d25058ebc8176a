// Command demo shows the haulier program at work on real input: it checksums every
// Go source file of the toolchain, a job a file, kills the worker with kill -9
// half way, starts another, and compares all results with the same work done directly.
//
//	demo bin/haulier
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// group is the name under which the jobs are made, and found again.
const group = "demo"

// command is what each job does with its file: POSIX has it, and it prints one line.
const command = "cksum"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo PROGRAM   (as in: make demo)")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the whole demonstration.
func run(ctx context.Context, program string) error {
	began := time.Now()
	dir, err := os.MkdirTemp("", "haulier-demo-")
	if err != nil {
		return err
	}
	files, err := sources(ctx)
	if err != nil {
		return err
	}
	n := &node{program: program, dir: dir}
	defer n.stop()
	if err := n.start(ctx); err != nil {
		return err
	}
	say("A server is at %s, a worker beside it; their files are in %s.", n.url, dir)
	say("%d files of the Go toolchain: a job for each runs %s.", len(files), command)
	killed := make(chan error, 1)
	halfWay, cancel := context.WithCancel(ctx)
	go func() { killed <- n.replaceWorker(halfWay, int64(len(files)/2)) }()
	err = n.mapOver(ctx, files)
	cancel()
	if err := errors.Join(err, <-killed); err != nil {
		return err
	}
	if err := n.compare(ctx, files); err != nil {
		return err
	}
	say("Done in %v. The data is kept in %s; look at it with:", time.Since(began).Round(time.Second/10), dir)
	say("  %s dev --data %s", program, filepath.Join(dir, "data"))
	return nil
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// sources lists the Go files of the toolchain's standard library and commands.
func sources(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w; is Go in the PATH?", err)
	}
	var files []string
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".go" {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) < 1000 {
		err = fmt.Errorf("only %d Go files in %s: no toolchain's sources?", len(files), root)
	}
	return files, err
}

// node is a server and a worker as processes.
type node struct {
	program string
	dir     string
	url     string
	client  *client.Client
	server  *exec.Cmd
	worker  *exec.Cmd
}

func (n *node) start(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	l.Close()
	n.url = "http://" + addr
	if n.client, err = client.New(client.Config{URL: n.url}); err != nil {
		return err
	}
	if n.server, err = n.launch("server", "serve", "--data", filepath.Join(n.dir, "data"), "--listen", addr, "--insecure"); err != nil {
		return err
	}
	if err := n.ready(ctx); err != nil {
		return err
	}
	return n.startWorker()
}

func (n *node) startWorker() (err error) {
	n.worker, err = n.launch("worker", "worker", "--url", n.url, "--name", "demo", "--state", filepath.Join(n.dir, "worker"), "--concurrency", "8")
	return err
}

// launch starts the program in the background; its log goes to a file.
func (n *node) launch(name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(n.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(n.program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the demo, which then stops them
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	return cmd, nil
}

// ready waits until the server can work.
func (n *node) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return poll(ctx, 20*time.Millisecond, "the server to be ready; see "+filepath.Join(n.dir, "server.log"), func() (bool, error) {
		resp, err := http.Get(n.url + "/readyz")
		if err != nil {
			return false, nil
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// replaceWorker kills the worker when so many jobs are done, and starts another.
func (n *node) replaceWorker(ctx context.Context, at int64) error {
	var done int64
	err := poll(ctx, 50*time.Millisecond, "half of the jobs to be done", func() (bool, error) {
		counts, err := n.client.Counts(ctx, haulier.DefaultTenant)
		done = 0
		for _, c := range counts {
			if c.State == haulier.Succeeded {
				done += c.N
			}
		}
		return done >= at, err
	})
	if err != nil {
		return err
	}
	old := n.worker
	if err := old.Process.Kill(); err != nil {
		return fmt.Errorf("kill the worker: %w", err)
	}
	_ = old.Wait() // it was killed
	if err := n.startWorker(); err != nil {
		return err
	}
	say("\nkill -9 %d: the worker is gone, with %d jobs done. Worker %d takes over.", old.Process.Pid, done, n.worker.Process.Pid)
	return nil
}

// mapOver runs haulier map over the files, with its progress on this terminal.
func (n *node) mapOver(ctx context.Context, files []string) error {
	cmd := exec.CommandContext(ctx, n.program, "map", "--url", n.url, "--name", group, "--results", "none", "--", command, "{}")
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n") + "\n")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("haulier map: %w", err)
	}
	return nil
}

// compare does the work directly and holds each job's result against it.
func (n *node) compare(ctx context.Context, files []string) error {
	direct, err := checksums(ctx, files)
	if err != nil {
		return err
	}
	again := 0
	seen := map[string]bool{}
	for cursor := ""; ; {
		page, err := n.client.List(ctx, haulier.Filter{Tenant: haulier.DefaultTenant, Group: group}, cursor, 1000)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			file := j.Task.Exec.Argv[len(j.Task.Exec.Argv)-1]
			if got, want := result(j), direct[file]; got != want || seen[file] {
				return fmt.Errorf("job %v says %q of %s; done directly it is %q", j.ID, got, file, want)
			}
			seen[file] = true
			if j.Attempt > 1 {
				again++
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(seen) != len(files) {
		return fmt.Errorf("%d results of %d files", len(seen), len(files))
	}
	say("All %d results are there, each once, and equal those of the same work done directly.", len(seen))
	say("%d jobs were in the hands of the killed worker and ran again with the next.", again)
	return nil
}

// result is the job's result as text.
func result(j *haulier.Job) string { return strings.TrimSpace(string(j.Result)) }

// checksums does all the work in one go.
func checksums(ctx context.Context, files []string) (map[string]string, error) {
	sums := make(map[string]string, len(files))
	for len(files) > 0 {
		some := files[:min(len(files), 500)]
		files = files[len(some):]
		out, err := exec.CommandContext(ctx, command, some...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		if len(lines) != len(some) {
			return nil, fmt.Errorf("%s printed %d lines for %d files", command, len(lines), len(some))
		}
		for i, line := range lines {
			sums[some[i]] = string(line)
		}
	}
	return sums, nil
}

// stop ends worker and server in good order.
func (n *node) stop() {
	for _, cmd := range []*exec.Cmd{n.worker, n.server} {
		if cmd == nil {
			continue
		}
		cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its log says how it ended
	}
	if n.client != nil {
		n.client.Close()
	}
}

// poll asks until it is so.
func poll(ctx context.Context, every time.Duration, what string, ask func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, ctx.Err())
		}
	}
}

// Package docker runs tasks of the kind container, in an engine that speaks Docker's Engine API: Docker, or Podman by its socket.
//
//	Prepare   policy, image, container created
//	Start     inputs copied into it, started, standard input fed
//	Wait      output followed, CPU, memory and I/O sampled, end; outputs copied out of it
//	Close     container and its volumes removed
//
// Nothing of the worker's machine is mounted into a container: files go in and come out through the API, so the engine may be
// on another machine and its users are no users of the worker's. What a task may ask for is said by the worker's Policy.
//
// Containers have labels that name the worker's state folder and the attempt. A worker that is killed leaves them running, and
// the next one with that folder takes them over; what it can't is removed. A watch, which is a process of its own, removes them
// when nobody comes, or when the worker's lease is over while the worker stands still.
//
// How an attempt ended follows from the exit code as with commands: 0 ok, 75 retry, 65 and 66 failed, all others error, as are
// timeouts and memory that ran out.
package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// Labels of containers.
const (
	labelOwner   = "haulier.owner" // of the state folder
	labelJob     = "haulier.job"
	labelAttempt = "haulier.attempt"
	labelTimeout = "haulier.timeout"
	labelGrace   = "haulier.grace"
	labelFiles   = "haulier.files" // folder that inputs go to and outputs come from
	labelStdin   = "haulier.stdin" // it has a standard input, which must have been fed to the end
	labelPrefix  = "haulier."
)

const (
	stateFolder = "containers" // within the worker's
	workFolder  = "work"       // within the attempt's: inputs and outputs, on this side
	callWait    = time.Minute  // for a call of the engine that takes no time by its nature
	sweepEvery  = time.Minute
)

// Config configures an Executor. The zero value runs nothing, since its policy allows no image.
type Config struct {
	// Host is the engine's address, such as unix:///run/podman/podman.sock. Empty: that of DOCKER_HOST, with the other variables
	// that Docker's programs know, or Docker's usual socket.
	Host   string
	Policy Policy
	// Watch is the command that runs RunWatch, to which "--dir DIR" is added. Empty: none, and containers of a worker
	// that is killed run until the next one comes.
	Watch []string
}

// Executor runs containers. It implements executor.Executor.
type Executor struct {
	cfg   Config
	env   executor.Env
	dir   string // state folder of containers
	owner string
	cli   *client.Client
	over  context.Context //nolint:containedctx // ends with the executor, which outlives the calls that begin attempts
	stop  context.CancelFunc
	wg    sync.WaitGroup
	poked chan struct{} // the lease has changed

	mu       sync.Mutex
	attempts map[haulier.Ref]*attempt
	until    time.Time // of the worker's lease; zero: nobody has said
	watch    *watcher  // nil: not started
}

// New returns an executor of containers.
func New(c Config) *Executor {
	x := &Executor{cfg: c, attempts: map[haulier.Ref]*attempt{}, poked: make(chan struct{}, 1)}
	x.over, x.stop = context.WithCancel(context.Background())
	return x
}

// Kind implements executor.Executor.
func (*Executor) Kind() haulier.Kind { return haulier.KindContainer }

// Open implements executor.Executor.
func (x *Executor) Open(ctx context.Context, e executor.Env) (left []executor.Attempt, err error) {
	x.env, x.dir = e, filepath.Join(e.Dir, stateFolder)
	if x.env.Log == nil {
		x.env.Log = slog.New(slog.DiscardHandler)
	}
	if e.Dir == "" {
		if x.dir, err = os.MkdirTemp("", "haulier-containers-"); err != nil {
			return nil, fmt.Errorf("containers: %w", err)
		}
	}
	if err := os.MkdirAll(x.dir, 0o700); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	if x.owner, err = ownerOf(x.dir); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	if x.cli, err = connect(x.cfg.Host); err != nil {
		return nil, err
	}
	if err := x.reach(ctx); err != nil {
		return nil, err
	}
	if left, err = x.adopt(ctx); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	if len(left) > 0 && e.Patience > 0 {
		x.until = time.Now().Add(e.Patience)
	}
	x.wg.Go(x.keep)
	return left, nil
}

// connect makes a client, which calls nobody yet.
func connect(host string) (*client.Client, error) {
	opts := []client.Opt{client.FromEnv}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	cli, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("containers: address of the engine: %w; set DOCKER_HOST, as in unix:///run/podman/podman.sock", err)
	}
	return cli, nil
}

// reach asks the engine which version of the API it speaks.
func (x *Executor) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	if _, err := x.cli.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return fmt.Errorf("containers: the engine at %s: %w; start it, or set DOCKER_HOST to one that runs", x.cli.DaemonHost(), err)
	}
	x.env.Log.Info("engine of containers", "host", x.cli.DaemonHost(), "api", x.cli.ClientVersion())
	return nil
}

// ownerOf reads, or makes up, the name under which the containers of a state folder are known.
func ownerOf(dir string) (string, error) {
	path := filepath.Join(dir, "owner")
	b, err := os.ReadFile(path)
	if owner := strings.TrimSpace(string(b)); err == nil && owner != "" {
		return owner, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	owner := rand.Text()
	return owner, os.WriteFile(path, []byte(owner+"\n"), 0o600)
}

// owned are the containers of an owner, whatever their state.
func owned(ctx context.Context, cli *client.Client, owner string) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	list, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", labelOwner+"="+owner)})
	return list.Items, err
}

// adopt finds what a former worker left. What did not get to its start is removed, and so are folders that belong to nothing.
func (x *Executor) adopt(ctx context.Context) ([]executor.Attempt, error) {
	list, err := owned(ctx, x.cli, x.owner)
	if err != nil {
		return nil, err
	}
	var left []executor.Attempt
	known := map[string]bool{}
	for i := range list {
		c := &list[i]
		a := x.known(c)
		if a == nil {
			if err := remove(ctx, x.cli, c.ID); err != nil {
				return nil, err
			}
			continue
		}
		known[filepath.Base(a.folder)] = true
		x.attempts[a.ref] = a
		left = append(left, a)
	}
	entries, err := os.ReadDir(x.dir)
	for _, e := range entries {
		if e.IsDir() && !known[e.Name()] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(x.dir, e.Name())))
		}
	}
	return left, err
}

// known makes an attempt of a container that was started; nil: it can't go on.
func (x *Executor) known(c *container.Summary) *attempt {
	job, err := haulier.ParseID(c.Labels[labelJob])
	number, err2 := strconv.Atoi(c.Labels[labelAttempt])
	if err != nil || err2 != nil || c.State == container.StateCreated || c.State == container.StateRemoving || c.State == container.StateDead {
		return nil
	}
	a := x.newAttempt(haulier.Ref{Job: job, Attempt: number})
	a.adopted, a.id, a.files = true, c.ID, c.Labels[labelFiles]
	a.timeout, _ = time.ParseDuration(c.Labels[labelTimeout]) // Prepare has written it
	a.grace, _ = time.ParseDuration(c.Labels[labelGrace])
	if _, err := os.Stat(a.folder); err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(a.folder, fedFile)); err != nil && c.Labels[labelStdin] != "" {
		return nil
	}
	return a
}

// remove ends a container and removes it with its volumes. One that is not there is no error.
func remove(ctx context.Context, cli *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callWait)
	defer cancel()
	_, err := cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if missing(err) || inRemoval(err) {
		return nil
	}
	return err
}

// Lease implements executor.Executor.
func (x *Executor) Lease(until time.Time) {
	x.mu.Lock()
	x.until = until
	w := x.watch
	x.mu.Unlock()
	if w != nil {
		w.tell(until)
	}
	select {
	case x.poked <- struct{}{}:
	default:
	}
}

// lapsed reports whether the worker's lease is over.
func (x *Executor) lapsed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.until.IsZero() && !time.Now().Before(x.until)
}

// keep ends attempts when the lease is over, and removes what belongs to no attempt, as a creation may leave whose worker was killed meanwhile.
func (x *Executor) keep() {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	lease := time.NewTimer(time.Hour)
	defer lease.Stop()
	for {
		x.mu.Lock()
		until := x.until
		x.mu.Unlock()
		if !until.IsZero() {
			lease.Reset(max(time.Until(until), 0))
		}
		select {
		case <-x.over.Done():
			return
		case <-x.poked:
			continue
		case <-sweep.C:
			x.sweep()
			continue
		case <-lease.C:
		}
		if !x.lapsed() {
			continue
		}
		for _, a := range x.live() {
			a.end(0, endedLapsed)
		}
		select {
		case <-x.poked:
		case <-x.over.Done():
			return
		}
	}
}

func (x *Executor) live() []*attempt {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := make([]*attempt, 0, len(x.attempts))
	for _, a := range x.attempts {
		list = append(list, a)
	}
	return list
}

func (x *Executor) sweep() {
	list, err := owned(x.over, x.cli, x.owner)
	if err != nil {
		return // whoever needs the engine says so
	}
	ids := map[string]bool{}
	for _, a := range x.live() {
		ids[a.container()] = true
	}
	for i := range list {
		if !ids[list[i].ID] && time.Since(time.Unix(list[i].Created, 0)) > callWait {
			x.env.Log.Warn("container of nobody is removed", "container", list[i].ID)
			x.discard(list[i].ID)
		}
	}
}

// discard removes a container, or says that it is left to the next sweep.
func (x *Executor) discard(id string) {
	if err := remove(x.over, x.cli, id); err != nil {
		x.env.Log.Warn("container not removed yet", "container", id, "err", err)
	}
}

// Close implements executor.Executor.
func (x *Executor) Close() error {
	x.stop()
	x.wg.Wait()
	x.mu.Lock()
	w := x.watch
	x.watch = nil
	x.mu.Unlock()
	var err error
	if x.env.Dir == "" && x.cli != nil {
		err = x.clear()
	}
	if w != nil {
		w.leave()
	}
	if x.cli != nil {
		err = errors.Join(err, x.cli.Close())
	}
	return err
}

// clear removes all there is, since no worker comes after this one.
func (x *Executor) clear() error {
	list, err := owned(context.Background(), x.cli, x.owner)
	for i := range list {
		err = errors.Join(err, remove(context.Background(), x.cli, list[i].ID))
	}
	return errors.Join(err, os.RemoveAll(x.dir))
}

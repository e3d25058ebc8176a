package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/executor/docker"
	httpexec "github.com/haulier/haulier/executor/http"
	"github.com/haulier/haulier/executor/process"
	"github.com/haulier/haulier/executor/script"
	"github.com/haulier/haulier/executor/wasi"
	"github.com/haulier/haulier/webhook"
	"github.com/haulier/haulier/worker"
)

// executors are the makers of executors by the name of their kind.
var executors = map[string]func(*workerFlags, *settings) executor.Executor{
	string(haulier.KindScript): func(f *workerFlags, _ *settings) executor.Executor { return f.scripts() },
	string(haulier.KindHTTP): func(f *workerFlags, _ *settings) executor.Executor {
		return httpexec.New(webhook.New(webhook.Config{AllowPrivate: f.AllowPrivate}))
	},
	string(haulier.KindWasi): func(f *workerFlags, _ *settings) executor.Executor {
		return wasi.New(wasi.Config{Memory: int64(f.WasiMemory)})
	},
	string(haulier.KindExec): func(f *workerFlags, s *settings) executor.Executor {
		return process.New(process.Config{Env: append(process.OwnEnv(), "HAULIER_URL="+s.URL), Confine: f.confine()})
	},
	string(haulier.KindContainer): func(f *workerFlags, _ *settings) executor.Executor { return docker.New(f.containers) },
}

// workerFlags say what a worker runs, and how much of it.
type workerFlags struct {
	Name        string
	Executors   []string
	Tenants     []string
	Queues      []string
	Types       []string
	Concurrency int
	Lease       time.Duration
	State       string
	Cache       byteSize
	Labels      []string
	Script      scriptFlags
	source      script.Source // of handlers
	// ContainerPolicy is a file, and ContainerHost an address of an engine; both may be empty.
	ContainerPolicy, ContainerHost string
	containers                     docker.Config
	// Confine is what commands are kept from.
	Confine process.Confine
	Limits  limitFlags
	// AllowPrivate lets tasks of kind http call addresses of the network inside.
	AllowPrivate bool
	// WasiMemory is what a module may have at most.
	WasiMemory byteSize
}

// register adds the flags; kinds are those of the tasks that it runs unless said.
func (f *workerFlags) register(fs *pflag.FlagSet, kinds ...haulier.Kind) {
	host, _ := os.Hostname()
	fs.StringVar(&f.Name, "name", host, "`NAME` of the worker; on one machine each has its own")
	var usual []string
	for _, k := range kinds {
		usual = append(usual, string(k))
	}
	fs.StringSliceVar(&f.Executors, "executors", usual, "`KINDS` of task that it runs: exec, http, container, wasi, script")
	fs.StringSliceVar(&f.Tenants, "tenants", nil, "`NAMES` of the tenants whose jobs it runs, * for all; that of --tenant unless said")
	fs.StringSliceVar(&f.Queues, "queues", nil, "`QUEUES` that it listens to, with weights from 1 to 100, such as mail=3,reports=1,*; all alike unless said")
	fs.StringSliceVar(&f.Types, "types", nil, "`TYPES` of jobs that it runs; all unless said")
	fs.IntVar(&f.Concurrency, "concurrency", runtime.NumCPU(), "`N` jobs that it runs at once")
	fs.DurationVar(&f.Lease, "lease", haulier.DefaultLease, "`TIME` after which the jobs of a lost worker run again")
	fs.StringVar(&f.State, "state", "", "`DIR` from which the next worker takes over what this one leaves when it is killed; a folder of its name and server in $XDG_STATE_HOME/haulier unless said")
	fs.StringVar(&f.ContainerPolicy, "container-policy", "", "`FILE` of JSON that says what containers may ask for; without one no image is allowed")
	fs.StringVar(&f.ContainerHost, "container-host", "", "`URL` of the engine of containers, such as unix:///run/podman/podman.sock; that of DOCKER_HOST, or Docker's usual one, unless said")
	fs.StringVar(&f.Confine.User, "user", "", "`NAME` of the user that commands run as; the worker must run as root")
	fs.BoolVar(&f.Confine.Sandbox, "sandbox", false, "run commands under bubblewrap: they see the system read-only, their own folder, and no other processes")
	fs.BoolVar(&f.Confine.PrivateTmp, "private-tmp", false, "give each command a temporary folder of its own")
	fs.StringVar(&f.Confine.Cgroup, "cgroup", "", "`DIR` of control groups of version 2, for this worker alone, in which each command gets one")
	f.Limits.register(fs, "of any command; a job may ask for less")
	f.Cache = worker.DefaultCache
	fs.Var(&f.Cache, "cache", "`SIZE` of files that are kept for the next job that needs them; 0: none")
	f.WasiMemory = wasi.DefaultMemory
	fs.Var(&f.WasiMemory, "wasi-memory", "`SIZE` of the memory that a module of a wasi task may have at most")
	f.Script.register(fs)
	fs.StringArrayVar(&f.Labels, "label", nil, "`KEY=VALUE` that jobs may ask for with --runs-on, besides os, arch and host; may be repeated")
}

// config is that of a worker without its server.
func (f *workerFlags) config(s *settings, version string, log *slog.Logger) (worker.Config, error) {
	c := worker.Config{
		Name: f.Name, Tenants: f.Tenants, Types: f.Types, Concurrency: f.Concurrency, Lease: f.Lease,
		Dir: f.State, Version: version, Log: log, Cache: int64(f.Cache),
	}
	if c.Cache == 0 {
		c.Cache = -1
	}
	var err error
	if err = f.Script.check(); err != nil {
		return c, err
	}
	if f.containers, err = f.containerConfig(); err != nil {
		return c, err
	}
	if f.confine() != (process.Confine{}) && slices.Contains(f.Executors, string(haulier.KindScript)) {
		return c, usagef("--user, --sandbox, --private-tmp, --cgroup and the limits hold for commands alone: run script in a worker of its own, and name --executors here")
	}
	for _, kind := range f.Executors {
		makeOne := executors[kind]
		if makeOne == nil {
			return c, usagef("--executors: there is no kind %q: there are %s", kind, strings.Join(slices.Sorted(maps.Keys(executors)), ", "))
		}
		x := makeOne(f, s)
		if scripts, ok := x.(*script.Executor); ok {
			c.Languages = scripts.Languages()
		}
		c.Executors = append(c.Executors, x)
	}
	if len(c.Tenants) == 0 && s.Tenant != "" {
		c.Tenants = []string{s.Tenant}
	}
	if c.Queues, err = parseQueues(f.Queues); err != nil {
		return c, err
	}
	if c.Labels, err = parseLabels("label", f.Labels); err != nil {
		return c, err
	}
	if c.Dir == "" {
		c.Dir, err = f.usualState(s)
	}
	return c, err
}

// containerConfig is that of the executor of containers, whose watch is this program.
func (f *workerFlags) containerConfig() (c docker.Config, err error) {
	c.Host = f.ContainerHost
	if f.ContainerPolicy != "" {
		if c.Policy, err = docker.ReadPolicy(f.ContainerPolicy); err != nil {
			return c, fmt.Errorf("--container-policy: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("containers: where this program is: %w", err)
	}
	c.Watch = []string{self, "watch"}
	return c, nil
}

func (f *workerFlags) confine() process.Confine {
	c := f.Confine
	c.Limits = f.Limits.limits()
	return c
}

// usualState is the folder of this worker at this server. Its name is short, for a socket in it has a path of at most 100 bytes.
func (f *workerFlags) usualState(s *settings) (string, error) {
	dir, err := s.stateFolder()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(s.URL + "\n" + f.Name))
	return filepath.Join(dir, "worker", hex.EncodeToString(sum[:6])), nil
}

// parseQueues reads queues with weights: mail=3, or * alone for a weight of 1.
func parseQueues(list []string) (map[string]int, error) {
	queues := map[string]int{}
	for _, item := range list {
		name, weight, given := strings.Cut(strings.TrimSpace(item), "=")
		n := 1
		if given {
			var err error
			if n, err = strconv.Atoi(weight); err != nil || n < 1 || n > 100 {
				return nil, usagef("--queues: the weight in %q is no number from 1 to 100, as in mail=3", item)
			}
		}
		if name == "" {
			return nil, usagef("--queues: %q has no name, as in mail=3", item)
		}
		queues[name] = n
	}
	return queues, nil
}

// parseLabels reads pairs of the form key=value, as of a flag.
func parseLabels(flag string, list []string) (map[string]string, error) {
	var labels map[string]string
	for _, item := range list {
		k, v, ok := strings.Cut(item, "=")
		if !ok || k == "" {
			return nil, usagef("--%s: %q is not of the form KEY=VALUE", flag, item)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[k] = v
	}
	return labels, nil
}

//go:build qbench

// Haulier in the comparison: bench/run.sh builds this file together with the comparison's own.
package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/haulier/haulier/bench"
)

func init() {
	for _, durability := range []string{"", "process"} {
		add(bench.Haulier{Durable: durability}, nil)
	}
	add(bench.Haulier{Over: "postgres", Store: "postgres://postgres@127.0.0.1:5499/bench?sslmode=disable"}, func() System { return newRiver(false) })
	redis := "redis://127.0.0.1:6391/0"
	add(bench.Haulier{Over: "redis-always", Store: redis}, func() System { return newAsynq("yes", "always") })
	add(bench.Haulier{Over: "redis-everysec", Store: redis}, func() System { return newAsynq("yes", "everysec") })
	add(bench.Haulier{Over: "etcd", Store: "etcd://127.0.0.1:23799/bench"}, func() System { return new(etcdSys) })
}

func add(h bench.Haulier, engine func() System) {
	h.Dir, h.Binary = baseDir, envOr("HAULIER_BIN", "haulier")
	registry[h.Name()] = func() System {
		s := &haulierSys{Haulier: new(bench.Haulier)}
		*s.Haulier = h
		if engine != nil {
			s.engine = engine()
		}
		return s
	}
}

// haulierSys is Haulier over a store of its own, or over the very server, with the
// same settings, that a peer in the comparison works over.
type haulierSys struct {
	*bench.Haulier
	engine System // starts and ends the store's server; nothing else of it is used
}

func (s *haulierSys) Setup(ctx context.Context, fresh bool) error {
	if s.engine != nil {
		if err := s.engine.Setup(ctx, fresh); err != nil {
			return err
		}
	}
	return s.Haulier.Setup(ctx, fresh)
}

// Work gives the adapter's the comparison's own type of handler.
func (s *haulierSys) Work(ctx context.Context, concurrency int, h Handler) (func(), error) {
	return s.Haulier.Work(ctx, concurrency, h)
}

func (s *haulierSys) Pids() []int {
	if s.engine == nil {
		return s.Haulier.Pids()
	}
	return append(s.Haulier.Pids(), s.engine.Pids()...)
}

func (s *haulierSys) Kill() error {
	err := s.Haulier.Kill()
	if s.engine != nil {
		return s.engine.Kill()
	}
	return err
}

func (s *haulierSys) Close() error {
	err := s.Haulier.Close()
	if s.engine != nil {
		return s.engine.Close()
	}
	return err
}

// etcdSys is one etcd with its settings as they come, but for room. No peer uses one.
type etcdSys struct {
	System
	cmd *exec.Cmd
}

func (e *etcdSys) Setup(_ context.Context, fresh bool) error {
	const client = "127.0.0.1:23799"
	if err := portFree(client); err != nil {
		return err
	}
	dir, err := freshDir("haulier-etcd-store", fresh)
	if err != nil {
		return err
	}
	e.cmd, err = startProc("etcd", filepath.Join(baseDir, "etcd.log"), "etcd", "--data-dir", dir, "--quota-backend-bytes", "8589934592",
		"--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client, "--listen-peer-urls", "http://127.0.0.1:23800",
		"--max-txn-ops", "10000", "--max-request-bytes", "8388608", "--auto-compaction-retention", "5m")
	if err != nil {
		return err
	}
	return waitTCP(client, 10*time.Second)
}

func (e *etcdSys) Pids() []int  { return []int{e.cmd.Process.Pid} }
func (e *etcdSys) Kill() error  { return e.cmd.Process.Kill() }
func (e *etcdSys) Close() error { stopCmd(e.cmd); return nil }

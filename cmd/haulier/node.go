package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/journal"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/webhook"
)

// node is an opened store with an engine over it: all of a server but the network.
type node struct {
	store  haulier.Store
	blobs  *blob.Store
	engine *engine.Engine
	ingest *journal.Ingest // nil: no journal
	data   string          // folder; "": none
	log    *slog.Logger
}

// openNode opens the store, or makes it, and builds the engine over it.
func openNode(ctx context.Context, f *nodeFlags, s *settings, log *slog.Logger) (n *node, err error) {
	n = &node{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	url := f.Store
	if n.data, err = f.folder(s); err != nil {
		return n, err
	}
	if url == "" {
		url = "pebble:" + filepath.Join(n.data, "store")
	}
	if n.store, err = openStore(ctx, url, storeOptions{Durability: f.Durability, NoMigrate: f.NoMigrate, Log: log}); err != nil {
		return n, err
	}
	switch {
	case strings.Contains(f.Blobs, "://"):
		n.blobs, err = blob.Open(ctx, f.Blobs)
	case f.Blobs != "":
		n.blobs, err = blob.OpenDir(f.Blobs)
	case n.data == "":
		n.blobs, err = blob.Open(ctx, "mem://")
	default:
		n.blobs, err = blob.OpenDir(filepath.Join(n.data, "blobs"))
	}
	if err != nil {
		return n, err
	}
	n.engine, err = engine.New(engine.Config{
		Store: n.store, Blobs: n.blobs, BlobQuota: int64(f.BlobQuota), Log: log, Webhooks: webhook.New(webhook.Config{AllowPrivate: f.AllowPrivate}),
	})
	if err == nil && f.Journal != "" {
		err = n.openJournal(f.Journal)
	}
	return n, err
}

// readyWait is how long the store may take to answer a server that says whether it is ready.
const readyWait = 5 * time.Second

// spareMemory is by how many percent the heap grows between collections. What rests in
// memory is small, and with Go's own 100 a third of a busy server's time went into them.
const spareMemory = 200

// serve answers requests on l until ctx ends, then those in flight, and returns nil.
func (n *node) serve(ctx context.Context, l net.Listener, f *nodeFlags, version string) error {
	cfg := server.Config{
		Queue: n.engine, Auth: n.engine, Hosts: f.Hosts, Log: n.log, Version: version,
		Ready: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, readyWait)
			defer cancel()
			if _, err := n.store.Now(ctx); err != nil {
				return err
			}
			_, err := n.store.Doc(ctx, haulier.DocSession, "ready") // which there is not; the clock alone may be this machine's
			if errors.Is(err, haulier.ErrNotFound) {
				err = nil
			}
			return err
		},
	}
	if f.Insecure {
		cfg.Auth = nil
	}
	if n.ingest != nil {
		cfg.Journal = &journal.Front{Journal: n.ingest.Journal, Next: n.engine, Check: checkPlain}
	}
	srv, err := server.New(cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(spareMemory)
	}
	// The engine's duties go on until the last request was answered.
	duties, stopDuties := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDuties()
	var g errgroup.Group
	serving, stopServing := context.WithCancel(ctx)
	g.Go(func() error {
		defer stopServing()
		return n.engine.Run(duties)
	})
	g.Go(func() error {
		defer stopDuties()
		n.catchUp(serving)
		return srv.Serve(serving, l)
	})
	g.Go(func() error {
		defer stopServing()
		return n.outlive(serving)
	})
	if n.ingest != nil {
		g.Go(func() error {
			defer stopServing()
			return n.ingest.Run(duties)
		})
	}
	if f.Deliveries > 0 {
		g.Go(func() error {
			defer stopServing()
			return n.deliver(serving, f, version)
		})
	}
	return g.Wait()
}

// lastWords is how long a server whose store has failed goes on telling so to who asks, before
// it ends: whatever watches over it then starts it again, which helps as soon as the disk is well.
const lastWords = 10 * time.Second

// outlive waits until ctx ends, or the store has failed for good, which is the error then.
func (n *node) outlive(ctx context.Context) error {
	s, ok := n.store.(interface{ Failed() <-chan struct{} })
	if !ok {
		<-ctx.Done()
		return nil
	}
	select {
	case <-s.Failed():
	case <-ctx.Done():
		return nil
	}
	_, err := n.store.Now(context.WithoutCancel(ctx))
	n.log.Error("the server ends soon, for its store has failed", "in", lastWords, "err", err)
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return err
}

// close ends what openNode began, in the opposite order.
func (n *node) close() error {
	var err error
	if n.ingest != nil {
		err = n.ingest.Journal.Close()
	}
	if n.engine != nil {
		n.engine.Close()
	}
	if n.blobs != nil {
		err = errors.Join(err, n.blobs.Close())
	}
	if n.store != nil {
		err = errors.Join(err, n.store.Close())
	}
	return err
}

// folder is where the server keeps its files, made when it is missing. A store in memory needs none.
func (f *nodeFlags) folder(s *settings) (dir string, err error) {
	if dir = f.Data; dir == "" {
		if f.Store == "mem:" {
			return "", nil
		}
		if dir, err = s.dataFolder(); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("data folder: %w; choose another with --data", err)
	}
	return filepath.Abs(dir)
}

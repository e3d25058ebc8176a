// Package engine holds the semantics of the queue, once, over any store:
// enqueue, claim, report, sessions and their leases, cancel and retry, pause,
// timers, retention and tokens. It implements haulier.Queue.
//
// It keeps no state that a restart would miss: what is in memory is a view of the
// store, built by New and kept by Watch.
package engine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/webhook"
)

// Config of an engine.
type Config struct {
	Store haulier.Store
	Blobs *blob.Store // payloads, logs and results too large for the store
	// BlobQuota is how many bytes of blobs a tenant may keep. Zero: no bound. It may be passed by what several servers take within an hour.
	BlobQuota int64
	Log       *slog.Logger // nil: none
	// Policy picks among lanes; nil: Fair with its defaults.
	Policy Policy
	// LogHead and LogTail are how many bytes of an attempt's output are kept from
	// its begin and its end; zero: 4 MiB each.
	LogHead, LogTail int64
	// Hooks are asked before and after an enqueue, in this order.
	Hooks []haulier.EnqueueHook
	// HookTimeout is how long each may take. Zero: haulier.DefaultHookTimeout.
	HookTimeout time.Duration
	// Webhooks calls the hooks that are reached over HTTP. Nil: one that calls no address of the network inside.
	Webhooks *webhook.Client
}

// Engine is a haulier.Queue over a store. Safe for concurrent use.
type Engine struct {
	store     haulier.Store
	blobs     *blob.Store
	usage     usage
	log       *slog.Logger
	epoch     string
	started   time.Time // by the store's clock
	sched     *scheduler
	sessions  *sessions
	queues    *queues
	outputs   *outputs
	hub       *hub
	tokens    *tokens
	hold      *hold
	limits    limits
	admitting sync.Mutex    // held while it is decided which claimed jobs may start
	poke      chan struct{} // wakes the sweeper
	alarm     alarm
	left      *backlog // changes by filter which nobody carries out
	effects   *backlog // what changes mean for other jobs, as far as it was too much for one commit
	agenda    *agenda  // when schedules are due
	compiled  compiled // workflows
	hooks     hooks
	handlers  handlers
	delivered deliveries
	windows   windows
	outcomes  outcomes
	duty      duty
	told      chan struct{} // settings have changed
	stop      context.CancelFunc
}

var (
	_ haulier.Queue         = (*Engine)(nil)
	_ haulier.Authenticator = (*Engine)(nil)
)

// New builds an engine's view of the store. Run must be called for timers,
// leases and purges to take place; Close ends the view.
func New(cfg Config) (*Engine, error) {
	if cfg.Store == nil || cfg.Blobs == nil {
		return nil, fmt.Errorf("new engine: %w: a store and blobs are needed", haulier.ErrInvalid)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Webhooks == nil {
		cfg.Webhooks = webhook.New(webhook.Config{})
	}
	if cfg.Policy == nil {
		cfg.Policy = NewFair(0)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Engine{
		delivered: deliveries{seen: make(chan struct{})},
		store:     cfg.Store, blobs: cfg.Blobs, log: cfg.Log,
		poke: make(chan struct{}, 1), told: make(chan struct{}, 1), left: newBacklog(), effects: newBacklog(), agenda: newAgenda(), stop: stop,
		usage: usage{quota: cfg.BlobQuota},
		duty:  duty{shared: cfg.Store.Opened().Shared, gained: make(chan struct{}, 1)},
		hub:   newHub(), hooks: hooks{own: cfg.Hooks, most: cfg.HookTimeout, client: cfg.Webhooks},
	}
	e.sessions = newSessions()
	e.queues = newQueues()
	e.tokens = newTokens(cfg.Store)
	e.outputs = newOutputs(cfg.LogHead, cfg.LogTail)
	e.handlers.set.Store(&map[string]haulier.Handler{})
	e.sched = newScheduler(cfg.Policy, e.handlers.fit)
	if err := e.load(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("new engine: %w", err)
	}
	return e, nil
}

// load builds the view. The watch comes first, so that nothing falls between.
func (e *Engine) load(ctx context.Context) error {
	now, err := e.store.Now(ctx)
	if err != nil {
		return err
	}
	if err := whole(ctx, e.store); err != nil {
		return err
	}
	e.started = now
	e.epoch = haulier.NewID(now).String()
	e.store.Watch(ctx, e.watched)
	if err := e.loadQueues(ctx); err != nil {
		return err
	}
	if err := e.loadLimits(ctx); err != nil {
		return err
	}
	if err := e.loadWindows(ctx); err != nil {
		return err
	}
	if err := e.loadHooks(ctx); err != nil {
		return err
	}
	if err := e.loadHandlers(ctx); err != nil {
		return err
	}
	if err := e.loadSessions(ctx); err != nil {
		return err
	}
	if err := e.loadOwners(ctx); err != nil {
		return err
	}
	return e.loadWork(ctx)
}

// Run does what nobody calls for: fires timers, ends sessions whose lease is
// over, purges old jobs, completes changes by filter that a dead server
// left, and what changes mean for other jobs, and starts what schedules start. It blocks until ctx ends and returns nil then.
func (e *Engine) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.sweep(ctx) })
	g.Go(func() error { return e.resumeWork(ctx) })
	g.Go(func() error { return e.resumeFlows(ctx) })
	g.Go(func() error { return e.keepSchedules(ctx) })
	g.Go(func() error { return e.keepOutcomes(ctx) })
	g.Go(func() error { return e.keepHooks(ctx) })
	g.Go(func() error { return e.keepBlobs(ctx) })
	g.Go(func() error { return e.keepUp(ctx) })
	err := g.Wait()
	if ctx.Err() != nil && err == nil {
		return nil
	}
	return err
}

// Close ends the engine's view of the store and wakes everybody who waits; it
// does not close the store.
func (e *Engine) Close() {
	e.stop()
	e.hold.stop()
	e.sched.close()
	e.hub.close()
	e.hooks.client.Close()
}

// watched keeps the view. The store calls it for each commit and claim; it must not block.
func (e *Engine) watched(changes []haulier.JobChange) {
	if others := func(c haulier.JobChange) bool { return c.Spec == nil }; slices.ContainsFunc(changes, others) {
		e.noteSettings()
		changes = slices.DeleteFunc(slices.Clone(changes), others)
	}
	e.sessions.changed(changes)
	e.sched.changed(changes)
	e.alarm.changed(changes, e.poke)
	e.hub.changed(changes)
	e.delivered.changed(changes)
}

func (e *Engine) now(ctx context.Context) (time.Time, error) {
	now, err := e.store.Now(ctx)
	if err != nil {
		return now, fmt.Errorf("read the store's clock: %w", err)
	}
	return now, nil
}

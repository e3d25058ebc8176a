package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/fileset"
)

// DefaultCache is how many bytes of blobs a worker with a state folder keeps unless said.
const DefaultCache = 10 << 30

// openCache opens the cache of blobs in the state folder.
func (w *Worker) openCache() error {
	if w.cfg.Dir == "" || w.cfg.Cache < 0 || w.cfg.Blobs == nil {
		return nil
	}
	size := w.cfg.Cache
	if size == 0 {
		size = DefaultCache
	}
	var err error
	w.cache, err = fileset.OpenCache(filepath.Join(w.cfg.Dir, "blobs"), size)
	return err
}

// fetchInputs puts the job's inputs into the folder of a prepared attempt. end is the report when it can't be started.
func (r *run) fetchInputs(ctx context.Context, a executor.Attempt) (end *haulier.Report) {
	if r.job.Files == nil || len(r.job.Inputs) == 0 || a.Folder() == "" {
		return nil
	}
	ctx, cancel := r.cancellable(ctx)
	defer cancel()
	files, err := r.files(ctx)
	for i := 0; err == nil && i < len(files.Inputs); i++ {
		in := &files.Inputs[i]
		r.Progress(-1, "fetching "+in.Fileset)
		err = r.patiently(ctx, func() error {
			_, err := fileset.Pull(ctx, r.s.w.cfg.Blobs, files.Tenant, in.Manifest, a.Folder(), fileset.Options{Patterns: in.Patterns, To: in.To, Cache: r.s.w.cache})
			return err
		})
		if err != nil {
			err = fmt.Errorf("inputs: %s: %w", in.Fileset, err)
		}
	}
	if err == nil {
		return nil
	}
	rep := r.failed(err.Error())
	if errors.Is(err, haulier.ErrNotFound) || errors.Is(err, haulier.ErrInvalid) {
		rep.Outcome = haulier.OutcomeFailed // another attempt would find the same
	}
	if c := r.ending(); c != causeNone {
		rep = r.stopped(c, "ended while its inputs were fetched")
	}
	return &rep
}

// keepOutputs keeps what is to stay of the working folder, and names it in the report of the end. The folder
// is there until the attempt is closed.
func (r *run) keepOutputs(ctx context.Context, end haulier.Report) haulier.Report {
	if end.Kind != haulier.ReportFinish || r.attempt.Folder() == "" || !r.adopted && (r.job.Files == nil || r.job.Outputs == nil) {
		return end
	}
	ctx, cancel := r.cancellable(ctx)
	defer cancel()
	files, err := r.files(ctx)
	if err == nil && (files.Outputs == nil || !files.Outputs.Wanted(end.Outcome)) {
		return end
	}
	var pushed fileset.Pushed
	if err == nil {
		r.Progress(-1, "keeping "+files.Outputs.Fileset)
		err = r.patiently(ctx, func() (err error) {
			pushed, err = fileset.Push(ctx, r.s.w.cfg.Blobs, files.Tenant, r.attempt.Folder(), fileset.Options{Patterns: files.Outputs.Patterns})
			return err
		})
	}
	switch c := r.ending(); {
	case err == nil:
		end.Output = pushed.Manifest
	case c != causeNone:
		return r.stopped(c, "ended while its outputs were kept")
	case end.Outcome == haulier.OutcomeOK:
		return r.failed("outputs: " + err.Error())
	default:
		end.Error = strings.TrimPrefix(end.Error+"; outputs: "+err.Error(), "; ")
	}
	return end
}

// cancellable is a context that ends when the run is to end.
func (r *run) cancellable(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := r.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	r.cancel = cancel
	if r.cause != causeNone {
		cancel(causeErrors[r.cause])
	}
	return ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.cancel = nil
		cancel(nil)
	}
}

// files asks what the folder gets, and what is kept of it.
func (r *run) files(ctx context.Context) (files haulier.JobFiles, err error) {
	if r.s.w.cfg.Blobs == nil {
		if r.adopted {
			return files, nil // this worker gave it nothing
		}
		return files, errors.New("this worker was not told where blobs are: set Config.Blobs")
	}
	err = r.patiently(ctx, func() error {
		files, err = r.s.w.cfg.Consumer.JobFiles(ctx, r.s.id, r.ref())
		return err
	})
	return files, err
}

// patiently does again what fails since the server can't be reached, as long as the session lasts.
func (r *run) patiently(ctx context.Context, do func() error) error {
	var wait backoff
	for {
		err := do()
		if err == nil || !errors.Is(err, haulier.ErrUnavailable) || r.ending() != causeNone {
			return err
		}
		if !wait.pause(ctx, r.s.over) {
			return err
		}
	}
}

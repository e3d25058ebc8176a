package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/haulier/haulier"
)

const (
	mapBatchLines = 100 // lines that are added at once
	mapInFlight   = 8   // batches on their way
)

// add reads the lines and adds a job for each. Each has a key of its own, made of the name, the
// line and how many times the line came before: so whatever part was added
// by an earlier run is found again, also when lines were added or moved since.
func (m *mapping) add(ctx context.Context, in io.Reader) error {
	in, stop := interruptible(ctx, in)
	defer stop()
	read := newLines(in)
	read.eager = true
	times := map[[16]byte]int{}
	g, adding := errgroup.WithContext(ctx)
	g.SetLimit(mapInFlight)
	var err error
	for from := 1; adding.Err() == nil; {
		b := &mapBatch{from: from, added: make(chan struct{})}
		if b.lines, err = read.batch(mapBatchLines); err != nil || len(b.lines) == 0 {
			break
		}
		from += len(b.lines)
		for _, line := range b.lines {
			b.keys = append(b.keys, m.key(line, times))
		}
		m.grow(b)
		g.Go(func() error { return m.addBatch(adding, b) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	m.end()
	return nil
}

// key of a line, by which a repeated enqueue finds its job.
func (m *mapping) key(line string, times map[[16]byte]int) string {
	sum := sha256.Sum256([]byte(line))
	short := [16]byte(sum[:16])
	n := times[short]
	times[short]++
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00%s", m.name, n, line)
	return "map:" + hex.EncodeToString(h.Sum(nil)[:16])
}

// addBatch adds the jobs of some lines.
func (m *mapping) addBatch(ctx context.Context, b *mapBatch) error {
	reqs := make([]haulier.EnqueueRequest, len(b.lines))
	for i, line := range b.lines {
		reqs[i] = haulier.EnqueueRequest{Jobs: []haulier.Spec{m.specOf(line)}, Key: b.keys[i]}
	}
	results, err := m.q.Enqueue(ctx, reqs)
	if err != nil {
		return err
	}
	var old []haulier.ID
	ids := make([]haulier.ID, len(results))
	for i, r := range results {
		if r.Err != nil {
			return m.refused(b.from+i, r.Err)
		}
		if len(r.Dropped) > 0 {
			return m.refused(b.from+i, fmt.Errorf("%w: dropped by %s", haulier.ErrRefused, r.Dropped[0].Reason))
		}
		ids[i] = r.IDs[0]
		m.tally.known(ids[i], r.Repeated)
		if r.Repeated {
			old = append(old, ids[i])
		}
	}
	m.look(ctx, old)
	b.ids = ids
	close(b.added)
	return nil
}

func (m *mapping) refused(line int, err error) error {
	if errors.Is(err, haulier.ErrConflict) {
		return fmt.Errorf("line %d: %w: under the name %s it ran with another command, other flags, or in another folder; use another --name", line, haulier.ErrConflict, m.name)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// specOf is the job of a line.
func (m *mapping) specOf(line string) haulier.Spec {
	spec := m.spec
	t := *spec.Task.Exec
	t.Argv = argvFor(t.Argv, t.Shell, line)
	spec.Task.Exec = &t
	return spec
}

// argvFor puts the line into a command. What a shell is to read never has the
// line in it, only "$1", so that no character of a line is taken for a command.
func argvFor(argv []string, shell bool, line string) []string {
	if shell {
		return []string{strings.ReplaceAll(argv[0], "{}", `"$1"`), "haulier", line}
	}
	out := make([]string, 0, len(argv)+1)
	found := false
	for _, a := range argv {
		found = found || strings.Contains(a, "{}")
		out = append(out, strings.ReplaceAll(a, "{}", line))
	}
	if !found {
		out = append(out, line)
	}
	return out
}

func (m *mapping) grow(b *mapBatch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches = append(m.batches, b)
	close(m.grown)
	m.grown = make(chan struct{})
}

// end notes that all lines were read and added.
func (m *mapping) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = true
	m.tally.complete()
	close(m.grown)
	m.grown = make(chan struct{})
}

// interruptible returns a reader that ends with ctx, even while the one below waits for input.
// stop must be called. A read that still waits then keeps its goroutine until input comes or the program ends.
func interruptible(ctx context.Context, r io.Reader) (io.Reader, func()) {
	pr, pw := io.Pipe()
	unhook := context.AfterFunc(ctx, func() { pr.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(pw, r)
		pw.CloseWithError(err)
	}()
	return pr, func() {
		unhook()
		pr.Close()
	}
}

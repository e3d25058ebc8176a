package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/haulier/haulier"
)

// feed reads the stream of changes and tells the watchers, in the stream's order:
//
//	10-0  by h3x…/7  n 1
//	12-0  by p0q…/4  n 2
//
// An entry's id is the number of its last change, of which it has n; so each follows the one
// before without a gap, and one that is missing shows. by is the server and the number of its call.
//
// A call of this server waits until its entry comes back, by which its changes have their
// place among those of the others, and they are then told in full. What the others changed is in
// the stream of details, in entries of at most 50 changes, with the same number and, behind the dash, one of their own:
//
//	12-0  before "pending pending"  SPEC STATUS  SPEC STATUS
//
// For each change there are the state before, "new" when there was none, and the two values of the job (record.go), without
// payload and result unless they are small; the status of one that was removed is "". Of a batch with Tell all is empty.
type feed struct {
	client  rueidis.Client
	prefix  string // of all keys
	log     *slog.Logger
	origin  string // names this opening of the store
	calls   atomic.Uint64
	stop    context.CancelFunc
	stopped chan struct{}
	failed  chan struct{} // closed after err was set

	mu       sync.Mutex // guards what follows
	err      error
	waiting  map[string]*call // calls under way, by their tag
	watchers []watcher
}

// call is a commit or claim under way.
type call struct {
	tag     string
	ended   bool          // guarded by the feed's lock
	replied chan struct{} // closed when changes are known, or will not be
	changes []haulier.JobChange
	told    chan struct{}
}

type watcher struct {
	ctx context.Context //nolint:containedctx // it says until when the watcher wants to hear
	f   func([]haulier.JobChange)
}

func newFeed(s *Store) *feed {
	return &feed{
		client: s.client, prefix: s.prefix, log: s.log, origin: rand.Text()[:12],
		stopped: make(chan struct{}), failed: make(chan struct{}), waiting: map[string]*call{},
	}
}

func (f *feed) tag(n uint64) string { return f.origin + "/" + strconv.FormatUint(n, 10) }

// begin announces a call whose entry may come.
func (f *feed) begin() *call {
	c := &call{tag: f.tag(f.calls.Add(1)), replied: make(chan struct{}), told: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting[c.tag] = c
	return c
}

// end follows every begin. Should the call's entry yet come, since its reply was lost, it is told as those of others are.
func (f *feed) end(c *call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, c.tag)
	f.reply(c, nil)
}

// reply makes the changes of a call known, once. The caller holds the lock.
func (f *feed) reply(c *call, changes []haulier.JobChange) {
	if !c.ended {
		c.ended, c.changes = true, changes
		close(c.replied)
	}
}

// settle waits until the changes of a call were told.
func (f *feed) settle(ctx context.Context, c *call, changes []haulier.JobChange) error {
	f.mu.Lock()
	f.reply(c, changes)
	f.mu.Unlock()
	select {
	case <-c.told:
		return nil
	case <-f.failed:
		return f.failure()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Watch implements haulier.Store. What other servers changed is told without payloads and results.
func (s *Store) Watch(ctx context.Context, fn func([]haulier.JobChange)) {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.feed.watchers = append(s.feed.watchers, watcher{ctx, fn})
}

func (f *feed) tell(changes []haulier.JobChange) {
	if len(changes) == 0 {
		return
	}
	f.mu.Lock()
	alive := make([]watcher, 0, len(f.watchers))
	for _, w := range f.watchers {
		if w.ctx.Err() == nil {
			alive = append(alive, w)
		}
	}
	f.watchers = alive
	f.mu.Unlock()
	for _, w := range alive {
		w.f(changes)
	}
}

// start reads the stream behind an entry, until close.
func (f *feed) start(position string) {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.stopped)
		r := &reader{feed: f, position: position, by: f.tag(0)}
		if err := r.run(ctx); err != nil {
			f.fail(err)
		}
	}()
}

func (f *feed) close() {
	f.stop()
	<-f.stopped
}

func (f *feed) fail(err error) {
	f.log.Error("changes were missed", "err", err)
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	close(f.failed)
}

func (f *feed) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// reader is where the feed stands in the stream.
type reader struct {
	*feed
	position string // id of the last entry that was read
	by       string // its tag
}

// entry is an entry of the stream of changes.
type entry struct {
	id      string
	by      string
	n       int64
	none    bool // nothing changed: a server has begun
	details []rueidis.XRangeSlice
}

// Between attempts to reach Redis again the reader waits, each time longer.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// block is for how long Redis keeps a read that finds nothing.
const block = 20 * time.Second

// errMissed ends the reader: the stream does not go on where it was left.
var errMissed = fmt.Errorf("redis: %w: changes of others were missed, since this server was cut off for too long or Redis has lost data; "+
	"open the store again", haulier.ErrUnavailable)

// run reads until ctx ends, which is no error.
func (r *reader) run(ctx context.Context) error {
	pause := firstPause
	for {
		err := r.read(ctx)
		if err == nil {
			pause = firstPause
			continue
		}
		for err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, errMissed) || errors.Is(err, haulier.ErrCorrupt) {
				return err
			}
			r.log.Warn("changes can't be read", "err", err, "again_in", pause)
			if !sleep(ctx, pause) {
				return nil
			}
			pause = min(2*pause, lastPause)
			err = r.resume(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read waits for entries and tells them.
func (r *reader) read(ctx context.Context) error {
	cmd := r.client.B().Xread().Count(200).Block(block.Milliseconds()).Streams().Key(r.prefix + "changes").Id(r.position).Build()
	// By twice the time Redis would have answered. With a deadline, the client would not heed that ctx ends before it.
	limited, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(2*block, cancel).Stop()
	defer cancel()
	streams, err := r.client.Do(limited, cmd).AsXReadSlices()
	if rueidis.IsRedisNil(err) {
		return nil // nothing came
	}
	if err != nil {
		return translate(ctx, err)
	}
	entries := make([]entry, 0, len(streams[r.prefix+"changes"]))
	for _, x := range streams[r.prefix+"changes"] {
		e, err := parseEntry(x)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if err := r.detail(ctx, entries); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if previous(e.id, e.n) != r.position {
			return errMissed
		}
		if err := r.told(ctx, e); err != nil {
			return err
		}
		r.position, r.by = e.id, e.by
	}
	return nil
}

// detail reads the details of those entries that are not of a call of this server, in one go.
func (r *reader) detail(ctx context.Context, entries []entry) error {
	var others []*entry
	r.mu.Lock()
	for i := range entries {
		if e := &entries[i]; r.waiting[e.by] == nil && !e.none {
			others = append(others, e)
		}
	}
	r.mu.Unlock()
	if len(others) == 0 {
		return nil
	}
	asked := make([]rueidis.Completed, len(others))
	for i, e := range others {
		number, _, _ := strings.Cut(e.id, "-")
		asked[i] = r.client.B().Xrange().Key(r.prefix + "details").Start(number).End(number).Build()
	}
	for i, res := range r.client.DoMulti(ctx, asked...) {
		var err error
		if others[i].details, err = res.AsXRangeSlices(); err != nil {
			return translate(ctx, err)
		}
	}
	return nil
}

// previous is the id that the entry before one with n changes has.
func previous(id string, n int64) string {
	number, _, _ := strings.Cut(id, "-")
	last, _ := strconv.ParseInt(number, 10, 64) // what is no number follows nothing
	return strconv.FormatInt(last-n, 10) + "-0"
}

// resume looks, after a break, whether the entry at which it stood is still what it was.
func (r *reader) resume(ctx context.Context) error {
	found, err := r.client.Do(ctx, r.client.B().Xrange().Key(r.prefix+"changes").Start(r.position).End(r.position).Build()).AsXRangeSlices()
	if err != nil {
		return translate(ctx, err)
	}
	if len(found) != 1 {
		return errMissed
	}
	if e, err := parseEntry(found[0]); err != nil || e.by != r.by {
		return errMissed
	}
	return nil
}

// told tells the changes of an entry.
func (r *reader) told(ctx context.Context, e *entry) error {
	r.mu.Lock()
	own := r.waiting[e.by]
	r.mu.Unlock()
	if own != nil {
		<-own.replied // which the call's own connection brings, or its end
		if own.changes != nil {
			r.tell(own.changes)
			close(own.told)
			return nil
		}
	}
	if e.details == nil && !e.none { // it was of a call that got no reply
		one := []entry{{id: e.id, by: "", n: e.n}}
		if err := r.detail(ctx, one); err != nil {
			return err
		}
		e.details = one[0].details
	}
	changes, err := e.decode()
	if err != nil {
		return err
	}
	r.tell(changes)
	return nil
}

func parseEntry(x rueidis.XRangeSlice) (entry, error) {
	e := entry{id: x.ID}
	for _, f := range x.FieldValues {
		var err error
		switch f.Field {
		case "by":
			e.by = f.Value
		case "none":
			e.none = true
		case "n":
			if e.n, err = strconv.ParseInt(f.Value, 10, 64); err != nil {
				return e, corrupt("an entry of the changes has %.30q as its number", f.Value)
			}
		}
	}
	return e, nil
}

// decode reads the changes of an entry from its details. Where some are missing, they were dropped before they were read.
func (e *entry) decode() ([]haulier.JobChange, error) {
	if e.none {
		return nil, nil
	}
	var changes []haulier.JobChange
	for _, x := range e.details {
		some, err := decodeDetails(x.FieldValues)
		if err != nil {
			return nil, fmt.Errorf("read the changes: %w", err)
		}
		changes = append(changes, some...)
	}
	if int64(len(changes)) != e.n {
		return nil, errMissed
	}
	return changes, nil
}

// decodeDetails reads an entry of the details.
func decodeDetails(fields []rueidis.XRangeFieldValue) ([]haulier.JobChange, error) {
	if len(fields) == 0 {
		return nil, corrupt("details have no beginning")
	}
	befores, rest := strings.Split(fields[0].Value, " "), fields[1:]
	if len(befores) != len(rest) {
		return nil, corrupt("details are of %d changes, and tell %d", len(befores), len(rest))
	}
	changes := make([]haulier.JobChange, len(rest))
	for i, f := range rest {
		var err error
		if changes[i], err = decodeChange(befores[i], f.Field, f.Value); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func decodeChange(before, spec, status string) (c haulier.JobChange, err error) {
	var state haulier.State
	if before != "new" {
		if state, err = parseState(before); err != nil {
			return c, err
		}
	}
	if spec == "" { // a batch with Tell
		return c, nil
	}
	if status == "" { // it was removed
		gone, err := parseSpec(spec)
		gone.Payload = nil
		return haulier.JobChange{Spec: &gone, Before: state}, err
	}
	j, err := parseJob(spec, status)
	if err != nil {
		return c, err
	}
	j.Payload, j.Result = nil, nil
	return haulier.JobChange{Spec: &j.Spec, Before: state, Status: j.Status}, nil
}

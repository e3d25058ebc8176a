package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/haulier/haulier"
)

// Several servers work over one store without a leader: whatever one is asked, it decides by what the store says, and
// commits by compare-and-set. Three things need more than that. What one server keeps in mind, the others read again: settings when
// they are told that some have changed (Batch.Tell), and now and then in case they were not, sessions every few seconds. What a server that died has begun, another completes. And what
// each of them could do but one is enough for (timers, ends of sessions, purges, schedules) is a duty, which one of them
// holds by lease.

// DocDuty is the kind of the document that says which server does what one is enough for. Its key is the duty.
const DocDuty haulier.DocKind = "duty"

const (
	dutyKey     = "timers"
	dutyLease   = 6 * time.Second
	keepUpWait  = 2 * time.Second  // between two looks at what other servers did
	settingsMax = 10 * time.Second // between two looks at settings when nobody tells of any
	followEvery = time.Second      // between two looks at output that grows at another server
	takeOver    = 15 * time.Second // after which a change by filter that does not go on counts as left
)

// duty is whether this server does what one is enough for.
type duty struct {
	shared bool // other servers may work over the store
	mine   atomic.Bool
	gained chan struct{}
}

// held reports whether the duty is this server's.
func (d *duty) held() bool { return !d.shared || d.mine.Load() }

// await waits until the duty may be this server's.
func (d *duty) await(ctx context.Context) {
	for !d.held() && ctx.Err() == nil {
		timer := time.NewTimer(keepUpWait)
		select {
		case <-d.gained:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// soon is when what other servers do without telling, such as output that they take, is looked at again; nil: there are no others.
func (d *duty) soon() <-chan time.Time {
	if !d.shared {
		return nil
	}
	return time.After(followEvery)
}

type dutyDoc struct {
	Server string    `json:"server"`
	Until  time.Time `json:"until"`
}

// keepUp looks at what other servers over the store do, and takes the duty when nobody has it.
func (e *Engine) keepUp(ctx context.Context) error {
	if !e.duty.shared {
		return nil
	}
	defer e.resign(ctx)
	left := leftovers{}
	lapse := time.Time{} // of the duty, by this machine's clock
	look := time.Time{}  // at the settings, by the same
	for ctx.Err() == nil {
		asked := time.Now()
		mine, err := e.claimDuty(ctx)
		if err == nil && mine {
			lapse = asked.Add(dutyLease)
		}
		if err != nil && !time.Now().Before(lapse) {
			mine = false // others may have it by now
		} else if err != nil {
			mine = e.duty.mine.Load()
		}
		e.tellDuty(mine)
		if err == nil {
			err = e.refreshSessions(ctx)
		}
		if err == nil && !time.Now().Before(look) {
			if err = e.loadSettings(ctx); err == nil {
				look = time.Now().Add(settingsMax)
			}
		}
		if err == nil && mine {
			err = errors.Join(e.loadFlow(ctx), e.takeOver(ctx, left))
		}
		if err != nil && ctx.Err() == nil {
			e.log.Error("what other servers do is not known", "err", err)
		}
		if !e.hear(ctx) {
			look = time.Time{}
		}
	}
	return nil
}

// hear reads settings, for a while, when others tell that some have changed; false: once it could not.
func (e *Engine) hear(ctx context.Context) bool {
	timer := time.NewTimer(keepUpWait)
	defer timer.Stop()
	for {
		select {
		case <-e.told:
			if err := e.loadSettings(ctx); err != nil && ctx.Err() == nil {
				e.log.Error("settings that were changed are not known", "err", err)
				return false
			}
		case <-timer.C:
			return true
		case <-ctx.Done():
			return true
		}
	}
}

// noteSettings notes that settings were changed, here or at another server.
func (e *Engine) noteSettings() {
	if !e.duty.shared {
		return
	}
	select {
	case e.told <- struct{}{}:
	default:
	}
}

// loadSettings reads what is kept in mind of settings.
func (e *Engine) loadSettings(ctx context.Context) error {
	e.tokens.clear()
	e.agenda.doubt()
	return errors.Join(e.loadQueues(ctx), e.loadLimits(ctx), e.loadWindows(ctx), e.loadHandlers(ctx), e.loadHooks(ctx))
}

func (e *Engine) tellDuty(mine bool) {
	if e.duty.mine.Swap(mine) == mine {
		return
	}
	e.log.Info("timers, leases, purges and schedules", "are kept by this server", mine)
	if mine {
		select {
		case e.duty.gained <- struct{}{}:
		default:
		}
	}
}

// claimDuty takes the duty, or keeps it; false: it is another's. A server whose clock is wrong takes none.
func (e *Engine) claimDuty(ctx context.Context) (bool, error) {
	if err := e.skewed(ctx); err != nil {
		return false, err
	}
	now, err := e.now(ctx)
	if err != nil {
		return false, err
	}
	d, err := e.store.Doc(ctx, DocDuty, dutyKey)
	if err != nil && !errors.Is(err, haulier.ErrNotFound) {
		return false, err
	}
	var old dutyDoc
	if err == nil && json.Unmarshal(d.Value, &old) == nil && old.Server != e.epoch && now.Before(old.Until) {
		return false, nil
	}
	v, err := json.Marshal(dutyDoc{Server: e.epoch, Until: now.Add(dutyLease)})
	if err != nil {
		return false, err
	}
	err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: DocDuty, Key: dutyKey, Expect: d.Rev, Value: v}}})
	if errors.Is(err, haulier.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// resign gives the duty up, so that another server has it soon.
func (e *Engine) resign(ctx context.Context) {
	if !e.duty.mine.Swap(false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepUpWait)
	defer cancel()
	d, err := e.store.Doc(ctx, DocDuty, dutyKey)
	var held dutyDoc
	if err == nil {
		err = json.Unmarshal(d.Value, &held)
	}
	if err == nil && held.Server == e.epoch {
		err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: DocDuty, Key: dutyKey, Expect: d.Rev}}})
	}
	if err != nil {
		e.log.Warn("timers and schedules stand still for some seconds: they could not be handed over", "err", err)
	}
}

// leftovers are changes by filter that are under way, and how far each was when it was last seen to go on.
type leftovers map[string]progress

type progress struct {
	rev  uint64
	seen time.Time
}

// takeOver completes changes by filter that a server has begun and does not go on with.
func (e *Engine) takeOver(ctx context.Context, known leftovers) error {
	alive := map[string]bool{}
	err := e.eachWork(ctx, func(d *haulier.Doc, op string) {
		if follows(op) {
			return
		}
		alive[d.Key] = true
		switch p, ok := known[d.Key]; {
		case !ok || p.rev != d.Rev:
			known[d.Key] = progress{d.Rev, time.Now()}
		case time.Since(p.seen) >= takeOver:
			e.left.add(d.Key)
		}
	})
	for key := range known {
		if !alive[key] {
			delete(known, key)
		}
	}
	return err
}

// session is what is known of a live session. One that was opened at another server is read from the store. ErrLeaseLost: there is none.
func (e *Engine) session(ctx context.Context, id haulier.ID) (*session, error) {
	s, err := e.sessions.get(id)
	if err == nil || !e.duty.shared {
		return s, err
	}
	return e.findSession(ctx, id)
}

// findSession reads a session from the store.
func (e *Engine) findSession(ctx context.Context, id haulier.ID) (*session, error) {
	d, missing := e.store.Doc(ctx, haulier.DocSession, id.String())
	switch {
	case errors.Is(missing, haulier.ErrNotFound):
		return nil, noSession(id)
	case missing != nil:
		return nil, fmt.Errorf("session %v: %w", id, missing)
	}
	return e.adoptSession(ctx, &d)
}

// adoptSession takes a session into the view, with the jobs that it has.
func (e *Engine) adoptSession(ctx context.Context, d *haulier.Doc) (*session, error) {
	var v sessionDoc
	if err := json.Unmarshal(d.Value, &v); err != nil {
		return nil, fmt.Errorf("session %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
	}
	s := e.sessions.adopt(newSession(v.Session, d.Rev))
	for cursor := ""; ; {
		page, err := e.store.List(ctx, haulier.Query{Session: s.ID, Cursor: cursor, Limit: 1000})
		if err != nil {
			return nil, fmt.Errorf("session %v: %w", s.ID, err)
		}
		for _, j := range page.Jobs {
			e.sessions.changed([]haulier.JobChange{{Spec: &j.Spec, Status: j.Status}})
		}
		if cursor = page.Next; cursor == "" {
			return s, nil
		}
	}
}

// refreshSessions takes the sessions of other servers into the view, and those that have ended out of it.
func (e *Engine) refreshSessions(ctx context.Context) error {
	before := e.sessions.all()
	there := map[haulier.ID]bool{}
	for after := ""; ; {
		docs, err := e.store.Docs(ctx, haulier.DocSession, "", after, 500)
		if err != nil {
			return err
		}
		for i := range docs {
			after = docs[i].Key
			id, err := haulier.ParseID(docs[i].Key)
			if err != nil {
				return fmt.Errorf("session %s: %w: %w", docs[i].Key, haulier.ErrCorrupt, err)
			}
			there[id] = true
			if _, err := e.sessions.get(id); err == nil {
				continue
			}
			if _, err := e.adoptSession(ctx, &docs[i]); err != nil {
				return err
			}
		}
		if len(docs) < 500 {
			break
		}
	}
	for _, s := range before {
		if !there[s.ID] {
			e.sessions.remove(s)
			e.hold.said(s.ID)
		}
	}
	return nil
}

// gone notes that the store knows a session no more, which another server has ended.
func (e *Engine) gone(s *session, err error) error {
	if errors.Is(err, haulier.ErrLeaseLost) {
		e.sessions.remove(s)
	}
	return err
}

package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/haulier/haulier"
)

// maxRemembered bounds the sessions whose tenants are remembered. What was
// forgotten is asked for again.
const maxRemembered = 100_000

// sessionBook remembers which tenants the sessions serve: they never change.
type sessionBook struct {
	mu      sync.Mutex
	tenants map[haulier.ID][]string
}

func newSessionBook() *sessionBook { return &sessionBook{tenants: map[haulier.ID][]string{}} }

func (b *sessionBook) put(id haulier.ID, tenants []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for old := range b.tenants {
		if len(b.tenants) < maxRemembered {
			break
		}
		delete(b.tenants, old)
	}
	b.tenants[id] = tenants
}

func (b *sessionBook) get(id haulier.ID) ([]string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tenants[id]
	return t, ok
}

func (b *sessionBook) drop(id haulier.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tenants, id)
}

// admitSession checks that the caller's token is for all tenants of a session.
// One that was opened at another server, or before a restart, is looked up.
func (s *Server) admitSession(ctx context.Context, who caller, id haulier.ID) error {
	if who.everywhere() {
		return nil
	}
	tenants, ok := s.sessions.get(id)
	if !ok {
		list, err := s.Queue.Sessions(ctx, "")
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].ID == id {
				tenants, ok = list[i].Tenants, true
				s.sessions.put(id, tenants)
			}
		}
	}
	if !ok {
		return fmt.Errorf("session %v: %w: it has expired or was closed; open another", id, haulier.ErrLeaseLost)
	}
	return who.serves(tenants)
}

// serves checks that the caller may act for all of the tenants.
func (c caller) serves(tenants []string) error {
	for _, t := range tenants {
		if !c.everywhere() && t != c.tenant {
			return c.foreign(t)
		}
	}
	return nil
}

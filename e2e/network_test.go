package e2e_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// link is a piece of network between two processes, which can be cut.
type link struct {
	network, to string

	l  net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	state linkState
	conns map[net.Conn]bool
	heal  chan struct{} // closed when a silent link passes bytes again
}

type linkState int

const (
	linkUp     linkState = iota
	linkDown             // connections break, new ones are refused
	linkSilent           // connections stay, and nothing comes through
)

// newLink leads from an address of its own to another, until the test ends.
func newLink(t testing.TB, network, to string) *link {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" { // a socket is known by the folder that it is in
		dir, err := os.MkdirTemp("/tmp", "hl")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		at = filepath.Join(dir, filepath.Base(to))
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	k := &link{network: network, to: to, l: l, conns: map[net.Conn]bool{}, heal: make(chan struct{})}
	close(k.heal)
	k.wg.Go(k.accept)
	t.Cleanup(func() {
		l.Close()
		k.set(linkDown)
		k.wg.Wait()
	})
	return k
}

func (k *link) addr() string { return k.l.Addr().String() }

// set changes what becomes of bytes.
func (k *link) set(s linkState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case s == linkSilent && k.state != linkSilent:
		k.heal = make(chan struct{})
	case s != linkSilent && k.state == linkSilent:
		close(k.heal)
	}
	k.state = s
	if s == linkDown {
		for c := range k.conns {
			c.Close()
		}
	}
}

func (k *link) accept() {
	for {
		in, err := k.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial(k.network, k.to)
		if err != nil {
			in.Close()
			continue
		}
		k.mu.Lock()
		if k.state == linkDown {
			in.Close()
			out.Close()
		} else {
			k.conns[in], k.conns[out] = true, true
			k.wg.Go(func() { k.pass(in, out) })
			k.wg.Go(func() { k.pass(out, in) })
		}
		k.mu.Unlock()
	}
}

// pass carries bytes one way. What was read while the link is silent comes when it is not any more, as TCP has it.
func (k *link) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		k.mu.Lock()
		heal := k.heal
		k.mu.Unlock()
		<-heal
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			if half, ok := to.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			k.forget(from)
			return
		}
		if err != nil {
			break
		}
	}
	from.Close()
	to.Close()
	k.forget(from)
	k.forget(to)
}

func (k *link) forget(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

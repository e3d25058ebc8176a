package services

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Link is a piece of network between two processes, which can be cut. Safe for concurrent use.
type Link struct {
	network, to string

	l  net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	state LinkState
	conns map[net.Conn]bool
	heal  chan struct{} // closed when a silent link passes bytes again
}

// LinkState is what becomes of connections and bytes.
type LinkState int

// The states of a link.
const (
	LinkUp     LinkState = iota
	LinkDown             // connections break, new ones are refused
	LinkSilent           // connections stay, and nothing comes through
)

// NewLink leads from an address of its own to another, until the test ends. network is tcp or unix.
func NewLink(tb testing.TB, network, to string) *Link {
	tb.Helper()
	at := "127.0.0.1:0"
	if network == "unix" { // a socket is known by the folder that it is in
		dir, err := os.MkdirTemp("/tmp", "hl")
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { os.RemoveAll(dir) })
		at = filepath.Join(dir, filepath.Base(to))
	}
	l, err := net.Listen(network, at)
	if err != nil {
		tb.Fatal(err)
	}
	k := &Link{network: network, to: to, l: l, conns: map[net.Conn]bool{}, heal: make(chan struct{})}
	close(k.heal)
	k.wg.Go(k.accept)
	tb.Cleanup(func() {
		l.Close()
		k.Set(LinkDown)
		k.wg.Wait()
	})
	return k
}

// Addr is where the link begins.
func (k *Link) Addr() string { return k.l.Addr().String() }

// Set changes what becomes of bytes.
func (k *Link) Set(s LinkState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case s == LinkSilent && k.state != LinkSilent:
		k.heal = make(chan struct{})
	case s != LinkSilent && k.state == LinkSilent:
		close(k.heal)
	}
	k.state = s
	if s == LinkDown {
		for c := range k.conns {
			c.Close()
		}
	}
}

func (k *Link) accept() {
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
		if k.state == LinkDown {
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
func (k *Link) pass(from, to net.Conn) {
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
				_ = half.CloseWrite() // whose end the other side sees
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

func (k *Link) forget(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

// Break breaks all connections; new ones can be made at once.
func (k *Link) Break() {
	k.Set(LinkDown)
	k.Set(LinkUp)
}

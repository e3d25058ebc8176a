package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// EtcdServer is an etcd of one member of the tests' own, in a folder of its own on ports of its own.
type EtcdServer struct {
	Dir  string
	Addr string // where it serves clients
	at   Place
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	said bytes.Buffer  // its log; to be read after done
}

// URL of it, with the prefix that keys get.
func (e *EtcdServer) URL(prefix string) string { return "etcd://" + e.Addr + "/" + prefix }

// Kill ends it as kill -9 does, and waits for that.
func (e *EtcdServer) Kill() {
	_ = e.cmd.Process.Kill() // it may have ended
	<-e.done
}

// Ask sends a request, as etcd takes them as JSON over HTTP, and returns the reply. Keys and values in it are base64.
func (e *EtcdServer) Ask(tb testing.TB, path, body string) (status int, reply []byte) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, "http://"+e.Addr+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	if reply, err = io.ReadAll(res.Body); err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, reply
}

var sharedEtcd struct {
	once   sync.Once
	server *EtcdServer
	err    error
}

// EtcdSettings are those that Haulier asks of an etcd; see docs/etcd.md.
var EtcdSettings = []string{
	"--max-txn-ops=16384", "--max-request-bytes=33554432", "--quota-backend-bytes=8589934592",
	"--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
}

// Etcd is the server that all tests of the process share; each takes a prefix of its own. Where there is memory that looks
// like a disk it lives there: etcd syncs each write, and how long a disk takes for that is not what tests are about.
// StopEtcd ends it.
func Etcd(tb testing.TB) *EtcdServer {
	tb.Helper()
	needEtcd(tb)
	s := &sharedEtcd
	s.once.Do(func() {
		dir, err := os.MkdirTemp("/dev/shm", "haulier-etcd-")
		if err != nil { // there is none on this system
			dir, err = os.MkdirTemp("", "haulier-etcd-")
		}
		if s.err = err; err == nil {
			var members []*EtcdServer
			if members, s.err = runEtcd(Place{}, dir, 1, EtcdSettings...); s.err == nil {
				s.server = members[0]
			}
		}
	})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// StopEtcd ends the shared server, if there is one, and removes its folder.
func StopEtcd() {
	if e := sharedEtcd.server; e != nil {
		e.Kill()
		_ = os.RemoveAll(e.Dir) // of the system's temporary files
	}
}

// StartEtcd starts a server whose data live in dir, with further settings, and kills it at the end of the test.
func StartEtcd(tb testing.TB, dir string, settings ...string) *EtcdServer {
	tb.Helper()
	return StartEtcdAt(tb, Place{}, dir, settings...)
}

// StartEtcdAt is StartEtcd at another place.
func StartEtcdAt(tb testing.TB, at Place, dir string, settings ...string) *EtcdServer {
	tb.Helper()
	needEtcd(tb)
	members, err := runEtcd(at, dir, 1, settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(members[0].Kill)
	return members[0]
}

// Restart starts a killed server again, on the same ports and with what it had.
func (e *EtcdServer) Restart(tb testing.TB) {
	tb.Helper()
	next, err := startEtcd(e.at, e.Dir, e.Addr, e.cmd.Args[1:])
	if err != nil {
		tb.Fatal(err)
	}
	e.cmd, e.done = next.cmd, next.done
	tb.Cleanup(next.Kill)
}

// needEtcd skips the test where there is no etcd; in CI that is a failure.
func needEtcd(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("etcd"); err == nil {
		return
	}
	const what = "etcd is not installed; on Debian: apt-get install etcd-server; on macOS: brew install etcd"
	if os.Getenv("CI") != "" {
		tb.Fatal(what)
	}
	tb.Skip(what)
}

// StartEtcdCluster starts a cluster of n members, whose data live in folders within dir, and kills them at the end of the test.
func StartEtcdCluster(tb testing.TB, dir string, n int) []*EtcdServer {
	tb.Helper()
	needEtcd(tb)
	members, err := runEtcd(Place{}, dir, n, EtcdSettings...)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range members {
		tb.Cleanup(e.Kill)
	}
	return members
}

// runEtcd starts a cluster and waits until it answers. Another may come first to a spare port: then it tries again.
func runEtcd(at Place, dir string, n int, settings ...string) (members []*EtcdServer, err error) {
	for range 5 {
		if members, err = tryEtcd(at, dir, n, settings); err == nil {
			return members, nil
		}
		for i := range n {
			_ = os.RemoveAll(filepath.Join(dir, etcdName(i))) // they know the ports
		}
	}
	return nil, err
}

func etcdName(i int) string { return "member" + strconv.Itoa(i) }

func tryEtcd(at Place, dir string, n int, settings []string) ([]*EtcdServer, error) {
	addrs, peers, cluster := make([]string, n), make([]string, n), make([]string, n)
	for i := range n {
		clients, err := sparePort()
		if err != nil {
			return nil, err
		}
		others, err := sparePort()
		if err != nil {
			return nil, err
		}
		addrs[i], peers[i] = net.JoinHostPort(at.host(), strconv.Itoa(clients)), "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(others))
		cluster[i] = etcdName(i) + "=" + peers[i]
	}
	members, errs := make([]*EtcdServer, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		args := append([]string{"--name=" + etcdName(i), "--data-dir=" + filepath.Join(dir, etcdName(i)), "--log-level=error", "--logger=zap",
			"--listen-client-urls=http://" + addrs[i], "--advertise-client-urls=http://" + addrs[i],
			"--listen-peer-urls=" + peers[i], "--initial-advertise-peer-urls=" + peers[i], "--initial-cluster=" + strings.Join(cluster, ",")}, settings...)
		wg.Go(func() { members[i], errs[i] = startEtcd(at, dir, addrs[i], args) }) // one alone does not answer
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, e := range members {
			if e != nil {
				e.Kill()
			}
		}
		return nil, err
	}
	return members, nil
}

func startEtcd(at Place, dir, addr string, args []string) (*EtcdServer, error) {
	e := &EtcdServer{Dir: dir, Addr: addr, at: at, cmd: exec.Command("etcd", args...), done: make(chan struct{})}
	e.cmd.Stdout, e.cmd.Stderr = &e.said, &e.said
	dieWithParent(e.cmd)
	started := make(chan error)
	go func() {
		// Linux ends the child together with the thread that has started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(e.done)
		err := e.at.Within(e.cmd.Start)
		started <- err
		if err == nil {
			_ = e.cmd.Wait() // it is killed in the end
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	if err := e.await(); err != nil {
		e.Kill()
		return nil, fmt.Errorf("start etcd: %w\n%s", err, e.said.Bytes())
	}
	return e, nil
}

// await waits until the server takes connections, which it does when it has a leader.
func (e *EtcdServer) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		if conn, err := d.DialContext(ctx, "tcp", e.Addr); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-e.done:
			return errors.New("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

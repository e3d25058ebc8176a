package services

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// RedisServer is a redis-server of the tests' own, in a folder of its own on a port of its own.
type RedisServer struct {
	Dir  string
	Addr string
	at   Place
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	said bytes.Buffer  // its log; to be read after done
}

// URL of it, with what follows the question mark.
func (r *RedisServer) URL(query string) string { return "redis://" + r.Addr + "/0?" + query }

// Kill ends it as kill -9 does, and waits for that.
func (r *RedisServer) Kill() {
	_ = r.cmd.Process.Kill() // it may have ended
	<-r.done
}

var sharedRedis struct {
	once   sync.Once
	server *RedisServer
	err    error
}

// Redis is the server that all tests of the process share; each takes a prefix of its own. It keeps what it has in a file
// that it does not sync. StopRedis ends it.
func Redis(tb testing.TB) *RedisServer {
	tb.Helper()
	needRedis(tb)
	s := &sharedRedis
	s.once.Do(func() {
		var dir string
		if dir, s.err = os.MkdirTemp("", "haulier-redis-"); s.err == nil {
			s.server, s.err = runRedis(Place{}, dir, "--appendfsync", "no", "--save", "")
		}
	})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// StopRedis ends the shared server, if there is one, and removes its folder.
func StopRedis() {
	if r := sharedRedis.server; r != nil {
		r.Kill()
		_ = os.RemoveAll(r.Dir) // of the system's temporary files
	}
}

// StartRedis starts a server whose data live in dir, with further settings, and kills it at the end of the test.
func StartRedis(tb testing.TB, dir string, settings ...string) *RedisServer {
	tb.Helper()
	return StartRedisAt(tb, Place{}, dir, settings...)
}

// StartRedisAt is StartRedis at another place.
func StartRedisAt(tb testing.TB, at Place, dir string, settings ...string) *RedisServer {
	tb.Helper()
	needRedis(tb)
	r, err := runRedis(at, dir, settings...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Kill)
	return r
}

// needRedis skips the test where there is no redis-server; in CI that is a failure.
func needRedis(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	const what = "redis-server is not installed; on Debian: apt-get install redis-server; on macOS: brew install redis"
	if os.Getenv("CI") != "" {
		tb.Fatal(what)
	}
	tb.Skip(what)
}

// runRedis starts a server and waits until it takes connections. Another may come first to the spare port: then it tries again.
func runRedis(at Place, dir string, settings ...string) (r *RedisServer, err error) {
	for range 5 {
		if r, err = tryRedis(at, dir, settings); err == nil {
			return r, nil
		}
	}
	return nil, err
}

func tryRedis(at Place, dir string, settings []string) (*RedisServer, error) {
	port, err := sparePort()
	if err != nil {
		return nil, err
	}
	r := &RedisServer{Dir: dir, at: at, Addr: net.JoinHostPort(at.host(), strconv.Itoa(port))}
	r.args = append([]string{"--port", strconv.Itoa(port), "--bind", at.host(), "--protected-mode", "no", "--dir", dir, "--appendonly", "yes"}, settings...)
	return r, r.Start()
}

// Start starts it again after a Kill, and waits until it has loaded its data.
func (r *RedisServer) Start() error {
	r.cmd, r.done = exec.Command("redis-server", r.args...), make(chan struct{})
	r.said.Reset()
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	dieWithParent(r.cmd)
	cmd, done, started := r.cmd, r.done, make(chan error)
	go func() {
		// Linux ends the child together with the thread that has started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := r.at.Within(cmd.Start)
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed in the end
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	if err := r.await(); err != nil {
		r.Kill()
		return fmt.Errorf("start redis-server: %w\n%s", err, r.said.Bytes())
	}
	return nil
}

// await waits until the server answers.
func (r *RedisServer) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if r.answers(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.done:
			return fmt.Errorf("it has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *RedisServer) answers(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	reply := make([]byte, 5)
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	n, err := io.ReadFull(conn, reply)
	return err == nil && string(reply[:n]) == "+PONG" // while it loads its data it answers otherwise
}

// Command sends a command over a connection of its own, and returns the first line of the reply.
func (r *RedisServer) Command(tb testing.TB, words ...string) string {
	tb.Helper()
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	ask := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		ask = fmt.Appendf(ask, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := conn.Write(ask); err != nil {
		tb.Fatalf("%v: %v", words, err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		tb.Fatalf("%v: %v", words, err)
	}
	return strings.TrimSpace(line)
}

func sparePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

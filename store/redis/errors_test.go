package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/redis"
	"github.com/haulier/haulier/store/services"
	"github.com/haulier/haulier/store/storetest"
)

// proxy stands before Redis. When armed, it takes the next call of a script to Redis, and cuts the connection before the answer.
type proxy struct {
	addr  string
	armed atomic.Bool
	// ask and tell change what is asked of Redis and what it answers; nil: nothing.
	ask, tell func([]byte) []byte
}

func newProxy(t *testing.T, p *proxy, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.pass(ctx, conn, to) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		wg.Wait()
	})
	return p
}

func (p *proxy) pass(ctx context.Context, conn net.Conn, to string) {
	defer conn.Close()
	redis, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer redis.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); redis.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		copyBytes(conn, redis, func(b []byte) []byte {
			if p.tell != nil {
				return p.tell(b)
			}
			return b
		})
	})
	copyBytes(redis, conn, func(b []byte) []byte {
		if bytes.Contains(b, []byte("EVALSHA\r\n")) && p.armed.CompareAndSwap(true, false) {
			conn.Close()
			redis.Write(b)
			sleep(20 * time.Millisecond) // Redis must have read it before it hears of the end
			return nil
		}
		if p.ask != nil {
			return p.ask(b)
		}
		return b
	})
}

// copyBytes copies what change makes of it until that is nil.
func copyBytes(to, from net.Conn, change func([]byte) []byte) {
	defer to.Close()
	b := make([]byte, 1<<20)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		out := change(b[:n])
		if out == nil {
			return
		}
		if _, err := to.Write(out); err != nil {
			return
		}
	}
}

func TestURLs(t *testing.T) {
	for url, says := range map[string]string{
		"redis:":                              "and a host",
		"http://host":                         "redis://",
		"redis://host/0?prefix={a}":           "braces",
		"redis://host/0?prefix=":              "braces",
		"redis://host/0?volatile=maybe":       "1 or 0",
		"redis://host/0?timeout=1":            "the options are prefix, volatile",
		"redis://user:secret@host/0?prefix={": "user:xxxxx@",
		"redis://host/db":                     "database number",
	} {
		_, err := redis.Open(t.Context(), url, redis.Options{})
		if !errors.Is(err, haulier.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want ErrInvalid that says %q", url, err, says)
		}
	}
}

func TestUnreachable(t *testing.T) {
	_, err := redis.Open(t.Context(), "redis://127.0.0.1:1/0", redis.Options{})
	if !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("error is %v, want ErrUnavailable", err)
	}
	server := services.StartRedis(t, t.TempDir())
	s := open(t, server.URL(""), redis.Options{})
	server.Kill()
	for range 3 {
		if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("commit: %v, want ErrUnavailable", err)
		}
		if _, err := s.Counts(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
			t.Errorf("counts: %v, want ErrUnavailable", err)
		}
	}
}

// TestSettings opens servers that would lose jobs.
func TestSettings(t *testing.T) {
	forgetful := services.StartRedis(t, t.TempDir(), "--appendonly", "no")
	cache := services.StartRedis(t, t.TempDir(), "--maxmemory-policy", "allkeys-lru")
	for url, says := range map[string]string{
		forgetful.URL(""):         "appendonly yes",
		cache.URL("volatile=1"):   "noeviction",
		cache.URL("prefix=other"): "noeviction",
	} {
		if _, err := redis.Open(t.Context(), url, redis.Options{}); !errors.Is(err, haulier.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want ErrInvalid that says %q", url, err, says)
		}
	}
	open(t, forgetful.URL("volatile=1"), redis.Options{})
}

// TestRefusals puts Redis into states in which it takes no writes.
func TestRefusals(t *testing.T) {
	server := services.StartRedis(t, t.TempDir(), "--save", "")
	s := open(t, server.URL(""), redis.Options{})
	ended := newJobs(1)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: ended}); err != nil {
		t.Fatal(err)
	}
	refused := func(says string) {
		t.Helper()
		b := haulier.Batch{Insert: newJobs(3), Docs: []haulier.DocWrite{{Kind: "other", Key: "k", Value: []byte("v")}}}
		err := s.Commit(t.Context(), &b)
		if !errors.Is(err, haulier.ErrUnavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want ErrUnavailable that says %q", err, says)
		}
		if jobs, err := s.List(t.Context(), haulier.Query{Limit: 10}); err != nil || len(jobs.Jobs) != 1 {
			t.Errorf("%d jobs are there, want one: %v", len(jobs.Jobs), err)
		}
		storetest.Check(t.Context(), t, s)
	}
	server.Command(t, "CONFIG", "SET", "maxmemory", "1")
	refused("raise maxmemory")
	if err := s.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: ended[0].ID, Expect: 1}}}); err != nil {
		t.Errorf("what removes jobs is refused too: %v", err)
	}
	server.Command(t, "CONFIG", "SET", "maxmemory", "0")
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}); err != nil {
		t.Fatal(err)
	}
	server.Command(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	refused("min-replicas-to-write")
	server.Command(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	server.Command(t, "REPLICAOF", "127.0.0.1", "1")
	b := haulier.Batch{Insert: newJobs(1)}
	if err := s.Commit(t.Context(), &b); !errors.Is(err, haulier.ErrUnavailable) || !strings.Contains(err.Error(), "URL of the primary") {
		t.Errorf("at a replica: %v, want ErrUnavailable", err)
	}
	server.Command(t, "REPLICAOF", "NO", "ONE")
	if err := s.Commit(t.Context(), &b); err != nil {
		t.Error(err)
	}
}

// TestScriptsAreSentAgain makes Redis forget them.
func TestScriptsAreSentAgain(t *testing.T) {
	server := services.StartRedis(t, t.TempDir())
	s := open(t, server.URL(""), redis.Options{})
	session := newSession(t, s)
	for range 3 {
		server.Command(t, "SCRIPT", "FLUSH")
		if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1), Sync: true}); err != nil {
			t.Fatal(err)
		}
		if jobs, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: benchBand, N: 1}}); err != nil || len(jobs) != 1 {
			t.Fatalf("%d jobs were claimed: %v", len(jobs), err)
		}
		storetest.Check(t.Context(), t, s)
	}
}

// TestForeignKeys puts something else where the store has its own.
func TestForeignKeys(t *testing.T) {
	server := services.StartRedis(t, t.TempDir())
	s := open(t, server.URL(""), redis.Options{})
	server.Command(t, "SET", "{haulier}:counts", "x")
	if _, err := s.Counts(t.Context()); !errors.Is(err, haulier.ErrCorrupt) {
		t.Errorf("error is %v, want ErrCorrupt", err)
	}
}

// TestCluster keeps the contract in a Cluster, where a script must not reach beyond its slot.
func TestCluster(t *testing.T) {
	server := services.StartRedis(t, t.TempDir(), "--cluster-enabled", "yes", "--save", "", "--appendfsync", "no")
	server.Command(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	eventually(t, "the cluster is up", func() bool { return server.Command(t, "GET", "x") == "$-1" })
	storetest.Run(t, func(t *testing.T) haulier.Store { return open(t, server.URL(freshPrefix()), redis.Options{}) })
}

// TestSyncWaitsForTheDisk plays a Redis that knows WAITAOF: the proxy makes its version a later one, and answers in its place.
func TestSyncWaitsForTheDisk(t *testing.T) {
	server := services.StartRedis(t, t.TempDir(), "--appendfsync", "everysec")
	var asked, synced atomic.Int64
	synced.Store(1)
	p := newProxy(t, &proxy{
		ask: func(b []byte) []byte {
			wait := []byte("*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$5\r\n10000\r\n")
			if !bytes.Contains(b, wait) {
				return b
			}
			asked.Add(1)
			return bytes.ReplaceAll(b, wait, fmt.Appendf(nil, "*3\r\n$4\r\nEVAL\r\n$12\r\nreturn {%d,0}\r\n$1\r\n0\r\n", synced.Load()))
		},
		tell: func(b []byte) []byte {
			return bytes.Replace(b, []byte("redis_version:7.0"), []byte("redis_version:7.2"), 1)
		},
	}, server.Addr)
	url := "redis://" + p.addr + "/0"
	s := open(t, url, redis.Options{})
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1)}); err != nil || asked.Load() > 0 {
		t.Fatalf("a commit that is not synced waited %d times: %v", asked.Load(), err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1), Sync: true}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n < 1 || n > 20 {
		t.Errorf("20 synced commits waited %d times", n)
	}
	synced.Store(0)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1), Sync: true}); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("a commit that did not come to the disk: %v, want ErrUnavailable", err)
	}
	if err := s.Close(); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("close: %v, want ErrUnavailable", err)
	}
	synced.Store(1)
	asked.Store(0)
	s = open(t, url, redis.Options{Durability: redis.Process})
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(1), Sync: true}); err != nil || asked.Load() > 0 {
		t.Errorf("with Process a commit waited %d times: %v", asked.Load(), err)
	}
}

// TestPermissions works as a user who has what docs/redis.md lists, and no more.
func TestPermissions(t *testing.T) {
	doc, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(doc), "(ACL): `")
	list, _, _ = strings.Cut(list, "`")
	server := services.StartRedis(t, t.TempDir())
	if reply := server.Command(t, append([]string{"ACL", "SETUSER", "haulier", "on", ">secret"}, strings.Fields(list)...)...); reply != "+OK" {
		if !strings.Contains(reply, "waitaof") { // which Redis 7.0 does not know
			t.Fatal(reply)
		}
		list = strings.ReplaceAll(list, "+waitaof", "")
		if reply := server.Command(t, append([]string{"ACL", "SETUSER", "haulier", "on", ">secret"}, strings.Fields(list)...)...); reply != "+OK" {
			t.Fatal(reply)
		}
	}
	s := open(t, "redis://haulier:secret@"+server.Addr+"/0", redis.Options{})
	session := newSession(t, s)
	if err := s.Commit(t.Context(), &haulier.Batch{Insert: newJobs(3), CheckIDs: true}); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Claim(t.Context(), session, "w", []haulier.Take{{Band: benchBand, N: 1}})
	if err != nil {
		t.Fatal(err)
	}
	b := haulier.Batch{Update: []haulier.JobUpdate{finish(t, &jobs[0])}, Docs: []haulier.DocWrite{{Kind: "other", Key: "k", Value: []byte("v")}}}
	if err := s.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), &haulier.Batch{Delete: []haulier.JobDelete{{ID: jobs[0].ID, Expect: b.Update[0].Status.Rev}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(t.Context(), session, time.Minute); err != nil {
		t.Fatal(err)
	}
	storetest.Check(t.Context(), t, s)
	if _, err := redis.Open(t.Context(), "redis://haulier:secret@"+server.Addr+"/0?prefix=other", redis.Options{}); !errors.Is(err, haulier.ErrUnavailable) ||
		!strings.Contains(err.Error(), "docs/redis.md") {
		t.Errorf("beyond the permissions: %v, want ErrUnavailable that says where they are listed", err)
	}
}

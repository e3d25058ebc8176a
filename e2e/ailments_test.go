package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/services"
)

// ailment is a state of a store in which it takes no writes. docs/stores.md lists them.
type ailment struct {
	name       string
	begin, end func(t *testing.T)
	says       string // in the answer to whoever enqueues
	mute       bool   // it can't be read either
	starts     bool   // a server starts nevertheless, and waits
	renewed    bool   // the server ends, as it does when claims may be lost, and is started again
}

// ailingStores are stores of the tests' own, and what befalls them, in this order.
var ailingStores = map[string]func(t *testing.T) (url string, ailments []ailment){
	"redis":    ailingRedis,
	"postgres": ailingPostgres,
	"etcd":     ailingEtcd,
}

// TestStoresThatTakeNoWrites fills disks, uses up memory and takes the right to write away: the server stays and refuses what it can't
// keep with what to do about it, what was acknowledged can be read, commands go on, and so does all else when there is room again.
func TestStoresThatTakeNoWrites(t *testing.T) {
	for name, open := range ailingStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, ailments := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			p := &patient{site: newSite(t), url: url}
			p.serve("--store", url)
			p.ready(ctx)
			p.worker = p.work("w", "--lease", "30s")
			for _, a := range ailments {
				began := time.Now()
				p.suffer(ctx, a)
				t.Logf("%s: %v", a.name, time.Since(began).Round(time.Millisecond))
				if t.Failed() {
					t.Fatalf("it was not right with %s", a.name)
				}
			}
			for _, id := range p.acknowledged {
				p.job(ctx, id)
			}
			for _, program := range []*process{p.worker, p.server} {
				if code := program.stop(); code != 0 {
					t.Errorf("%s: code %d on TERM:\n%s", program.log, code, tail(program.output(t)))
				}
			}
			p.checkStore(url)
		})
	}
}

// patient is a server over an ailing store, with a worker.
type patient struct {
	*site
	url          string
	worker       *process
	acknowledged []haulier.ID
}

// suffer has the store ail while a command runs, and get well.
func (p *patient) suffer(ctx context.Context, a ailment) {
	t := p.t.(*testing.T)
	running := p.enqueue(ctx, p.shell(`sleep 0.3; echo "end $1" >> $0`, a.name))
	p.await(ctx, "it runs", func() bool { return p.job(ctx, running).State == haulier.Running })
	a.begin(t)
	refused := p.enqueueUntilRefused(ctx)
	if !strings.Contains(refused, a.says) {
		t.Errorf("whoever enqueues is told %s; want that it says %q", refused, a.says)
	}
	if !a.mute {
		p.startAnother(ctx, a)
	}
	p.await(ctx, "the command has ended", func() bool { return strings.Contains(p.read(p.ledger), "end "+a.name) })
	if !a.mute {
		p.job(ctx, running)
		if len(p.acknowledged) > 0 {
			p.job(ctx, p.acknowledged[0])
		}
	}
	if !a.renewed && p.server.ended() || p.worker.ended() {
		t.Fatalf("with %s, server or worker ended:\n%s\n%s", a.name, tail(p.server.output(t)), tail(p.worker.output(t)))
	}
	a.end(t)
	if a.renewed {
		p.await(ctx, "the server ends", p.server.ended)
		p.serve("--store", p.url)
	}
	p.await(ctx, "jobs are taken again", func() bool {
		id, _ := p.big(ctx)
		return id != haulier.NilID
	})
	p.await(ctx, "the server is ready again", func() bool { return p.isReady(ctx) })
	ended, err := p.client.Wait(ctx, haulier.DefaultTenant, []haulier.ID{running, p.enqueue(ctx, p.shell("true"))})
	if err != nil || ended[0].State != haulier.Succeeded || ended[0].Attempt != 1 || ended[1].State != haulier.Succeeded {
		t.Fatalf("after %s, what ran meanwhile and what came then: %+v, %v", a.name, ended, err)
	}
}

// startAnother starts a second server over the ailing store.
func (p *patient) startAnother(ctx context.Context, a ailment) {
	p.t.Helper()
	other := p.beside()
	log := p.path("another.log")
	defer os.Remove(log)
	s := start(p.t, log, nil, program(p.t), "serve", "--data", p.path("data"), "--listen", other.addr, "--insecure", "--store", p.url)
	defer s.kill()
	p.await(ctx, "another server has started or ended", func() bool { return s.ended() || other.isReady(ctx) })
	if s.ended() == a.starts || !a.starts && !strings.Contains(s.output(p.t), a.says) {
		p.t.Errorf("with %s, another server has ended: %v; it said:\n%s", a.name, s.ended(), tail(s.output(p.t)))
	}
}

// big enqueues a job with a payload of 48 KiB that can't be made smaller. It returns its id, or what was said when it was refused.
func (p *patient) big(ctx context.Context) (id haulier.ID, refused string) {
	payload := make([]byte, 36<<10)
	_, _ = rand.Read(payload) // it never fails
	body, err := json.Marshal(map[string]any{"jobs": []any{map[string]any{"type": "big", "payload": base64.StdEncoding.EncodeToString(payload)}}})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.site.url+"/v1/jobs", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return id, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return id, err.Error()
	}
	if res.StatusCode != http.StatusCreated {
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			p.t.Errorf("status %d, Retry-After %q: %s; want 503 with the seconds to wait", res.StatusCode, res.Header.Get("Retry-After"), text)
		}
		return id, string(text)
	}
	var answer struct{ IDs []haulier.ID }
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.IDs) != 1 {
		p.t.Fatalf("answer %s: %v", text, err)
	}
	p.acknowledged = append(p.acknowledged, answer.IDs[0])
	return answer.IDs[0], ""
}

// enqueueUntilRefused returns what was said then.
func (p *patient) enqueueUntilRefused(ctx context.Context) string {
	p.t.Helper()
	for range 5000 {
		if _, refused := p.big(ctx); refused != "" {
			return refused
		}
	}
	p.t.Fatal("5000 large jobs were taken")
	return ""
}

// read is what stands in a file, if it is there yet.
func (p *patient) read(name string) string {
	b, _ := os.ReadFile(name) // not yet
	return string(b)
}

func ailingRedis(t *testing.T) (string, []ailment) {
	dir := t.TempDir()
	services.SmallDisk(t, dir, "32m")
	server := services.StartRedis(t, dir, "--appendfsync", "everysec", "--save", "")
	do := func(words ...string) func(t *testing.T) {
		return func(t *testing.T) {
			if reply := server.Command(t, words...); reply != "+OK" {
				t.Fatal(words, reply)
			}
		}
	}
	return server.URL(""), []ailment{
		{name: "a replica", begin: do("REPLICAOF", "127.0.0.1", "1"), end: do("REPLICAOF", "NO", "ONE"), says: "URL of the primary"},
		{name: "no memory", begin: do("CONFIG", "SET", "maxmemory", "1"), end: do("CONFIG", "SET", "maxmemory", "0"), says: "raise maxmemory"},
		filled("a full disk", dir, "make room", nil),
		{name: "a full disk that must sync", mute: true, says: "no answer", begin: func(t *testing.T) {
			do("CONFIG", "SET", "appendfsync", "always")(t)
			services.FillDisk(t, dir)
		}, end: func(t *testing.T) {
			empty(t, dir)
			server.Kill()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
		}},
	}
}

// filled is a full disk, and what follows when there is room again.
func filled(name, dir, says string, then func(t *testing.T)) ailment {
	return ailment{name: name, says: says, begin: func(t *testing.T) { services.FillDisk(t, dir) }, end: func(t *testing.T) {
		empty(t, dir)
		if then != nil {
			then(t)
		}
	}}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(dir + "/filler"); err != nil {
		t.Fatal(err)
	}
}

func ailingPostgres(t *testing.T) (string, []ailment) {
	server := services.StartPostgresOnDisks(t, "96m", "24m", "max_wal_size=8MB", "min_wal_size=2MB")
	do := func(statements ...string) func(t *testing.T) {
		return func(t *testing.T) {
			c, err := pgx.Connect(t.Context(), server.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			for _, s := range statements {
				if _, err := c.Exec(t.Context(), s); err != nil {
					t.Fatal(s, err)
				}
			}
		}
	}
	tables := filled("a full disk of the tables", server.Data(), "make room", nil)
	tables.starts = true
	log := filled("a full disk of the log", server.WAL(), "make room", func(t *testing.T) {
		server.Kill()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	})
	log.mute, log.renewed = true, true
	return server.URL(), []ailment{
		{
			name: "a read-only database", says: "target_session_attrs=read-write",
			begin: do("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"),
			end:   do("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"),
		},
		tables,
		log,
	}
}

func ailingEtcd(t *testing.T) (string, []ailment) {
	dir := t.TempDir()
	services.SmallDisk(t, dir, "192m")
	const quota = "16777216"
	server := services.StartEtcd(t, dir, append(services.EtcdSettings, "--quota-backend-bytes="+quota)...)
	broken := filled("a full disk", dir, "no answer", func(t *testing.T) {
		server.Kill()
		server.Restart(t)
	})
	broken.mute = true
	return server.URL("haulier"), []ailment{
		{name: "no space", starts: true, says: "etcdctl alarm disarm", begin: func(t *testing.T) {
			value := base64.StdEncoding.EncodeToString(make([]byte, 1<<20))
			for i := range 100 { // the key is each time another
				if status, _ := server.Ask(t, "/v3/kv/put", fmt.Sprintf(`{"key":"ZmlsbGVy%04d","value":%q}`, i, value)); status != http.StatusOK {
					return
				}
			}
			t.Fatal("etcd takes 100 MB")
		}, end: func(t *testing.T) {
			// As docs/etcd.md says: remove, compact, defragment, disarm.
			removed := ask(t, server, "/v3/kv/deleterange", `{"key":"ZmlsbGVy","range_end":"ZmlsbGVz"}`)
			ask(t, server, "/v3/kv/compaction", fmt.Sprintf(`{"revision":%q}`, removed.Header.Revision))
			ask(t, server, "/v3/maintenance/defragment", `{}`)
			for _, a := range ask(t, server, "/v3/maintenance/alarm", `{"action":"GET"}`).Alarms {
				ask(t, server, "/v3/maintenance/alarm", fmt.Sprintf(`{"action":"DEACTIVATE","memberID":%q,"alarm":"NOSPACE"}`, a.MemberID))
			}
		}},
		broken,
	}
}

type etcdReply struct {
	Header struct{ Revision string }
	Alarms []struct{ MemberID string }
}

func ask(t *testing.T, server *services.EtcdServer, path, body string) (reply etcdReply) {
	t.Helper()
	status, b := server.Ask(t, path, body)
	if err := json.Unmarshal(b, &reply); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, b)
	}
	return reply
}

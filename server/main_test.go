package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/engine"
	"github.com/haulier/haulier/server"
	"github.com/haulier/haulier/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var someTime = time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)

// newEngine is an engine over a store in memory, without its background duties.
func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	if err != nil {
		t.Fatal(err)
	}
	store := mem.New()
	e, err := engine.New(engine.Config{Store: store, Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		store.Close()
		blobs.Close()
	})
	return e
}

func newServer(t testing.TB, c server.Config) *server.Server {
	t.Helper()
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recorder is a queue that says yes to everything and remembers what it was
// asked; fail makes it refuse instead.
type recorder struct {
	mu       sync.Mutex
	calls    []string
	fail     error
	sessions []haulier.Session
}

func (r *recorder) note(format string, args ...any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
	return r.fail
}

// take returns the calls since the last take.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := strings.Join(r.calls, "; ")
	r.calls = nil
	return s
}

func (r *recorder) Enqueue(_ context.Context, reqs []haulier.EnqueueRequest) ([]haulier.EnqueueResult, error) {
	out := make([]haulier.EnqueueResult, len(reqs))
	for i, req := range reqs {
		var tenants []string
		for _, j := range req.Jobs {
			tenants = append(tenants, j.Tenant)
		}
		if err := r.note("enqueue %v by %q key %q", tenants, req.By, req.Key); err != nil {
			return nil, err
		}
		out[i].IDs = make([]haulier.ID, len(req.Jobs))
	}
	return out, nil
}

func (r *recorder) OpenSession(_ context.Context, s haulier.Session) (haulier.Session, error) {
	s.ID = haulier.ID{7}
	return s, r.note("open %v", s.Tenants)
}

func (r *recorder) Renew(_ context.Context, q haulier.RenewRequest) (haulier.RenewReply, error) {
	return haulier.RenewReply{Epoch: "e"}, r.note("renew %v %v %q", q.Session, q.Wait, q.Epoch)
}

func (r *recorder) CloseSession(_ context.Context, id haulier.ID) error {
	return r.note("close %v", id)
}

func (r *recorder) Claim(_ context.Context, q haulier.ClaimRequest) ([]haulier.Job, error) {
	return nil, r.note("claim %d %v", q.N, q.Wait)
}

func (r *recorder) Payload(_ context.Context, _ haulier.ID, ref haulier.Ref) ([]byte, error) {
	return []byte("payload"), r.note("payload %d", ref.Attempt)
}

func (r *recorder) Report(_ context.Context, _ haulier.ID, reports []haulier.Report) ([]error, error) {
	return make([]error, len(reports)), r.note("report %d", len(reports))
}

func (r *recorder) Get(_ context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	out := make([]*haulier.Job, len(ids))
	for i, id := range ids {
		out[i] = &haulier.Job{Spec: haulier.Spec{ID: id, Tenant: "acme", Type: "mail", CreatedAt: someTime}, Status: haulier.Status{State: haulier.Pending, UpdatedAt: someTime}}
	}
	return out, r.note("get %q", tenant)
}

func (r *recorder) List(_ context.Context, f haulier.Filter, cursor string, limit int) (haulier.Page, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return haulier.Page{}, err
	}
	return haulier.Page{}, r.note("list %s %q %d", b, cursor, limit)
}

func (r *recorder) change(verb string, sel haulier.Selection, by string) (haulier.Changed, error) {
	f := "-"
	if sel.Filter != nil {
		b, _ := json.Marshal(sel.Filter)
		f = string(b)
	}
	return haulier.Changed{N: 1}, r.note("%s %q %d %s by %q", verb, sel.Tenant, len(sel.IDs), f, by)
}

func (r *recorder) Cancel(_ context.Context, sel haulier.Selection, by, reason string) (haulier.Changed, error) {
	return r.change("cancel("+reason+")", sel, by)
}

func (r *recorder) Retry(_ context.Context, sel haulier.Selection, by string) (haulier.Changed, error) {
	return r.change("retry", sel, by)
}

func (r *recorder) Delete(_ context.Context, sel haulier.Selection, by string) (haulier.Changed, error) {
	return r.change("delete", sel, by)
}

func (r *recorder) Why(_ context.Context, tenant string, id haulier.ID) (haulier.Explanation, error) {
	return haulier.Explanation{Job: id, State: haulier.Pending, Since: someTime, Reasons: []string{"it waits"}}, r.note("why %q", tenant)
}

func (r *recorder) Wait(ctx context.Context, tenant string, ids []haulier.ID) ([]*haulier.Job, error) {
	if err := r.note("wait %q", tenant); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (r *recorder) Queues(_ context.Context, tenant string) ([]haulier.QueueStatus, error) {
	return nil, r.note("queues %q", tenant)
}

func (r *recorder) SetLimit(_ context.Context, tenant, key string, l haulier.Limit) error {
	return r.note("limit %q %q %d %d %v", tenant, key, l.Running, l.Rate, l.Per)
}

func (r *recorder) Limits(_ context.Context, tenant string) ([]haulier.KeyStanding, error) {
	return nil, r.note("limits %q", tenant)
}

func (r *recorder) PauseQueue(_ context.Context, tenant, queue string, paused bool, by string) error {
	return r.note("pause %q %q %v by %q", tenant, queue, paused, by)
}

func (r *recorder) WeighQueue(_ context.Context, tenant, queue string, weight int, by string) error {
	return r.note("weigh %q %q %d by %q", tenant, queue, weight, by)
}

func (r *recorder) Counts(_ context.Context, tenant string) ([]haulier.Count, error) {
	return nil, r.note("counts %q", tenant)
}

func (r *recorder) Sessions(_ context.Context, tenant string) ([]haulier.Session, error) {
	return r.sessions, r.note("sessions %q", tenant)
}

func (r *recorder) Log(_ context.Context, q haulier.LogRequest) (haulier.LogChunk, error) {
	return haulier.LogChunk{Attempt: 1, End: true}, r.note("log %q %d %d %d", q.Tenant, q.Attempt, q.From, q.Max)
}

func (r *recorder) Events(_ context.Context, f haulier.Filter, _ func(haulier.JobEvent) error) error {
	return r.note("events %q", f.Tenant)
}

func (r *recorder) CreateToken(_ context.Context, t haulier.Token) (haulier.Token, string, error) {
	return t, "secret", r.note("create token %s %s %q", t.Name, t.Role, t.Tenant)
}

func (r *recorder) Tokens(_ context.Context, tenant string) ([]haulier.Token, error) {
	return nil, r.note("tokens %q", tenant)
}

func (r *recorder) RevokeToken(_ context.Context, tenant string, _ haulier.ID) error {
	return r.note("revoke %q", tenant)
}

// tokens are an Authenticator: the secret is ROLE@TENANT, which also is the name.
type tokens struct{}

func (tokens) Authenticate(_ context.Context, secret string) (haulier.Token, error) {
	role, tenant, ok := strings.Cut(secret, "@")
	if !ok {
		return haulier.Token{}, fmt.Errorf("%w: not a known token", haulier.ErrUnauthenticated)
	}
	return haulier.Token{Name: secret, Role: haulier.Role(role), Tenant: tenant}, nil
}

// request is one HTTP request of a test.
type request struct {
	method, path string
	token        string
	header       map[string]string
	body         string
}

// ask makes the request at the handler, and returns the status, header and body of the answer.
func ask(t testing.TB, h http.Handler, q request) (int, http.Header, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), q.method, q.path, strings.NewReader(q.body))
	r.Host = "localhost:7480"
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	for k, v := range q.header {
		if k == "Host" {
			r.Host = v
		}
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

// problem is the problem document that a request must get.
func problem(t testing.TB, h http.Handler, q request, status int, code string) server.Problem {
	t.Helper()
	got, header, body := ask(t, h, q)
	var p server.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%s %s: %d %s", q.method, clipped(q.path), got, clipped(body))
	}
	if got != status || p.Status != status || p.Code != code || header.Get("Content-Type") != "application/problem+json" ||
		p.Type != "urn:haulier:error:"+code || p.Title == "" || p.Detail == "" {
		t.Fatalf("%s %s: got %d %+v, want %d %s", q.method, clipped(q.path), got, p, status, code)
	}
	return p
}

func clipped(s string) string { return s[:min(len(s), 300)] }

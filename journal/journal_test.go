package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/journal"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, dir string, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

// jobs are entries with these payloads.
func jobs(payloads ...string) []journal.Entry {
	list := make([]journal.Entry, len(payloads))
	for i, p := range payloads {
		list[i] = journal.Entry{Job: haulier.Spec{ID: haulier.NewID(time.Now()), Type: "mail", Payload: []byte(p)}}
	}
	return list
}

func write(t testing.TB, j *journal.Journal, payloads ...string) {
	t.Helper()
	if _, _, err := j.Write(t.Context(), jobs(payloads...)); err != nil {
		t.Fatal(err)
	}
}

func synced(t testing.TB, j *journal.Journal) {
	t.Helper()
	if err := j.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// take reserves and reads.
func take(t testing.TB, j *journal.Journal, n int) (journal.Token, string) {
	t.Helper()
	token, err := j.Reserve(n, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if token == 0 {
		return 0, ""
	}
	entries, err := j.Read(token)
	if err != nil {
		t.Fatal(err)
	}
	return token, texts(entries)
}

func texts(entries []journal.Entry) string {
	list := make([]string, len(entries))
	for i := range entries {
		list[i] = string(entries[i].Job.Payload)
	}
	return strings.Join(list, " ")
}

// rest takes all that is there.
func rest(t testing.TB, j *journal.Journal) string {
	t.Helper()
	var all []string
	for {
		token, text := take(t, j, 100)
		if token == 0 {
			return strings.Join(all, " ")
		}
		all = append(all, text)
	}
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestLinesGoThroughOnce(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	write(t, j, "a")
	if token, _ := take(t, j, 1); token != 0 {
		t.Error("a line is given before it is on stable storage")
	}
	write(t, j, "b", "c")
	write(t, j, "d")
	synced(t, j)
	first, text := take(t, j, 1)
	expect(t, "first", text, "a")
	second, text := take(t, j, 1)
	expect(t, "a whole request", text, "b c")
	third, text := take(t, j, 10)
	expect(t, "third", text, "d")
	if err := j.Cancel(second); err != nil {
		t.Fatal(err)
	}
	if err := j.Cancel(first); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Read(first); !errors.Is(err, haulier.ErrLeaseLost) {
		t.Errorf("a cancelled token: %v", err)
	}
	if err := j.Done(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	both, text := take(t, j, 10)
	expect(t, "what was given back", text, "a b c")
	if err := j.Done(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	if err := j.Done(t.Context(), both); !errors.Is(err, haulier.ErrLeaseLost) {
		t.Errorf("done twice: %v", err)
	}
	write(t, j, "e")
	j.Close()
	j = open(t, dir, journal.Options{})
	expect(t, "after a restart", rest(t, j), "e")
}

func TestLeasesEnd(t *testing.T) {
	var clock sync.Mutex
	now := time.Unix(1e9, 0)
	j := open(t, t.TempDir(), journal.Options{Now: func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return now
	}})
	write(t, j, "a")
	write(t, j, "b")
	synced(t, j)
	token, text := take(t, j, 1)
	expect(t, "first", text, "a")
	clock.Lock()
	now = now.Add(time.Minute)
	clock.Unlock()
	if err := j.Done(t.Context(), token); !errors.Is(err, haulier.ErrLeaseLost) {
		t.Errorf("done after the lease: %v", err)
	}
	if err := j.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, text = take(t, j, 10)
	expect(t, "in order again", text, "a b")
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	if _, err := journal.Open(dir, journal.Options{Wait: time.Millisecond}); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatalf("opened twice: %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		other, err := journal.Open(dir, journal.Options{Wait: time.Minute})
		if err != nil {
			t.Error(err)
			return
		}
		other.Close()
	})
	j.Close()
	wg.Wait()
	if _, _, err := j.Write(t.Context(), jobs("x")); !errors.Is(err, haulier.ErrUnavailable) {
		t.Errorf("write after close: %v", err)
	}
}

func TestWrongJobsAreRefused(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{})
	for name, change := range map[string]func(*haulier.Spec){
		"no id":         func(s *haulier.Spec) { s.ID = haulier.NilID },
		"a flow":        func(s *haulier.Spec) { s.Flow = &haulier.Flow{} },
		"large payload": func(s *haulier.Spec) { s.Payload = make([]byte, haulier.MaxPayload+1) },
		"other bytes":   func(s *haulier.Spec) { s.Group = "\xff" },
		"a huge label":  func(s *haulier.Spec) { s.Labels = map[string]string{"a": strings.Repeat("x", 3<<20)} },
	} {
		list := jobs("a", "b")
		change(&list[1].Job)
		if _, _, err := j.Write(t.Context(), list); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := j.Standing(); s.Lines != 0 {
		t.Errorf("standing %+v", s)
	}
}

// TestDiskUseIsBounded: files whose lines are done go, and a full journal says so.
func TestDiskUseIsBounded(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{SegmentBytes: 300, MaxBytes: 2000})
	n := 0
	var err error
	for ; err == nil; n++ {
		_, _, err = j.Write(t.Context(), jobs("x"))
	}
	if !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
	synced(t, j)
	for {
		token, _ := take(t, j, 1)
		if token == 0 {
			break
		}
		if err := j.Done(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	if s := j.Standing(); s.Files != 1 || s.Lines != 0 || s.Bytes > 600 {
		t.Errorf("standing %+v", s)
	}
	write(t, j, "y")
	write(t, j, "z")
	synced(t, j)
	expect(t, "afterwards", rest(t, j), "y z")
	names, _ := filepath.Glob(filepath.Join(dir, "*.*"))
	if len(names) > 4 {
		t.Errorf("files %v", names)
	}
}

// TestEveryCut: wherever the file ends, what is before it is there, and a request is there whole or not.
func TestEveryCut(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	write(t, j, "a")
	write(t, j, "b", "c")
	write(t, j, "d")
	j.Close()
	path := filepath.Join(dir, "00000000000000000001.journal")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	for i, c := range text {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for n := range len(text) + 1 {
		if err := os.WriteFile(path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		for i, s := range map[int]string{0: "a", 2: "a b c", 3: "a b c d"} {
			if n >= ends[i] && len(s) > len(want) {
				want = s
			}
		}
		j := open(t, dir, journal.Options{})
		write(t, j, "new")
		synced(t, j)
		expect(t, fmt.Sprintf("cut at %d", n), rest(t, j), strings.TrimSpace(want+" new"))
		j.Close()
	}
}

// TestEveryDamage: one wrong byte costs the line that it is in, a wrong end of a line also the next one, and no other.
func TestEveryDamage(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for _, p := range []string{"a", "b", "c"} {
		write(t, j, p)
	}
	j.Close()
	path := filepath.Join(dir, "00000000000000000001.journal")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := 0
	for n := range text {
		bad := slices.Clone(text)
		bad[n] ^= 0x55
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		want := []string{"b c", "a c", "a b"}[line]
		if text[n] == '\n' {
			want = []string{"c", "a", "a b"}[line]
			line++
		}
		j := open(t, dir, journal.Options{})
		expect(t, fmt.Sprintf("damaged at %d", n), rest(t, j), want)
		j.Close()
	}
}

// TestDamagedFilesAreKept: a file with a line that can't be read is not removed with the lines that are done.
func TestDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	write(t, j, "a")
	write(t, j, "b")
	j.Close()
	path := filepath.Join(dir, "00000000000000000001.journal")
	text, _ := os.ReadFile(path)
	text[3] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir, journal.Options{SegmentBytes: 1})
	token, got := take(t, j, 9)
	expect(t, "what is well", got, "b")
	if err := j.Done(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	write(t, j, "c")
	j.Close()
	if kept, err := os.ReadFile(strings.TrimSuffix(path, ".journal") + ".damaged"); err != nil || string(kept) != string(text) {
		t.Errorf("kept: %q, %v", kept, err)
	}
	expect(t, "after a restart", rest(t, open(t, dir, journal.Options{})), "c")
}

// TestDamagedMarks: what is not known to be done is given again.
func TestDamagedMarks(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for _, p := range []string{"a", "b", "c"} {
		write(t, j, p)
	}
	synced(t, j)
	for range 2 {
		token, _ := take(t, j, 1)
		if err := j.Done(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	path := filepath.Join(dir, "00000000000000000001.done")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) + 1 {
		if err := os.WriteFile(path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		want := map[int]string{0: "a b c", 1: "b c", 2: "c"}[strings.Count(string(text[:n]), "\n")]
		j := open(t, dir, journal.Options{})
		expect(t, fmt.Sprintf("cut at %d", n), rest(t, j), want)
		j.Close()
	}
}

// TestFullDisk: a write that fails half way leaves nothing, and the journal goes on when there is room again.
func TestFullDisk(t *testing.T) {
	for half := range 150 {
		full := false
		d := &journal.TestDisk{}
		d.Fault = func(what string) (int, error) {
			if full && what == "write" {
				return half, syscall.ENOSPC
			}
			return 0, nil
		}
		dir := t.TempDir()
		j := open(t, dir, journal.Options{}.OnDisk(d))
		write(t, j, "a")
		synced(t, j)
		full = true
		if _, _, err := j.Write(t.Context(), jobs("b")); !errors.Is(err, haulier.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		token, text := take(t, j, 9)
		expect(t, "while it is full", text, "a")
		if err := j.Done(t.Context(), token); !errors.Is(err, haulier.ErrUnavailable) {
			t.Fatal(err)
		}
		full = false
		write(t, j, "c")
		synced(t, j)
		expect(t, "when there is room", rest(t, j), "a c")
		j.Close()
		expect(t, "after a restart", rest(t, open(t, dir, journal.Options{})), "a c")
	}
}

// TestFailedSync: nothing is acknowledged after it, until the journal was opened anew.
func TestFailedSync(t *testing.T) {
	broken := false
	d := &journal.TestDisk{}
	d.Fault = func(what string) (int, error) {
		if broken && what == "sync" {
			return 0, syscall.EIO
		}
		return 0, nil
	}
	dir := t.TempDir()
	j := open(t, dir, journal.Options{}.OnDisk(d))
	write(t, j, "a")
	synced(t, j)
	write(t, j, "b")
	broken = true
	if err := j.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	broken = false
	if _, _, err := j.Write(t.Context(), jobs("c")); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := j.Sync(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
	if err := j.Wait(t.Context()); !errors.Is(err, haulier.ErrUnavailable) {
		t.Fatal(err)
	}
	j.Close()
	if got := rest(t, open(t, dir, journal.Options{})); !strings.HasPrefix(got, "a") {
		t.Errorf("acknowledged, and gone: %q", got)
	}
}

// TestCallersShareSyncs: all that come during a sync share the next one, and are written together.
func TestCallersShareSyncs(t *testing.T) {
	var syncs, writes atomic.Int32
	begun, hold := make(chan struct{}), make(chan struct{})
	d := &journal.TestDisk{}
	d.Fault = func(what string) (int, error) {
		switch what {
		case "sync":
			if syncs.Add(1) == 1 {
				close(begun)
				<-hold
			}
		case "write":
			writes.Add(1)
		}
		return 0, nil
	}
	j := open(t, t.TempDir(), journal.Options{}.OnDisk(d))
	call := func() {
		_, _, err := j.Write(t.Context(), jobs("x"))
		if err == nil {
			err = j.Sync(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(call)
	<-begun
	for range 99 {
		wg.Go(call)
	}
	for journal.Queued(j) < 99 {
		runtime.Gosched()
	}
	close(hold)
	wg.Wait()
	if syncs.Load() != 2 || writes.Load() != 2 {
		t.Errorf("%d writes, %d syncs for 100 callers", writes.Load(), syncs.Load())
	}
}

// TestCrowd: many write and read at once; each line comes through once, those of a writer in order.
func TestCrowd(t *testing.T) {
	const writers, each = 8, 100
	j := open(t, t.TempDir(), journal.Options{SegmentBytes: 4000})
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if _, _, err := j.Write(t.Context(), jobs(fmt.Sprintf("%d-%d", w, i))); err != nil {
					t.Error(err)
				}
				if i%3 == 0 || i == each-1 {
					if err := j.Sync(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	var mu sync.Mutex
	seen := map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	for r := range 3 {
		reading.Go(func() {
			for k := 0; j.Wait(ctx) == nil; k++ {
				token, err := j.Reserve(10, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if token == 0 {
					continue
				}
				if (k+r)%4 == 0 {
					if err := j.Cancel(token); err != nil {
						t.Error(err)
					}
					continue
				}
				entries, err := j.Read(token)
				if err == nil {
					err = j.Done(ctx, token)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i := range entries {
					seen[string(entries[i].Job.Payload)]++
				}
				if len(seen) == writers*each {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	reading.Wait()
	cancel()
	for k, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", k, n)
		}
	}
	if s := j.Standing(); s.Lines != 0 || s.Files != 1 {
		t.Errorf("standing %+v", s)
	}
}

// model is what a journal is to do, without files.
type model struct {
	waiting [][]string                 // requests, in order, by place
	places  map[string]int             // of the first line of a request
	held    map[journal.Token][]string // by token
	synced  int                        // requests up to this place
	next    int
}

func (m *model) insert(lines []string) {
	at, _ := slices.BinarySearchFunc(m.waiting, lines, func(a, b []string) int { return m.places[a[0]] - m.places[b[0]] })
	m.waiting = slices.Insert(m.waiting, at, lines)
}

// giveBack puts the lines of a token back where they were.
func (m *model) giveBack(token journal.Token) {
	var request []string
	for _, l := range m.held[token] {
		if _, begins := m.places[l]; begins && len(request) > 0 {
			m.insert(request)
			request = nil
		}
		request = append(request, l)
	}
	m.insert(request)
	delete(m.held, token)
}

// TestModel compares random histories with the model, over restarts.
func TestModel(t *testing.T) {
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		dir := filepath.Join(base, fmt.Sprint(runs))
		now := time.Unix(1e9, 0)
		o := journal.Options{SegmentBytes: int64(rapid.IntRange(1, 1000).Draw(t, "segment")), Now: func() time.Time { return now }}
		j, err := journal.Open(dir, o)
		must(t, err)
		defer func() { j.Close() }()
		m := &model{places: map[string]int{}, held: map[journal.Token][]string{}}
		ctx := context.Background()
		some := func(t *rapid.T) journal.Token {
			var list []journal.Token
			for k := range m.held {
				list = append(list, k)
			}
			if len(list) == 0 {
				t.Skip("nothing is reserved")
			}
			slices.Sort(list)
			return rapid.SampledFrom(list).Draw(t, "token")
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				var lines []string
				for range rapid.IntRange(1, 3).Draw(t, "lines") {
					m.next++
					lines = append(lines, fmt.Sprint(m.next))
				}
				m.places[lines[0]] = m.next
				_, _, err := j.Write(ctx, jobs(lines...))
				must(t, err)
				m.waiting = append(m.waiting, lines)
			},
			"sync": func(t *rapid.T) {
				must(t, j.Sync(ctx))
				m.synced = m.next
			},
			"reserve": func(t *rapid.T) {
				n := rapid.IntRange(1, 6).Draw(t, "n")
				token, err := j.Reserve(n, time.Minute)
				must(t, err)
				if token == 0 {
					if len(m.waiting) > 0 && m.places[m.waiting[0][0]] <= m.synced {
						t.Fatalf("nothing to reserve, but there is %v", m.waiting[0])
					}
					return
				}
				entries, err := j.Read(token)
				must(t, err)
				got := strings.Fields(texts(entries))
				taken := 0
				for taken < len(got) {
					front := m.waiting[0]
					if taken > 0 && taken+len(front) > n || m.places[front[0]] > m.synced || !slices.Equal(got[taken:min(taken+len(front), len(got))], front) {
						t.Fatalf("reserved %v of %d, but the front is %v", got, n, m.waiting)
					}
					taken += len(front)
					m.waiting = m.waiting[1:]
				}
				m.held[token] = got
			},
			"done": func(t *rapid.T) {
				token := some(t)
				must(t, j.Done(ctx, token))
				delete(m.held, token)
			},
			"cancel": func(t *rapid.T) {
				token := some(t)
				must(t, j.Cancel(token))
				m.giveBack(token)
			},
			"expire": func(t *rapid.T) {
				now = now.Add(time.Minute)
				for token := range m.held {
					m.giveBack(token)
				}
			},
			"restart": func(t *rapid.T) {
				must(t, j.Close())
				j, err = journal.Open(dir, o)
				must(t, err)
				for token := range m.held {
					m.giveBack(token)
				}
				m.synced = m.next
			},
			"": func(t *rapid.T) {
				lines := 0
				for _, l := range m.waiting {
					lines += len(l)
				}
				held := 0
				for _, l := range m.held {
					held += len(l)
				}
				if s := j.Standing(); s.Lines != lines+held || s.Reserved != held {
					t.Fatalf("standing %+v, want %d lines, %d reserved", s, lines+held, held)
				}
			},
		})
	})
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

package server_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/haulier/haulier/server"
)

var update = flag.Bool("update", false, "write what the server answers into the transcripts")

// Transcripts under testdata show what goes over the wire: lines of a request
// begin with "> ", lines of its answer with "< ", all others are remarks. Ids are
// called id1, id2 … in the order in which they appear; times are as in testing/synctest.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replay(t, file) })
		})
	}
}

func replay(t *testing.T, file string) {
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t)
	h := newServer(t, server.Config{Queue: e, Version: "test"}).Handler()
	names := &namer{ids: map[string]string{}, names: map[string]string{}}
	var got, req bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(want))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, ">"):
			req.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, ">"), " ") + "\n")
			fmt.Fprintln(&got, line)
		case strings.HasPrefix(line, "<"):
			if req.Len() > 0 {
				answer(t, h, names, req.String(), &got)
				req.Reset()
			}
		default:
			fmt.Fprintln(&got, line)
		}
	}
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	a, b := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			t.Fatalf("%s line %d:\n got %s\nwant %s", file, i+1, b[min(i, len(b)-1)], a[i])
		}
	}
}

// answer makes the request and writes the answer as a transcript has it.
func answer(t *testing.T, h http.Handler, names *namer, text string, to *bytes.Buffer) {
	head, body, _ := strings.Cut(names.resolve(text), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(strings.TrimSpace(body)))
	r.Host = "localhost"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, l := range lines[1:] {
		k, v, _ := strings.Cut(l, ": ")
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Fprintf(to, "< %d %s\n", w.Code, http.StatusText(w.Code))
	for _, k := range []string{"Content-Type", "Allow", "Retry-After", "Www-Authenticate", "Haulier-Attempt"} {
		if v := w.Header().Get(k); v != "" {
			fmt.Fprintf(to, "< %s: %s\n", k, v)
		}
	}
	if w.Body.Len() == 0 {
		return
	}
	to.WriteString("<\n")
	for _, l := range strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n") {
		fmt.Fprintln(to, strings.TrimRight("< "+names.hide(l), " "))
	}
}

// namer gives ids names that are the same in each run.
type namer struct{ ids, names map[string]string }

var (
	uuid   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	called = regexp.MustCompile(`\bid\d+\b`)
)

func (n *namer) hide(s string) string {
	return uuid.ReplaceAllStringFunc(s, func(id string) string {
		if n.names[id] == "" {
			name := fmt.Sprintf("id%d", len(n.names)+1)
			n.names[id], n.ids[name] = name, id
		}
		return n.names[id]
	})
}

func (n *namer) resolve(s string) string {
	return called.ReplaceAllStringFunc(s, func(name string) string {
		if id := n.ids[name]; id != "" {
			return id
		}
		return name
	})
}

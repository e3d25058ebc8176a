package client_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/haulier/haulier/client"
)

func TestEventsAreReadAsTheStandardHasThem(t *testing.T) {
	for in, want := range map[string]string{
		"event: job\ndata: {}\n\n":                       "job {}",
		": hello\n\ndata:a\ndata: b\n\n":                 "message a\nb",
		"id: 1\r\nevent: end\r\ndata: x\r\n\r\n":         "end x",
		"event: lost\n\nretry: 5\nevent: job\ndata: 1\n": "",
	} {
		name, data, err := client.ReadEvent(strings.NewReader(in))
		if got := name + " " + string(data); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// FuzzReadEvent: whatever a server sends is an event or an error, of bounded size.
func FuzzReadEvent(f *testing.F) {
	f.Add([]byte("event: job\ndata: {}\n\n"))
	f.Add([]byte(": c\n\ndata:a\ndata\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, data, err := client.ReadEvent(bytes.NewReader(b))
		if err == nil && (name == "" && !bytes.Contains(b, []byte("event")) || len(data) > len(b)) {
			t.Fatalf("event %q of %d bytes", name, len(data))
		}
	})
}

// FuzzProblem: any answer that is an error is an error.
func FuzzProblem(f *testing.F) {
	f.Add(409, "application/problem+json", []byte(`{"code":"conflict","detail":"x","errors":[{"field":"a","message":"b"}]}`))
	f.Add(502, "text/html", []byte("<html>"))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		if err := client.Refused(status, contentType, body); err == nil || err.Error() == "" {
			t.Fatalf("%d %q: %v", status, body, err)
		}
	})
}

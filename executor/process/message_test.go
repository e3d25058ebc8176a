package process

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

func samples() []*message {
	ref := haulier.Ref{Job: haulier.NewID(time.UnixMilli(1_795_000_000_000)), Attempt: 7}
	return []*message{
		{Kind: msgHello, Version: 1, Oldest: 1, Build: "v1", Environ: []string{"A=b", "C="}, Patience: time.Second},
		{Kind: msgStart, Ref: ref, Path: "/bin/sh", Argv: []string{"sh", "", "x"}, Env: []string{"A=1"}, Dir: "/d", Folder: "/f", Result: "/r",
			Stdin: []byte("in"), StdinFile: "/s", Timeout: time.Minute, Grace: time.Second, Head: 1, Tail: 2,
			Limits: haulier.Limits{Memory: 1 << 30, CPU: haulier.Duration(time.Second), Processes: 2, FileSize: 3, OpenFiles: 4}, UID: 5, Sandboxed: 1, Cgroup: "/c"},
		{Kind: msgStop, Ref: ref, Grace: -1},
		{Kind: msgAck, Ref: ref, Offset: 1 << 40},
		{Kind: msgOutput, Ref: ref, Offset: 3, Data: bytes.Repeat([]byte("o"), 70000)},
		{Kind: msgExit, Ref: ref, Code: -1, Signal: 9, Why: endedTimeout, Error: "e", Size: 5, CPU: time.Hour, MaxRSS: 6, Data: []byte("r")},
		{Kind: msgKnown, Ref: ref, PID: 12},
		{Kind: msgQuit},
	}
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	var stream []byte
	all := samples()
	for _, m := range all {
		stream = appendMessage(stream, m)
	}
	r := bytes.NewReader(stream)
	var buf []byte
	for _, want := range all {
		var err error
		if buf, err = readFrame(r, buf); err != nil {
			t.Fatal(err)
		}
		if got, err := parseMessage(buf); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := readFrame(r, buf); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v", err)
	}
}

func TestFieldsOfLaterVersionsAreSkipped(t *testing.T) {
	b := append(appendMessage(nil, samples()[3])[4:], 0xfa, 0x3f, 2, 'h', 'i') // field 1023
	if m, err := parseMessage(b); err != nil || m.Offset != 1<<40 {
		t.Fatalf("got %+v, %v", m, err)
	}
}

func FuzzFrames(f *testing.F) {
	for _, m := range samples() {
		f.Add(appendMessage(nil, m))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		var buf []byte
		for {
			var err error
			if buf, err = readFrame(r, buf); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, haulier.ErrCorrupt) {
					t.Fatalf("unexpected error %v", err)
				}
				return
			}
			m, err := parseMessage(buf)
			if err != nil {
				if !errors.Is(err, haulier.ErrCorrupt) {
					t.Fatalf("unexpected error %v", err)
				}
				continue
			}
			again, err := parseMessage(appendMessage(nil, m)[4:])
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Fatalf("round trip: %+v became %+v, %v", m, again, err)
			}
		}
	})
}

func FuzzLastLine(f *testing.F) {
	f.Add("a\nb\n\n", 2)
	f.Add("  \n", 1)
	f.Fuzz(func(t *testing.T, s string, piece int) {
		if piece < 1 {
			return
		}
		l := lastLine{max: 1 << 20}
		for rest := s; len(rest) > 0; {
			n := min(piece, len(rest))
			l.write([]byte(rest[:n]))
			rest = rest[n:]
		}
		want := ""
		for line := range strings.SplitSeq(s, "\n") {
			if len(bytes.TrimSpace([]byte(line))) > 0 {
				want = strings.TrimRight(line, " \t\r")
			}
		}
		if got := string(l.text()); got != want {
			t.Fatalf("of %q in pieces of %d: got %q, want %q", s, piece, got, want)
		}
	})
}

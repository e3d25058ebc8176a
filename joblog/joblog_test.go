package joblog_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

func TestFramesKeepStreamsApart(t *testing.T) {
	at := time.UnixMicro(1_795_000_000_123_456).UTC()
	big := bytes.Repeat([]byte("x"), joblog.MaxFrame+7)
	b := joblog.Append(nil, joblog.Stdout, at, []byte("out\n"))
	b = joblog.Append(b, joblog.Stderr, at, big)
	b = joblog.Append(b, joblog.Stdout, at, []byte("more\n"))
	out, err := joblog.Text(b, joblog.Stdout)
	if err != nil || string(out) != "out\nmore\n" {
		t.Fatalf("stdout = %q, %v", out, err)
	}
	errs, err := joblog.Text(b, joblog.Stderr)
	if err != nil || !bytes.Equal(errs, big) {
		t.Fatalf("stderr has %d bytes, want %d: %v", len(errs), len(big), err)
	}
	if f, _, err := joblog.Next(b); err != nil || !f.At.Equal(at) {
		t.Fatalf("first frame at %v, want %v: %v", f.At, at, err)
	}
	if n, err := joblog.Whole(b[:len(b)-1]); err != nil || n >= len(b) {
		t.Fatalf("cut frame counted as whole: %d of %d, %v", n, len(b), err)
	}
}

func FuzzNext(f *testing.F) {
	f.Add(joblog.Append(nil, joblog.Stdout, time.UnixMicro(1), []byte("a")))
	f.Add([]byte{1, 0x80})
	f.Add([]byte{9})
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, n, err := joblog.Next(b)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, haulier.ErrCorrupt) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if n <= 0 || n > len(b) {
			t.Fatalf("took %d of %d bytes", n, len(b))
		}
		again := joblog.Append(nil, fr.Stream, fr.At, fr.Data)
		back, _, err := joblog.Next(again)
		if len(fr.Data) > 0 && (err != nil || !bytes.Equal(back.Data, fr.Data) || !back.At.Equal(fr.At)) {
			t.Fatalf("round trip: %v", err)
		}
	})
}

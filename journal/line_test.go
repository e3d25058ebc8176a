package journal_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/journal"
)

var someTime = time.Date(2026, 11, 21, 9, 5, 36, 123456000, time.UTC)

func anEntry(seq uint64, payload string) journal.Entry {
	return journal.Entry{
		Seq: seq, Nth: 1, Of: 1, At: someTime, By: "ann",
		Job: haulier.Spec{ID: haulier.NewID(someTime), Tenant: "acme", Type: "mail", Queue: "bulk", Payload: []byte(payload)},
	}
}

func TestLineIsAsDocumented(t *testing.T) {
	e := anEntry(17, "{\"to\":\"ann\"}\n|second line\x00\xff\\")
	e.Job.ID, _ = haulier.ParseID("0199c3f0-7d3a-7000-8000-1b2c3d4e5f60")
	line, err := journal.LineOf(&e)
	if err != nil {
		t.Fatal(err)
	}
	want := `17|2026-11-21T09:05:36.123456Z|acme/mail|0199c3f0-7d3a-7000-8000-1b2c3d4e5f60|1/1|{"by":"ann","queue":"bulk"}|{"to":"ann"}\n|second line\x00\xff\\|`
	if got := string(line[:len(line)-9]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLines: what is written is read again, and a line is one line of text.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return strings.ToValidUTF8(rapid.String().Draw(t, name), "?") }
		e := journal.Entry{
			Seq: rapid.Uint64Min(1).Draw(t, "seq"), Nth: 1, Of: rapid.IntRange(1, 100).Draw(t, "of"), At: someTime, By: text("by"),
			Job: haulier.Spec{
				ID: haulier.NewID(someTime), Tenant: string(rapid.SliceOf(rapid.Byte()).Draw(t, "tenant")), Type: string(rapid.SliceOf(rapid.Byte()).Draw(t, "type")),
				Queue: text("queue"), Priority: rapid.Int().Draw(t, "priority"), Group: text("group"), Timeout: haulier.Duration(rapid.Int64().Draw(t, "timeout")),
			},
		}
		if p := rapid.SliceOf(rapid.Byte()).Draw(t, "payload"); len(p) > 0 {
			e.Job.Payload = p
		}
		if rapid.Bool().Draw(t, "exec") {
			e.Job.Task.Exec = &haulier.ExecTask{Argv: []string{"echo", text("arg")}}
			e.Job.Labels = map[string]string{text("label"): text("value")}
			e.Job.RunAt = someTime.Add(time.Hour)
		}
		line, err := journal.LineOf(&e)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(line, '\n') != len(line)-1 || bytes.ContainsAny(line, "\r\x00") || !utf8.Valid(line) {
			t.Fatalf("not a line of text: %q", line)
		}
		got, err := journal.ParseLine(line[:len(line)-1])
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%v\ngot  %+v\nwant %+v\n%s", err, got, e, line)
		}
	})
}

// FuzzParseLine: whatever comes is told as corrupt, or means the same when it is written again.
func FuzzParseLine(f *testing.F) {
	for _, p := range []string{"", `{"a":1}`, "a\nb|c\\", "\xff\x00"} {
		e := anEntry(3, p)
		line, err := journal.LineOf(&e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line[:len(line)-1])
	}
	f.Add([]byte("1|x|y/z|i|1/1|{}||00000000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// With a checksum that is right, the rest of the parser is reached.
		for _, line := range [][]byte{b, journal.Summed(b)} {
			e, err := journal.ParseLine(line)
			if err != nil {
				if !errors.Is(err, haulier.ErrCorrupt) {
					t.Fatalf("not told as corrupt: %v", err)
				}
				continue
			}
			again, err := journal.LineOf(&e)
			if err != nil {
				continue // as a time that JSON can't have
			}
			same, err := journal.ParseLine(again[:len(again)-1])
			if err != nil || !reflect.DeepEqual(same, e) {
				t.Fatalf("%v\nfirst  %+v\nsecond %+v", err, e, same)
			}
		}
	})
}

package pebble_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/store/pebble"
)

// checkBytes fuzzes what reads bytes: it fails as it should, or its own bytes give the same again.
func checkBytes(f *testing.F, parse func([]byte) ([]byte, error), seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := parse(b)
		if err != nil {
			if !errors.Is(err, haulier.ErrCorrupt) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if twice, err := parse(once); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%x became %x: %v", once, twice, err)
		}
	})
}

func FuzzParseDoc(f *testing.F) {
	checkBytes(f, pebble.ParseDoc, []byte{1, 0, 'x'}, []byte{0xff, 0xff}, nil)
}

func FuzzParseLane(f *testing.F) {
	checkBytes(f, pebble.ParseLane, []byte("\x01a\x01b\x01c\x02go"), []byte{0xff, 1})
}

func FuzzParseMark(f *testing.F) {
	checkBytes(f, pebble.ParseMark, bytes.Repeat([]byte{7}, 30), []byte{1})
}

func FuzzParseMarker(f *testing.F) {
	f.Add("haulier store 1\nready\n")
	f.Add("haulier store 2\nready\n")
	f.Fuzz(func(t *testing.T, text string) {
		state, err := pebble.ParseMarker(text)
		if err == nil && state != "ready" && state != "new" ||
			err != nil && !errors.Is(err, haulier.ErrCorrupt) && !errors.Is(err, haulier.ErrInvalid) {
			t.Fatalf("%q, %v", state, err)
		}
	})
}

// FuzzCursor gives listings cursors of all kinds: each is an error or a page.
func FuzzCursor(f *testing.F) {
	s, err := pebble.Open(f.TempDir(), pebble.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	insert(f, s, newJobs(20))
	queries := []haulier.Query{{Limit: 3}, {State: haulier.Pending, Limit: 3}, {State: haulier.Scheduled, Limit: 3}, {Session: haulier.ID{1}, Limit: 3}}
	for _, q := range queries {
		page, err := s.List(f.Context(), q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(page.Next)
	}
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, cursor string) {
		if again, err := pebble.ParseCursor(cursor); err == nil && again != cursor {
			t.Fatalf("%q became %q", cursor, again)
		}
		for _, q := range queries {
			q.Cursor = cursor
			if _, err := s.List(t.Context(), q); err != nil && !errors.Is(err, haulier.ErrInvalid) {
				t.Fatal(err)
			}
		}
	})
}

package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

var docTests = []test{
	{"a document's revision grows by one with each write", testDocRevisions},
	{"a document is written only at the expected revision", testDocExpect},
	{"a write at any revision always holds", testDocAnyRev},
	{"a document that does not exist is ErrNotFound", testDocMissing},
	{"an empty value is a value", testDocEmpty},
	{"a value keeps its bytes up to the limit", testDocLarge},
	{"kinds keep their keys apart", testDocKinds},
	{"documents come in order of the bytes of their keys", testDocOrder},
	{"prefix, start and limit select documents", testDocPages},
	{"of concurrent writes at one revision one is made", testDocRace},
	{"many documents are written together", testDocMany},
}

func (f *fixture) write(key string, expect uint64, value string) error {
	return f.s.Commit(f.ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: key, Expect: expect, Value: []byte(value)}}})
}

func (f *fixture) unwrite(key string, expect uint64) error {
	return f.s.Commit(f.ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: key, Expect: expect}}})
}

func (f *fixture) wantDoc(key string, rev uint64, value string) {
	f.t.Helper()
	d, err := f.s.Doc(f.ctx, "other", key)
	f.must(err)
	if d.Kind != "other" || d.Key != key || d.Rev != rev || string(d.Value) != value {
		f.t.Fatalf("document is %+v, want %s at revision %d: %q", d, key, rev, value)
	}
}

func testDocRevisions(_ *testing.T, f *fixture) {
	for i := range uint64(5) {
		f.must(f.write("k", i, fmt.Sprint(i)))
		f.wantDoc("k", i+1, fmt.Sprint(i))
	}
	f.must(f.unwrite("k", 5))
	f.must(f.write("k", 0, "anew"))
	f.wantDoc("k", 1, "anew")
}

func testDocExpect(_ *testing.T, f *fixture) {
	f.wants(f.write("k", 1, "x"), haulier.ErrConflict)
	f.wants(f.unwrite("k", 1), haulier.ErrConflict)
	f.must(f.write("k", 0, "a"))
	f.must(f.write("k", 1, "b"))
	for _, rev := range []uint64{0, 1, 3} {
		f.wants(f.write("k", rev, "x"), haulier.ErrConflict)
	}
	f.wants(f.unwrite("k", 1), haulier.ErrConflict)
	f.wantDoc("k", 2, "b")
	f.must(f.unwrite("k", 2))
	_, err := f.s.Doc(f.ctx, "other", "k")
	f.wants(err, haulier.ErrNotFound)
	f.wants(f.write("k", 2, "x"), haulier.ErrConflict)
}

func testDocAnyRev(_ *testing.T, f *fixture) {
	f.must(f.unwrite("k", haulier.AnyRev))
	f.must(f.write("k", haulier.AnyRev, "a"))
	f.wantDoc("k", 1, "a")
	f.must(f.write("k", haulier.AnyRev, "b"))
	f.wantDoc("k", 2, "b")
	f.must(f.write("k", 2, "c"))
	f.wantDoc("k", 3, "c")
	f.must(f.unwrite("k", haulier.AnyRev))
	_, err := f.s.Doc(f.ctx, "other", "k")
	f.wants(err, haulier.ErrNotFound)
}

func testDocMissing(_ *testing.T, f *fixture) {
	f.must(f.write("key", 0, "x"))
	for _, key := range []string{"k", "key2", "KEY", "other"} {
		_, err := f.s.Doc(f.ctx, "other", key)
		f.wants(err, haulier.ErrNotFound)
	}
	_, err := f.s.Doc(f.ctx, haulier.DocQueue, "key")
	f.wants(err, haulier.ErrNotFound)
}

func testDocEmpty(_ *testing.T, f *fixture) {
	f.must(f.write("k", 0, ""))
	f.wantDoc("k", 1, "")
	if docs := f.docs("other", ""); len(docs) != 1 || docs[0].Rev != 1 {
		f.t.Fatalf("documents are %v, want the empty one", docs)
	}
	f.wants(f.write("k", 0, "x"), haulier.ErrConflict)
}

func testDocLarge(_ *testing.T, f *fixture) {
	value := string(bytes.Repeat([]byte{0, 0xff, '\n', 0x80}, haulier.MaxDoc/4))
	f.must(f.write("k", 0, value))
	d, err := f.s.Doc(f.ctx, "other", "k")
	f.must(err)
	if string(d.Value) != value {
		f.t.Fatalf("%d bytes came back as %d others", len(value), len(d.Value))
	}
}

func testDocKinds(_ *testing.T, f *fixture) {
	for i, kind := range []haulier.DocKind{"log", "lo", "logs", "other"} {
		b := haulier.Batch{Docs: []haulier.DocWrite{{Kind: kind, Key: "s/k", Value: fmt.Append(nil, i)}}}
		f.commit(b)
	}
	for i, kind := range []haulier.DocKind{"log", "lo", "logs", "other"} {
		docs := f.docs(kind, "")
		if len(docs) != 1 || docs[0].Kind != kind || docs[0].Key != "s/k" || string(docs[0].Value) != fmt.Sprint(i) {
			f.t.Fatalf("documents of %s are %v", kind, docs)
		}
	}
}

// testDocOrder uses keys that collations and key encodings like to put elsewhere.
func testDocOrder(_ *testing.T, f *fixture) {
	keys := []string{"!", "%", "*", "-", "/", "0", "10", "2", "A", "B", "[", "\\", "_", "a", "a!", "a%", "a-b", "a/b", "a/b/c", "aB", "a_", "aa", "ab", "b", "~", "ä", "é", "日本"}
	if !slices.IsSorted(keys) {
		f.t.Fatalf("the test's keys are out of order")
	}
	for _, i := range []int{9, 27, 3, 15, 0, 21, 6, 12, 18, 24, 1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26} {
		f.must(f.write(keys[i], 0, "x"))
	}
	var got []string
	for _, d := range f.docs("other", "") {
		got = append(got, d.Key)
	}
	if !slices.Equal(got, keys) {
		f.t.Fatalf("keys are %q\nwant     %q", got, keys)
	}
	for _, prefix := range []string{"a", "%", "a_", "*", "a/", "a/b", "\\", "_", "日", "zz", "a%"} {
		var want, got []string
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		for _, d := range f.docs("other", prefix) {
			got = append(got, d.Key)
		}
		if !slices.Equal(got, want) {
			f.t.Fatalf("keys with prefix %q are %q, want %q", prefix, got, want)
		}
	}
}

func testDocPages(_ *testing.T, f *fixture) {
	var keys []string
	for i := range 10 {
		for _, p := range []string{"a/", "b/"} {
			f.must(f.write(p+name("", i), 0, "x"))
		}
		keys = append(keys, "b/"+name("", i))
	}
	for _, limit := range []int{1, 3, 10, 11} {
		var got []string
		for after := ""; len(got) <= len(keys); {
			docs, err := f.s.Docs(f.ctx, "other", "b/", after, limit)
			f.must(err)
			if len(docs) > limit {
				f.t.Fatalf("%d documents came, more than the limit of %d", len(docs), limit)
			}
			if len(docs) == 0 {
				break
			}
			for _, d := range docs {
				got = append(got, d.Key)
			}
			after = got[len(got)-1]
		}
		if !slices.Equal(got, keys) {
			f.t.Fatalf("by %d: keys are %q, want %q", limit, got, keys)
		}
	}
	for after, want := range map[string]string{"a/999": "b/000", "b/0": "b/000", "b/0041": "b/005", "c": ""} {
		docs, err := f.s.Docs(f.ctx, "other", "b/", after, 1)
		f.must(err)
		if len(docs) > 1 || len(docs) == 1 && docs[0].Key != want || len(docs) == 0 && want != "" {
			f.t.Fatalf("after %q comes %v, want %q", after, docs, want)
		}
	}
}

func testDocRace(t *testing.T, f *fixture) {
	const racers, rounds = 6, 20
	won := make([]int, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			for rev := range uint64(rounds) {
				b := haulier.Batch{Docs: []haulier.DocWrite{{Kind: "other", Key: "k", Expect: rev, Value: fmt.Append(nil, i)}}}
				if err := f.s.Commit(t.Context(), &b); err == nil {
					won[i]++
				}
				// Nobody goes on to the next revision before it can be won.
				for {
					if d, err := f.s.Doc(t.Context(), "other", "k"); err != nil {
						t.Errorf("read: %v", err)
						return
					} else if d.Rev > rev {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range won {
		total += n
	}
	d, err := f.s.Doc(t.Context(), "other", "k")
	f.must(err)
	if total != rounds || d.Rev != rounds {
		t.Fatalf("%d writes were made and the revision is %d, want %d", total, d.Rev, rounds)
	}
}

func testDocMany(_ *testing.T, f *fixture) {
	var b haulier.Batch
	for i := range 500 {
		b.Docs = append(b.Docs, haulier.DocWrite{Kind: haulier.DocLog, Key: name("k", i), Value: bytes.Repeat([]byte{byte(i)}, 200)})
	}
	for range 20 {
		b.Docs = append(b.Docs, openSession(haulier.NewID(f.now), time.Hour))
	}
	f.commit(b)
	if docs := f.docs(haulier.DocLog, "k"); len(docs) != 500 || docs[77].Value[0] != 77 {
		f.t.Fatalf("%d documents came back", len(docs))
	}
	f.wants(f.s.Commit(f.ctx, &b), haulier.ErrConflict)
	if docs := f.docs(haulier.DocSession, ""); len(docs) != 20 || docs[0].Rev != 1 {
		f.t.Fatalf("%d sessions came back", len(docs))
	}
}

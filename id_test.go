package haulier_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

func compareIDs(a, b haulier.ID) int { return bytes.Compare(a[:], b[:]) }

// RFC 9562: 48 bits of milliseconds, version 7, variant 10.
func TestIDLayout(t *testing.T) {
	now := time.Now()
	id := haulier.NewID(now)
	if version := id[6] >> 4; version != 7 {
		t.Errorf("version of %v is %d, want 7", id, version)
	}
	if variant := id[8] >> 6; variant != 0b10 {
		t.Errorf("variant of %v is %b, want 10", id, variant)
	}
	if at := id.Time(); at.Before(now.Truncate(time.Millisecond)) || at.Sub(now) > time.Second {
		t.Errorf("time of %v is %v, want %v or little more", id, at, now)
	}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !form.MatchString(id.String()) {
		t.Errorf("%q does not look like a UUID of version 7", id)
	}
	if id.IsNil() || !haulier.NilID.IsNil() {
		t.Error("IsNil is for the zero ID alone")
	}
}

func TestIDKnownText(t *testing.T) {
	// The example of RFC 9562, appendix A.6: Tuesday, February 22, 2022 2:22:22.00 PM GMT-05:00.
	id, err := haulier.ParseID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC); !id.Time().Equal(want) {
		t.Errorf("time is %v, want %v", id.Time(), want)
	}
	if want := "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"; id.String() != want {
		t.Errorf("text is %v, want %v", id, want)
	}
}

func TestIDsAscend(t *testing.T) {
	now := time.Now()
	last := haulier.NewID(now)
	check := func(ids ...haulier.ID) {
		t.Helper()
		for _, id := range ids {
			if compareIDs(last, id) >= 0 {
				t.Fatalf("%v does not follow %v", id, last)
			}
			if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
				t.Fatalf("%v is no UUID of version 7", id)
			}
			last = id
		}
	}
	for range 1000 {
		check(haulier.NewID(now))
	}
	check(haulier.NewID(now.Add(time.Second)))
	check(haulier.NewID(now.Add(-time.Hour))) // the clock went back
	check(haulier.NewID(time.Time{}))
	ids := make([]haulier.ID, 300_000) // more than one millisecond counts
	haulier.FillIDs(ids, now)
	check(ids...)
	if ahead := last.Time().Sub(now); ahead > 2*time.Second {
		t.Errorf("IDs run %v ahead of the clock", ahead)
	}
	haulier.FillIDs(nil, now)
}

func TestIDsAreRandom(t *testing.T) {
	const n = 4096
	ids := make([]haulier.ID, n)
	haulier.FillIDs(ids, time.Now())
	tails := map[[7]byte]bool{}
	ones := [56]int{}
	for _, id := range ids {
		tail := [7]byte(id[9:])
		tails[tail] = true
		for bit := range ones {
			ones[bit] += int(tail[bit/8] >> (bit % 8) & 1)
		}
	}
	if len(tails) != n {
		t.Errorf("%d of %d random parts are repeated", n-len(tails), n)
	}
	for bit, k := range ones {
		if k < n*2/5 || k > n*3/5 {
			t.Errorf("bit %d is set in %d of %d", bit, k, n)
		}
	}
}

func TestConcurrentIDsDiffer(t *testing.T) {
	const routines, each = 8, 2000
	made := make([][]haulier.ID, routines)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			for range each / 10 {
				part := make([]haulier.ID, 9)
				haulier.FillIDs(part, time.Now())
				made[i] = append(append(made[i], part...), haulier.NewID(time.Now()))
			}
		})
	}
	wg.Wait()
	for i, ids := range made {
		if !slices.IsSortedFunc(ids, compareIDs) {
			t.Errorf("the IDs of goroutine %d do not ascend", i)
		}
	}
	all := slices.Concat(made...)
	slices.SortFunc(all, compareIDs)
	if n := len(slices.Compact(all)); n != routines*each {
		t.Errorf("%d IDs are different, want %d", n, routines*each)
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := "0199c3f0-7d3a-7000-8000-1b2c3d4e5f60"
	for _, s := range []string{
		"", "x", good[:35], good + "0", strings.ReplaceAll(good, "-", ""), "{" + good[1:35] + "}", "urn:uuid:" + good,
		strings.Replace(good, "0", "g", 1), strings.Replace(good, "-", "0", 1), "0199c3f0-7d3a-7000-8000-1b2c3d4e5f6-",
		"0199c3f-07d3a-7000-8000-1b2c3d4e5f60", good[:10] + "-" + good[11:], strings.Repeat("é", 18),
	} {
		if id, err := haulier.ParseID(s); !errors.Is(err, haulier.ErrInvalid) || !id.IsNil() {
			t.Errorf("%q was read as %v, %v", s, id, err)
		}
	}
	kept := haulier.NewID(time.Now())
	before := kept
	if err := kept.UnmarshalText([]byte("no")); err == nil || kept != before {
		t.Errorf("bad text made it %v, %v", kept, err)
	}
}

func TestIDInJSON(t *testing.T) {
	type holder struct {
		A haulier.ID         `json:"a"`
		B haulier.ID         `json:"b,omitzero"`
		M map[haulier.ID]int `json:"m"`
	}
	id := haulier.NewID(time.Now())
	in := holder{A: id, M: map[haulier.ID]int{id: 1}}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"` + id.String() + `","m":{"` + id.String() + `":1}}`; string(b) != want {
		t.Errorf("JSON is %s, want %s", b, want)
	}
	var out holder
	if err := json.Unmarshal(b, &out); err != nil || out.A != id || out.M[id] != 1 {
		t.Errorf("it came back as %+v, %v", out, err)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0199c3f0-7d3a-7000-8000-1b2c3d4e5f60")
	f.Add("0199C3F0-7D3A-7000-8000-1B2C3D4E5F60")
	f.Add("0199c3f0-7d3a-7000-8000-1b2c3d4e5f6-")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := haulier.ParseID(s)
		if err != nil {
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Fatalf("the error of %q is %v, want ErrInvalid", s, err)
			}
			return
		}
		if id.String() != strings.ToLower(s) {
			t.Fatalf("%q was read as %v", s, id)
		}
	})
}

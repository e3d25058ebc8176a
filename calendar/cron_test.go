package calendar_test

import (
	"errors"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ expr, zone, after, want string }{
		{"* * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{"*/15 * * * *", "UTC", "2026-01-01T00:46:10Z", "2026-01-01T01:00:00Z"},
		{"30 9 * * mon-fri", "UTC", "2026-11-20T09:30:00Z", "2026-11-23T09:30:00Z"},
		{"0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 13 * fri", "UTC", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z"}, // either
		{"0 0 13 * ?", "UTC", "2026-11-01T00:00:00Z", "2026-11-13T00:00:00Z"},
		{"0 12 * * 7", "UTC", "2026-11-20T00:00:00Z", "2026-11-22T12:00:00Z"},
		{"5/20 0 0 1 1 *", "UTC", "2026-06-01T00:00:00Z", "2027-01-01T00:00:05Z"},
		{"@daily", "Europe/Berlin", "2026-06-01T00:00:00Z", "2026-06-01T22:00:00Z"},
		{"@every 90m", "UTC", "2026-06-01T00:00:00Z", "2026-06-01T01:30:00Z"},
		// The clocks go forward from 2 to 3: 2:30 is left out, and takes place at 3.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		// They go back from 3 to 2: 2:30 comes twice, and takes place once.
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		// Each hour that passes.
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z"}, // midnight is left out
	} {
		r, err := calendar.Parse(c.expr, calendar.Options{Zone: zone(t, c.zone)})
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		after, _ := time.Parse(time.RFC3339, c.after)
		if got := r.Next(after).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s in %s after %s: %s, want %s", c.expr, c.zone, c.after, got, c.want)
		}
	}
}

// TestHash has the vectors of the executor queue, whose job 123 has the hash 193361109.
func TestHash(t *testing.T) {
	for expr, same := range map[string]string{
		"H * * * *": "9 * * * *", "H(0-5) 4 * * H": "3 4 * * 4", "H 21 5 10 4": "9 21 5 10 4", "H H H H H": "9 21 5 10 4",
	} {
		a, err := calendar.Parse(expr, calendar.Options{Key: "123"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := calendar.Parse(same, calendar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 20 {
			if x, y := a.Next(at), b.Next(at); !x.Equal(y) {
				t.Fatalf("%s comes at %v, %s at %v", expr, x, same, y)
			}
			at = a.Next(at)
		}
	}
	spread := map[int]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		r, err := calendar.Parse("H/15 * * * *", calendar.Options{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		first := r.Next(time.Date(2026, 1, 1, 0, 59, 59, 0, time.UTC))
		spread[first.Minute()] = true
		n := 0
		for at := first; at.Hour() == first.Hour(); at = r.Next(at) {
			n++
		}
		if n != 4 {
			t.Errorf("key %s: %d times an hour", key, n)
		}
	}
	if len(spread) < 3 {
		t.Errorf("six keys share %v", spread)
	}
}

func TestRefusals(t *testing.T) {
	for _, expr := range []string{
		"", "* * * *", "* * * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *",
		"*/x * * * *", "a * * * *", "H(99-100) * * * *", "H(1 * * * *", "0 0 30 2 *", "@every 1", "@every 10ms", "@never", "1,, * * * *",
	} {
		if c, err := calendar.Parse(expr, calendar.Options{}); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%q is %v, %v", expr, c, err)
		}
	}
}

// TestNextAgainstEachMinute compares with a look at each minute, away from the changes of the clocks.
func TestNextAgainstEachMinute(t *testing.T) {
	field := func(lo, hi int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			n := rapid.IntRange(lo, hi)
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return "*"
			case 1:
				return "*/" + itoa(rapid.IntRange(1, hi).Draw(t, "step"))
			case 2:
				a, b := n.Draw(t, "a"), n.Draw(t, "b")
				return itoa(min(a, b)) + "-" + itoa(max(a, b))
			}
			return itoa(n.Draw(t, "n")) + "," + itoa(n.Draw(t, "m"))
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		expr := field(0, 59).Draw(t, "minute") + " " + field(0, 23).Draw(t, "hour") + " " + field(1, 28).Draw(t, "day") + " * " + field(0, 6).Draw(t, "weekday")
		c, err := calendar.Parse(expr, calendar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		after := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 360*24*3600).Draw(t, "after")) * time.Second)
		next := c.Next(after)
		if !next.After(after) || next.Second() != 0 {
			t.Fatalf("%s after %v: %v", expr, after, next)
		}
		// Every match of the rule is its own successor of the second before it; none lies between.
		if again := c.Next(next.Add(-time.Second)); !again.Equal(next) {
			t.Fatalf("%s: %v, then %v", expr, next, again)
		}
		if between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after))-1).Draw(t, "between"))); !c.Next(between).Equal(next) {
			t.Fatalf("%s: after %v comes %v, after %v %v", expr, after, next, between, c.Next(between))
		}
	})
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return string(rune('0'+n/10)) + string(rune('0'+n%10))
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"* * * * *", "H/3 H(1-5) ? jan-mar,dec 1-5/2", "@every 1h", "0 0 29 2 *", "7 7 7 7 7 7"} {
		f.Add(s, "key", int64(0))
	}
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, expr, key string, unix int64) {
		c, err := calendar.Parse(expr, calendar.Options{Zone: berlin, Key: key})
		if err != nil {
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		after := time.Unix(unix%(1<<33), 0)
		if next := c.Next(after); !next.IsZero() && !next.After(after) {
			t.Fatalf("%q after %v: %v", expr, after, next)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"* * * * *", "0 9 * * mon", "0 0 29 2 *"} {
		b.Run(expr, func(b *testing.B) {
			c, err := calendar.Parse(expr, calendar.Options{})
			if err != nil {
				b.Fatal(err)
			}
			at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				c.Next(at)
			}
		})
	}
}

package calendar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/calendar"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExecutorThaw has the executor queue's vectors, and the one that it answered with an invalid date.
func TestExecutorThaw(t *testing.T) {
	for _, c := range []struct{ windows, at, want string }{
		{"* 9-17 ? * 1-5", "2024-05-06T10:33:21.123Z", "2024-05-06T18:00:21.123Z"},
		{"0-59 22-23 * * ?", "2024-12-31T22:10:00Z", "2025-01-01T00:00:00Z"},
		{"* * ? 12 *", "2024-12-15T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"* * ? * 6", "2024-05-04T08:00:00Z", "2024-05-05T00:00:00Z"},
		{"0-31,33-35 * * * ?|* 5-23 * * ?|* * ? 11 *|* * ? * 6", "2018-11-24T10:33:00Z", "2018-12-02T00:32:00Z"},
		{"* * ? * *", "2024-05-04T08:00:07Z", "2024-05-04T08:00:07Z"},
		{"* 9-17 ? * 1-5", "2024-05-06T18:00:00Z", "2024-05-06T18:00:00Z"},
	} {
		got, err := calendar.ExecutorThaw(strings.Split(c.windows, "|"), at(t, c.at))
		if err != nil || !got.Equal(at(t, c.want)) {
			t.Errorf("%s at %s: %v, %v; want %s", c.windows, c.at, got, err, c.want)
		}
	}
	for _, windows := range []string{"* * ? * 0-6", "* * 1 * 1", "* * * * *", "* * ? *", "* 0-11 ? * *|* 12-23 ? * *"} {
		if got, err := calendar.ExecutorThaw(strings.Split(windows, "|"), at(t, "2024-05-04T08:00:00Z")); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s thaws at %v, %v: want an error", windows, got, err)
		}
	}
}

// TestExecutorCron has the executor queue's vectors for job 123.
func TestExecutorCron(t *testing.T) {
	for expr, want := range map[string]string{
		"H * * * *": "9 * * * *", "5 H/2 * * *": "9 21/2 * * *", "H(0-5) 4 * * H": "3 4 * * 4", "*/10 H H H H": "9 21 5 10 4",
	} {
		if got, err := calendar.ExecutorCron(expr, "123"); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", expr, got, err, want)
		}
	}
	for _, expr := range []string{"H * * *", "* H(99-100) * * *", "H H H H H H"} {
		if got, err := calendar.ExecutorCron(expr, "123"); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%s is %q, %v: want an error", expr, got, err)
		}
	}
}

func TestWindowOpensAndCloses(t *testing.T) {
	for _, c := range []struct{ window, at, open, close string }{
		{"freeze: mon-fri 09:00-17:00", "2026-11-20T10:00:30Z", "2026-11-20T17:00:00Z", "2026-11-20T10:00:30Z"},
		{"freeze: mon-fri 09:00-17:00", "2026-11-20T17:00:00Z", "2026-11-20T17:00:00Z", "2026-11-23T09:00:00Z"},
		{"open: sat,sun", "2026-11-20T10:00:00Z", "2026-11-21T00:00:00Z", "2026-11-20T10:00:00Z"},
		{"open in Europe/Berlin: mon-fri 22:00-06:00", "2026-11-21T01:00:00Z", "2026-11-21T01:00:00Z", "2026-11-21T05:00:00Z"},
		{"freeze: 2026-12-24/2027-01-01", "2026-12-25T00:00:00Z", "2027-01-02T00:00:00Z", "2026-12-25T00:00:00Z"},
		{"freeze in Europe/Berlin: 2026-12-24", "2026-12-24T12:00:00Z", "2026-12-24T23:00:00Z", "2026-12-24T12:00:00Z"},
		{"open: 2026-12-24T12:00:00Z/2026-12-24T12:30:05Z; sat", "2026-12-24T00:00:00Z", "2026-12-24T12:00:00Z", "2026-12-24T00:00:00Z"},
		// The hour from 2 to 3 is left out, or comes twice.
		{"open in Europe/Berlin: * 2 29 3 ?; mon 12:00-13:00", "2026-03-28T20:00:00Z", "2026-03-30T10:00:00Z", "2026-03-28T20:00:00Z"},
		{"freeze in Europe/Berlin: 02:00-03:00", "2026-10-25T00:10:00Z", "2026-10-25T02:00:00Z", "2026-10-25T00:10:00Z"},
	} {
		w, err := calendar.ParseWindow(c.window)
		if err != nil {
			t.Errorf("%s: %v", c.window, err)
			continue
		}
		now := at(t, c.at)
		if open, ok := w.NextOpen(now); !ok || !open.Equal(at(t, c.open)) {
			t.Errorf("%s at %s opens %v, %v; want %s", c.window, c.at, open, ok, c.open)
		}
		if shut, ok := w.NextClose(now); !ok || !shut.Equal(at(t, c.close)) {
			t.Errorf("%s at %s closes %v, %v; want %s", c.window, c.at, shut, ok, c.close)
		}
	}
}

func TestWindowsInCommon(t *testing.T) {
	var all []*calendar.Window
	for _, text := range []string{"freeze: mon-fri 08:00-20:00", "open: tue 06:00-22:00", "freeze: 2026-11-24"} {
		w, err := calendar.ParseWindow(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	if open, ok := calendar.NextOpen(all, at(t, "2026-11-20T00:00:00Z")); !ok || !open.Equal(at(t, "2026-12-01T06:00:00Z")) {
		t.Errorf("they open at %v, %v", open, ok)
	}
	never, err := calendar.ParseWindow("freeze: tue")
	if err != nil {
		t.Fatal(err)
	}
	if open, ok := calendar.NextOpen(append(all, never), at(t, "2026-11-20T00:00:00Z")); ok {
		t.Errorf("windows without an opening in common open at %v", open)
	}
}

func TestWindowRefusals(t *testing.T) {
	for _, text := range []string{
		"", "mon", "shut: mon", "freeze:", "freeze: mon-sun", "freeze: 00:00-24:00", "freeze: * * ? * *", "freeze in Nowhere/City: mon", "open: funday",
		"open: 09:00", "open: 25:00-26:00", "open: 2026-13-01", "open: 2026-02-30", "open: 2026-12-24/2026-12-01", "open: 2026-12-24/2026-12-25T00:00:00Z",
		"open: * 9-17 1 * 1", "open: * * L * ?", "open: H * * * ?", "open: " + strings.Repeat("mon,", 100) + "mon", "open: * * 31 2 ?",
		"freeze: 00:00-12:00; 12:00-24:00",
	} {
		if w, err := calendar.ParseWindow(text); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%q is %v, %v: want an error", text, w, err)
		}
	}
}

// TestWindowAgainstEachMinute compares the solver with a look at each minute.
func TestWindowAgainstEachMinute(t *testing.T) {
	zones := []string{"", " in Europe/Berlin", " in Australia/Lord_Howe", " in Asia/Kolkata", " in America/New_York"}
	days := []string{"mon", "tue-thu", "fri-mon", "sat,sun", "*"}
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.Custom(func(t *rapid.T) string {
			day := rapid.SampledFrom(days).Draw(t, "days")
			a, b := rapid.IntRange(0, 23).Draw(t, "from"), rapid.IntRange(0, 23).Draw(t, "until")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return fmt.Sprintf("%s %02d:30-%02d:15", day, a, b)
			case 1:
				return fmt.Sprintf("*/%d %d-%d ? * %s", 1+rapid.IntRange(0, 30).Draw(t, "step"), min(a, b), max(a, b), day)
			case 2:
				return fmt.Sprintf("* * %d * ?", 1+a)
			}
			return fmt.Sprintf("2026-10-%02d/2026-10-%02d", 1+min(a, b), 1+max(a, b))
		})
		text := rapid.SampledFrom([]string{"freeze", "open"}).Draw(t, "mode") + rapid.SampledFrom(zones).Draw(t, "zone") + ": " +
			strings.Join(rapid.SliceOfN(rule, 1, 3).Draw(t, "rules"), "; ")
		w, err := calendar.ParseWindow(text)
		if err != nil {
			t.Skip("it has no opening")
		}
		from := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 35*1440).Draw(t, "at")) * time.Minute)
		scan := func(shut bool) (time.Time, bool) {
			for at := from; at.Before(from.Add(9 * 24 * time.Hour)); at = at.Add(time.Minute) {
				if w.Closed(at) == shut {
					return at, true
				}
			}
			return time.Time{}, false
		}
		for _, shut := range []bool{true, false} {
			next := w.NextOpen
			if shut {
				next = w.NextClose
			}
			want, found := scan(shut)
			got, ok := next(from)
			if found && (!ok || !got.Equal(want)) || !found && ok && got.Before(from.Add(9*24*time.Hour)) {
				t.Fatalf("%s from %v, closed %v: %v, %v; a scan says %v, %v", text, from, shut, got, ok, want, found)
			}
		}
	})
}

// TestPrevIsNextBackwards goes to and fro, over changes of the clocks too.
func TestPrevIsNextBackwards(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.SampledFrom([]string{
			"30 2 * * *", "*/20 * * * *", "0 0 L * *", "15,45 1-3 * * sun", "5/7 0 9 * * mon-fri", "@every 17m", "@hourly", "0 0 29 2 *",
		}).Draw(t, "expr")
		c, err := calendar.Parse(expr, calendar.Options{Zone: berlin})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 300*24*3600).Draw(t, "at")) * time.Second)
		next := c.Next(from)
		if prev := c.Prev(next); !prev.Equal(next) {
			t.Fatalf("%s: %v comes, and the last one then is %v", expr, next, prev)
		}
		if prev := c.Prev(next.Add(-time.Second)); prev.After(from) {
			t.Fatalf("%s: after %v comes %v, but %v lies between", expr, from, next, prev)
		}
	})
}

func FuzzParseWindow(f *testing.F) {
	for _, s := range []string{
		"freeze: * 9-17 ? * mon-fri; 2026-12-24/2027-01-01", "open in Europe/Berlin: mon-fri 22:00-06:00; sat,sun", "freeze: TZ=UTC 2026-12-24T12:00:00+01:00/2026-12-25T00:00:00Z",
	} {
		f.Add(s, int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, unix int64) {
		w, err := calendar.ParseWindow(text)
		if err != nil {
			if !errors.Is(err, haulier.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := calendar.ParseWindow(w.String())
		if err != nil || again.String() != w.String() {
			t.Fatalf("%q is shown as %q, which is %v, %v", text, w, again, err)
		}
		now := time.Unix(unix%(1<<33), 0)
		if open, ok := w.NextOpen(now); ok && (open.Before(now) || w.Closed(open)) {
			t.Fatalf("%q opens at %v: it is closed then", text, open)
		}
	})
}

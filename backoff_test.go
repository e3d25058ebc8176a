package haulier_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
)

func seconds(n ...int) []haulier.Duration {
	out := make([]haulier.Duration, len(n))
	for i, s := range n {
		out[i] = haulier.Duration(time.Duration(s) * time.Second)
	}
	return out
}

func TestBackoffWithoutJitter(t *testing.T) {
	id := haulier.NewID(noon)
	second := haulier.Duration(time.Second)
	for name, c := range map[string]struct {
		b    haulier.Backoff
		want []time.Duration // after try 1, 2, …
	}{
		"constant":                     {haulier.Backoff{Constant: 3 * second}, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		"list, whose last goes on":     {haulier.Backoff{List: seconds(1, 5, 2)}, []time.Duration{1e9, 5e9, 2e9, 2e9, 2e9}},
		"list of one":                  {haulier.Backoff{List: seconds(7)}, []time.Duration{7e9, 7e9}},
		"exponential by default":       {haulier.Backoff{NoJitter: true}, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9}},
		"exponential up to its most":   {haulier.Backoff{NoJitter: true, Base: 3 * second, Max: 10 * second}, []time.Duration{3e9, 6e9, 10e9, 10e9}},
		"exponential up to an hour":    {haulier.Backoff{NoJitter: true, Base: haulier.Duration(40 * time.Minute)}, []time.Duration{40 * time.Minute, time.Hour, time.Hour}},
		"exponential over its most":    {haulier.Backoff{NoJitter: true, Base: 20 * second, Max: 10 * second}, []time.Duration{10e9, 10e9}},
		"exponential of a power of it": {haulier.Backoff{NoJitter: true, Base: second, Max: 4 * second}, []time.Duration{1e9, 2e9, 4e9, 4e9}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, want := range c.want {
				if got := c.b.Delay(i+1, id); got != want {
					t.Errorf("after try %d: %v, want %v", i+1, got, want)
				}
			}
			if got := c.b.Delay(0, id); got != c.want[0] {
				t.Errorf("after try 0: %v, want that after the first, %v", got, c.want[0])
			}
		})
	}
}

func TestBackoffDoublesUpToItsMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")
		top := rapid.Int64Range(base, math.MaxInt64).Draw(t, "max")
		b := haulier.Backoff{Base: haulier.Duration(base), Max: haulier.Duration(top), NoJitter: true}
		want := base
		for try := 1; try <= 200; try++ {
			if got := b.Delay(try, haulier.NilID); int64(got) != want {
				t.Fatalf("after try %d: %d, want %d", try, got, want)
			}
			if want > top/2 {
				want = top
			} else {
				want *= 2
			}
		}
	})
}

func TestBackoffJitterIsStableAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := haulier.Backoff{Base: haulier.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "base")), Max: haulier.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "max"))}
		id := haulier.NewID(noon)
		try := rapid.IntRange(-3, haulier.MaxAttemptLimit+1).Draw(t, "try")
		got := b.Delay(try, id)
		if again := b.Delay(try, id); again != got {
			t.Fatalf("%v, and then %v", got, again)
		}
		whole := b
		whole.NoJitter = true
		if w := whole.Delay(try, id); got < w/2 || got > w {
			t.Fatalf("%v lies outside of half of %v and the whole", got, w)
		}
	})
}

func TestBackoffSpreadsJobs(t *testing.T) {
	var b *haulier.Backoff // nothing said
	const n = 1000
	var buckets [5]int
	for range n {
		d := b.Delay(3, haulier.NewID(noon)) // from 2 s to 4 s
		buckets[min(4, int((d-2*time.Second)/(400*time.Millisecond)))]++
	}
	for i, k := range buckets {
		if k < n/10 || k > n*3/10 {
			t.Errorf("%d of %d delays lie in part %d of 5", k, n, i)
		}
	}
	id := haulier.NewID(noon)
	if b.Delay(1, id)*2 == b.Delay(2, id) && b.Delay(2, id)*2 == b.Delay(3, id) {
		t.Error("each try of a job has the same jitter")
	}
}

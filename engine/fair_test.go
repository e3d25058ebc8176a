package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
)

// TestFairGivesEachTenantItsShare: while all tenants have work, none gets more than one turn ahead of another.
func TestFairGivesEachTenantItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := rapid.IntRange(2, 6).Draw(t, "tenants")
		var bands []engine.Candidate
		for i := range tenants {
			for l := range rapid.IntRange(1, 4).Draw(t, "lanes") {
				bands = append(bands, engine.Candidate{Weight: 1, BandHead: haulier.BandHead{N: 1000, Band: haulier.Band{
					Lane: haulier.Lane{Tenant: fmt.Sprint("t", i), Queue: fmt.Sprint("q", l), Type: "x"}}}})
			}
		}
		p := engine.NewFair(0)
		got := map[string]int{}
		for range rapid.IntRange(1, 60).Draw(t, "picks") {
			n := rapid.IntRange(1, 15).Draw(t, "n")
			total := 0
			for _, take := range p.Pick(bands, n, time.Now()) {
				got[take.Lane.Tenant] += take.N
				total += take.N
			}
			if total != n {
				t.Fatalf("picked %d of %d", total, n)
			}
		}
		least, most := 1<<30, 0
		for i := range tenants {
			n := got[fmt.Sprint("t", i)]
			least, most = min(least, n), max(most, n)
		}
		if most-least > 1 {
			t.Fatalf("shares %v", got)
		}
	})
}

// TestFairSavesUpNoTurns: a tenant that was idle does not get what it missed.
func TestFairSavesUpNoTurns(t *testing.T) {
	p := engine.NewFair(0)
	band := func(tenant string) engine.Candidate {
		return engine.Candidate{Weight: 1, BandHead: haulier.BandHead{N: 1 << 40, Band: haulier.Band{Lane: haulier.Lane{Tenant: tenant, Queue: "q", Type: "x"}}}}
	}
	// Two lanes, so that passes move while b is away.
	for range 1000 {
		p.Pick([]engine.Candidate{band("a"), band("c")}, 1, time.Now())
	}
	got := map[string]int{}
	for range 30 {
		for _, take := range p.Pick([]engine.Candidate{band("a"), band("b"), band("c")}, 1, time.Now()) {
			got[take.Lane.Tenant] += take.N
		}
	}
	if got["b"] > 11 {
		t.Fatalf("shares %v: b was idle and catches up", got)
	}
}

func BenchmarkFairPick(b *testing.B) {
	for _, lanes := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint("lanes=", lanes), func(b *testing.B) {
			var bands []engine.Candidate
			for i := range lanes {
				bands = append(bands, engine.Candidate{Weight: 1, BandHead: haulier.BandHead{N: 1000, Band: haulier.Band{
					Lane: haulier.Lane{Tenant: fmt.Sprint("t", i%100), Queue: fmt.Sprint("q", i), Type: "x"}}}})
			}
			p := engine.NewFair(0)
			for b.Loop() {
				p.Pick(bands, 100, time.Time{})
			}
		})
	}
}

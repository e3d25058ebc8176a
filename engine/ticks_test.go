package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/blob"
	"github.com/haulier/haulier/store/mem"
)

// TestEachTimeOnceThroughDeaths lets servers die at any commit of theirs, while two schedules have over a thousand times.
func TestEachTimeOnceThroughDeaths(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			blobs, err := blob.Open(t.Context(), "mem://")
			if err != nil {
				t.Fatal(err)
			}
			defer blobs.Close()
			m := &mortal{Store: mem.New(), lives: -1}
			defer m.Store.Close()
			rng := rand.New(rand.NewPCG(seed, 4))
			w := &tangle{world: world{t: t, blobs: blobs, rng: rng, store: &unreliable{Store: m, calm: true}}}
			w.begin()
			defer func() { w.end() }()
			begin := time.Now()
			for name, cron := range map[string]string{"a": "@every 1s", "b": "*/2 * * * * *"} {
				s := haulier.Schedule{Name: name, Cron: cron, Job: &haulier.Template{Type: "work"}, Missed: haulier.MissedAll, MissedMost: 100, Overlap: haulier.OverlapWait}
				if _, err := w.engine.SetSchedule(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			deaths := 0
			for time.Since(begin) < 12*time.Minute {
				m.doom(1+rng.IntN(6), rng.IntN(2) == 0)
				w.pass(time.Duration(rng.IntN(9000)) * time.Millisecond)
				synctest.Wait()
				if m.doom(-1, false) {
					deaths++
					w.end()
					w.begin()
				}
			}
			w.pass(10 * time.Second)
			synctest.Wait()
			got := map[string]int{}
			for _, j := range w.jobs() {
				got[j.Labels[haulier.LabelSchedule]+" "+j.Labels[haulier.LabelTick]]++
			}
			for at := 1; at <= 12*60; at++ {
				for name, step := range map[string]int{"a": 1, "b": 2} {
					key := fmt.Sprint(name, " ", begin.Add(time.Duration(at)*time.Second).UTC().Format(time.RFC3339))
					if n := got[key]; n != 1 && at%step == 0 {
						t.Errorf("%s was started %d times", key, n)
					}
				}
			}
			if deaths < 50 {
				t.Errorf("only %d deaths", deaths)
			}
		})
	}
}

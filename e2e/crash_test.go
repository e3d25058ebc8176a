package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haulier/haulier"
)

// TestCrash kills server, workers and shim at random points under load, and holds
// what the server then says against what was acknowledged and what was done.
func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute; run without -short")
	}
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: repeat the choices with -crash.seed %d", seed, seed)
	s := newSite(t)
	c := &chaos{site: s, dice: rand.New(rand.NewPCG(seed, seed)), killed: map[string]int{}}
	ctx, cancel := context.WithTimeout(context.Background(), *crashTime+5*time.Minute)
	defer cancel()
	c.begin(ctx)
	load := s.load(ctx, seed, 4)
	c.run(ctx)
	load.end()
	t.Logf("%d kills in %v: %v", c.rounds, time.Since(c.began).Round(time.Second), c.killed)
	c.settle(ctx)
	facts := s.facts(ctx)
	facts.check(load)
	load.repeatKeys(ctx, t)
	c.finish()
	if t.Failed() {
		t.Logf("what was killed when:\n%s", strings.Join(c.story, "\n"))
	}
}

// chaos is the crew of a site and what befalls it.
type chaos struct {
	site      *site
	dice      *rand.Rand
	commands  *process // worker of commands
	functions *process // worker of Go functions
	began     time.Time
	rounds    int
	killed    map[string]int
	story     []string
}

func (c *chaos) begin(ctx context.Context) {
	c.site.serve()
	c.site.ready(ctx)
	c.commands = c.site.work("commands")
	c.functions = c.site.workFunctions("functions")
	c.began = time.Now()
}

// run kills until the rounds or the time are over.
func (c *chaos) run(ctx context.Context) {
	for *crashRounds == 0 || c.rounds < *crashRounds {
		if time.Since(c.began) > *crashTime || ctx.Err() != nil {
			break
		}
		c.pause(ctx, 20, 400)
		c.round(ctx)
		c.rounds++
	}
}

// pause lets the others work for a random time between the two, in milliseconds.
func (c *chaos) pause(ctx context.Context, least, most int) {
	select {
	case <-time.After(time.Duration(least+c.dice.IntN(most-least)) * time.Millisecond):
	case <-ctx.Done():
	}
}

// round kills one of the crew and puts another in its place, mostly at once.
func (c *chaos) round(ctx context.Context) {
	s := c.site
	switch k := c.dice.IntN(20); {
	case k < 9:
		c.tell("server")
		s.server.kill()
		c.linger(ctx)
		s.serve()
		if c.dice.IntN(3) > 0 { // else the next blow may fall while it opens the store
			s.await(ctx, "the server is ready again", func() bool { return s.isReady(ctx) || s.server.ended() })
		}
	case k < 14:
		c.tell("commands")
		c.commands.kill()
		c.linger(ctx)
		c.commands = s.work("commands")
	case k < 19:
		c.tell("functions")
		c.functions.kill()
		c.linger(ctx)
		c.functions = s.workFunctions("functions")
	default:
		for pid := range mentioning(s.t, " shim", s.dir) {
			c.tell("shim")
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	c.fallen()
}

// linger leaves the place empty for a while, rarely for longer than a lease.
func (c *chaos) linger(ctx context.Context) {
	switch k := c.dice.IntN(60); {
	case k == 0:
		c.pause(ctx, int(lease/time.Millisecond), int(3*lease/2/time.Millisecond))
	case k < 20:
		c.pause(ctx, 1, 200)
	}
}

func (c *chaos) tell(who string) {
	c.killed[who]++
	c.story = append(c.story, fmt.Sprintf("%s %s", time.Now().UTC().Format("15:04:05.000"), who))
}

// fallen fails the test when somebody of the crew ended that nobody killed.
func (c *chaos) fallen() {
	for name, p := range map[string]*process{"server": c.site.server, "commands": c.commands, "functions": c.functions} {
		if p.ended() {
			c.site.t.Fatalf("%s ended by itself with code %d:\n%s", name, p.cmd.ProcessState.ExitCode(), tail(p.output(c.site.t)))
		}
	}
}

// settle waits, in peace now, until every job has ended.
func (c *chaos) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := c.site
	s.ready(ctx)
	open := int64(-1)
	defer func() {
		if open != 0 {
			s.t.Logf("%d jobs have not ended", open)
		}
	}()
	s.await(ctx, "every job has ended", func() bool {
		c.fallen()
		counts, err := s.client.Counts(ctx, haulier.DefaultTenant)
		if err != nil {
			s.t.Fatal("counts: ", err)
		}
		open = 0
		for _, n := range counts {
			if !n.State.Terminal() {
				open += n.N
			}
		}
		return open == 0
	})
}

// finish stops the crew in good order: nothing may be left running.
func (c *chaos) finish() {
	t := c.site.t
	for name, p := range map[string]*process{"functions": c.functions, "commands": c.commands} {
		if code := p.stop(); code != 0 {
			t.Errorf("worker %s ended with code %d on TERM:\n%s", name, code, tail(p.output(t)))
		}
	}
	if code := c.site.server.stop(); code != 0 {
		t.Errorf("the server ended with code %d on TERM:\n%s", code, tail(c.site.server.output(t)))
	}
	c.site.checkStore("pebble:" + filepath.Join(c.site.path("data"), "store"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // as long as a supervisor waits whose worker was killed before it came
	defer cancel()
	c.site.await(ctx, "no process is left", func() bool { return len(mentioning(t, c.site.dir)) == 0 })
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

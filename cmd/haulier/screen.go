package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/haulier/haulier"
)

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second // where there is no terminal
	barWidth  = 28
)

// screen shows the progress of a map on standard error: a bar that is drawn over and over on a
// terminal, now and then a line elsewhere. What else is printed goes through it, so that
// the two do not run into each other.
type screen struct {
	tally *tally
	began time.Time
	w     io.Writer
	width func() int // of the terminal; nil: it is none
	fine  bool       // it has the characters of a fine bar

	mu    sync.Mutex
	drawn bool // the bar stands in the last line
	rate  rate
}

func (p *program) newScreen(t *tally, began time.Time) *screen {
	s := &screen{tally: t, began: began, w: p.errs}
	if f, ok := p.errs.(*os.File); ok && term.IsTerminal(int(f.Fd())) && p.env("TERM") != "dumb" {
		s.width = func() int {
			w, _, err := term.GetSize(int(f.Fd()))
			if err != nil || w < 20 {
				return 80
			}
			return w
		}
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(p.env(name)); v != "" {
			s.fine = strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
			break
		}
	}
	return s
}

// run shows the progress until ctx ends, and then takes the bar away.
func (s *screen) run(ctx context.Context) {
	every := barEvery
	if s.width == nil {
		every = lineEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.draw(now)
		case <-ctx.Done():
			s.mu.Lock()
			s.wipe()
			s.mu.Unlock()
			return
		}
	}
}

func (s *screen) draw(now time.Time) {
	c := s.tally.counts()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate.add(now, c.ended)
	if s.width == nil {
		fmt.Fprintln(s.w, s.line(&c, 0))
		return
	}
	line := s.line(&c, barWidth)
	if w := s.width(); utf8.RuneCountInString(line) > w-1 {
		line = clip(s.line(&c, 0), w-1)
	}
	fmt.Fprint(s.w, "\r"+line+"\x1b[K")
	s.drawn = true
}

// wipe takes the bar away. The caller holds the lock.
func (s *screen) wipe() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// print writes text, above the bar when both are on the terminal.
func (s *screen) print(w io.Writer, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	_, err := w.Write(text)
	return err
}

// line is the progress in one line, with a bar of that width.
func (s *screen) line(c *counted, width int) string {
	var b strings.Builder
	if width > 0 {
		b.WriteString(s.bar(c, width) + " ")
	}
	of := fmt.Sprintf("%d", c.total)
	if !c.all {
		of += "+"
	}
	fmt.Fprintf(&b, "%d of %s jobs", c.ended, of)
	if c.all && c.total > 0 {
		fmt.Fprintf(&b, ", %d%%", 100*c.ended/c.total)
	}
	if n := c.states[haulier.Running] + c.states[haulier.Claimed]; n > 0 {
		fmt.Fprintf(&b, ", %d running", n)
	}
	if n := c.unhappy(); n > 0 {
		fmt.Fprintf(&b, ", %d not ok", n)
	}
	if n := c.states[haulier.Scheduled]; n > 0 {
		fmt.Fprintf(&b, ", %d to try again", n)
	}
	if r := s.rate.perSecond(); r > 0 {
		fmt.Fprintf(&b, ", %.0f/s", r)
		if left := c.total - c.ended; c.all && left > 0 {
			fmt.Fprintf(&b, ", %s left", span((time.Duration(float64(left)/r*1000) * time.Millisecond).Round(time.Second)))
		}
	}
	return b.String()
}

func (s *screen) bar(c *counted, width int) string {
	full, empty := "#", "."
	if s.fine {
		full, empty = "█", "░"
	}
	n := 0
	if c.total > 0 {
		n = width * c.ended / c.total
	}
	return strings.Repeat(full, n) + strings.Repeat(empty, width-n)
}

// rate is how fast a number grew in the last seconds.
type rate struct {
	at []time.Time
	n  []int
}

const rateWindow = 5 * time.Second

func (r *rate) add(now time.Time, n int) {
	r.at, r.n = append(r.at, now), append(r.n, n)
	for len(r.at) > 2 && now.Sub(r.at[0]) > rateWindow {
		r.at, r.n = r.at[1:], r.n[1:]
	}
}

func (r *rate) perSecond() float64 {
	last := len(r.at) - 1
	if last < 1 {
		return 0
	}
	if d := r.at[last].Sub(r.at[0]).Seconds(); d > 0 {
		return float64(r.n[last]-r.n[0]) / d
	}
	return 0
}

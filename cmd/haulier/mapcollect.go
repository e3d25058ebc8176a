package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

const collectAtOnce = 50 // jobs whose end is waited for in one request

// collect waits for the jobs in the order of their lines, and prints what became of them.
func (m *mapping) collect(ctx context.Context, out *resultPrinter) error {
	for i := 0; ; i++ {
		b, err := m.batch(ctx, i)
		if err != nil || b == nil {
			return err
		}
		for from := 0; from < len(b.ids); from += collectAtOnce {
			to := min(from+collectAtOnce, len(b.ids))
			jobs, err := m.q.Wait(ctx, m.p.settings.Tenant, b.ids[from:to])
			if err != nil {
				return err
			}
			for k, j := range jobs {
				m.tally.final(b.ids[from+k], j)
				if err := out.add(b.lines[from+k], b.ids[from+k], j); err != nil {
					return err
				}
			}
			if err := out.flush(); err != nil {
				return err
			}
		}
		b.lines, b.keys = nil, nil
	}
}

// batch returns batch number i when its jobs are added; nil: there is none.
func (m *mapping) batch(ctx context.Context, i int) (*mapBatch, error) {
	for {
		m.mu.Lock()
		grown, all, n := m.grown, m.all, len(m.batches)
		var b *mapBatch
		if i < n {
			b = m.batches[i]
		}
		m.mu.Unlock()
		wait := grown
		if b != nil {
			wait = b.added
		} else if all {
			return nil, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if b != nil {
			return b, nil
		}
	}
}

// resultPrinter prints what became of each line.
type resultPrinter struct {
	w      io.Writer
	form   func(b []byte, r *mapResult) []byte
	screen *screen
	text   []byte
	failed []mapResult // the first few
}

const failuresShown = 5

// mapResult is what became of a line, as JSON has it.
type mapResult struct {
	Line    string          `json:"line"`
	Job     haulier.ID      `json:"job"`
	State   string          `json:"state"` // "removed" when the job is gone
	Outcome haulier.Outcome `json:"outcome,omitempty"`
	Code    int             `json:"code"`
	Attempt int             `json:"attempt"`
	Result  string          `json:"result"`
	Error   string          `json:"error,omitempty"`
}

func (p *program) resultPrinter(how string) (*resultPrinter, error) {
	out := &resultPrinter{w: p.out}
	switch {
	case how == "none":
		out.form = func(b []byte, _ *mapResult) []byte { return b }
	case how != "lines" && how != "tsv":
		return nil, usagef("--results is %q: it is lines, tsv or none", how)
	case p.settings.json():
		out.form = appendResultJSON
	case how == "tsv":
		out.form = appendResultTSV
	default:
		out.form = appendResultLine
	}
	return out, nil
}

func appendResultJSON(b []byte, r *mapResult) []byte {
	line, err := json.Marshal(r)
	if err != nil {
		return b // it is plain text and numbers
	}
	return append(append(b, line...), '\n')
}

func appendResultTSV(b []byte, r *mapResult) []byte {
	return fmt.Appendf(b, "%s\t%s\t%s\n", tsvEscapes.Replace(r.Line), r.State, tsvEscapes.Replace(r.Result))
}

var tsvEscapes = strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)

func appendResultLine(b []byte, r *mapResult) []byte {
	if r.Result == "" {
		return b
	}
	return append(append(b, r.Result...), '\n')
}

// add takes the end of a job; nil when it is gone.
func (o *resultPrinter) add(line string, id haulier.ID, j *haulier.Job) error {
	r := mapResult{Line: line, Job: id, State: "removed", Error: "somebody removed the job, and what became of it is not known"}
	if j != nil {
		r.State, r.Outcome, r.Code, r.Attempt = j.State.String(), j.Outcome, j.Code, j.Attempt
		r.Result, r.Error = string(bytes.TrimRight(j.Result, "\r\n")), ""
		if j.State != haulier.Succeeded {
			r.Error = reasonOf(j)
		}
	}
	if r.Error != "" && len(o.failed) < failuresShown {
		o.failed = append(o.failed, r)
	}
	o.text = o.form(o.text, &r)
	return nil
}

// flush writes what was added.
func (o *resultPrinter) flush() error {
	if len(o.text) == 0 {
		return nil
	}
	defer func() { o.text = o.text[:0] }()
	return o.screen.print(o.w, o.text)
}

// mapSummary is the end of a map as JSON has it.
type mapSummary struct {
	Name     string         `json:"name"`
	Jobs     int            `json:"jobs"`
	Repeated int            `json:"repeated"` // that an earlier run had added
	States   map[string]int `json:"states"`
	Seconds  float64        `json:"seconds"`
}

// summary tells how it went; the error is that some jobs did not succeed.
func (m *mapping) summary(out *resultPrinter) error {
	c := m.tally.counts()
	took := time.Since(m.began)
	if m.p.settings.json() {
		s := mapSummary{Name: m.name, Jobs: c.total, Repeated: c.repeated, States: c.names(), Seconds: took.Seconds()}
		if err := json.NewEncoder(m.p.out).Encode(map[string]mapSummary{"summary": s}); err != nil {
			return err
		}
	}
	for _, r := range out.failed {
		m.p.say("%s: %s: %s (haulier jobs logs %v)", r.State, oneLine(clip(r.Line, 80)), oneLine(clip(r.Error, 120)), r.Job)
	}
	failed := c.total - c.states[haulier.Succeeded]
	if more := failed - len(out.failed); more > 0 {
		m.p.say("and %d more: haulier jobs list --group %s --state failed", more, shellWord(m.name))
	}
	before := ""
	if c.repeated > 0 {
		before = fmt.Sprintf(", %d of them of an earlier run", c.repeated)
	}
	m.p.say("%s in %s%s: %s", count(c.total, "job"), span(took), before, c.words())
	if failed > 0 {
		return exit(exitFailed)
	}
	return nil
}

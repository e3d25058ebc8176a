package script

import (
	"errors"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// work runs a batch.
func (p *process) work(batch []*attempt) {
	p.jobs += len(batch)
	p.streams.begin(batch)
	h := batch[0].handler
	if !p.loaded[h.Digest] {
		if !p.load(h, batch) {
			return
		}
		p.loaded[h.Digest] = true
	}
	began := time.Now()
	sent := make(chan struct{})
	go func() { // the context reads while it tells
		defer close(sent)
		if _, err := p.told.Write(appendBatch(nil, h.Digest, batch)); err != nil {
			p.kill() // it listens no more
		}
	}()
	p.follow(h, batch)
	if p.worn {
		p.kill()
	}
	<-sent
	if p.worn {
		return
	}
	p.batches++
	took := time.Since(began) / time.Duration(len(batch))
	p.x.mu.Lock()
	if p.g.took == 0 {
		p.g.took = took
	}
	p.g.took = max((3*p.g.took+took)/4, 1)
	p.current = nil
	p.x.mu.Unlock()
	p.worn = p.jobs >= p.x.cfg.Jobs || time.Since(p.began) >= p.x.cfg.Age || rss(p.cmd.Process.Pid) > p.x.cfg.Memory || p.streams.broken()
}

// load loads a handler, and ends the batch when that fails.
func (p *process) load(h *haulier.Handler, batch []*attempt) bool {
	p.turn(batch[0])
	why := ""
	if _, err := p.told.Write(appendHandler(nil, h)); err != nil {
		why = p.fault(err)
	} else if words, err := p.hear("loaded", 4, p.x.cfg.Timeout); err != nil {
		why = p.fault(err)
	} else if why, err = said(words[2], words[3]); err != nil {
		why = p.fault(err)
	}
	if why != "" {
		p.worn = true // what of it was done nobody knows
		p.fail(batch, "handler not loaded: "+why)
	}
	return why == ""
}

// follow hears how the jobs of a batch end.
func (p *process) follow(h *haulier.Handler, batch []*attempt) {
	p.turn(batch[0])
	words, err := p.hear("begin", 3, p.x.cfg.Timeout)
	if err != nil {
		why := p.fault(err)
		if p.batches > 0 && !errors.Is(err, errTimeout) { // it had ended before it knew of them
			p.x.giveBack(p.g, batch)
			return
		}
		p.fail(batch, "before-each: "+why)
		return
	}
	why, err := said(words[1], words[2])
	if err != nil {
		p.fail(batch, "before-each: "+p.fault(err))
		return
	}
	var held held
	for i := 0; i < len(batch) && why == ""; i++ {
		a := batch[i]
		p.turn(a)
		r, err := p.outcome(a, i)
		if err == nil && i < len(batch)-1 && !p.streams.await(i) {
			err = errMarks
		}
		if err != nil {
			p.broken(batch[i:], p.fault(err))
			held.release("its batch ended before after-each", p)
			return
		}
		if i == len(batch)-1 || h.AfterEach != "" && r.Outcome == haulier.OutcomeOK {
			held.add(a, r)
			continue
		}
		p.settle(a, r)
	}
	words, err = p.hear("end", 3, p.x.cfg.Timeout)
	ended := ""
	if err == nil {
		ended, err = said(words[1], words[2])
	}
	if err == nil && !p.streams.await(len(batch)-1) {
		err = errMarks
	}
	if err != nil {
		ended = p.fault(err)
	}
	switch {
	case why != "":
		p.fail(batch, "before-each: "+why)
	case ended != "" && h.AfterEach != "":
		held.fail("after-each: "+ended, p)
	default:
		held.settle(p)
	}
}

// outcome hears how a job ended.
func (p *process) outcome(a *attempt, place int) (executor.Result, error) {
	words, err := p.hear("done", 6, a.timeout)
	if err != nil {
		return executor.Result{}, err
	}
	return parseDone(words, place)
}

// turn notes which job the context runs. One that was stopped meanwhile ends the context.
func (p *process) turn(a *attempt) {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	p.current = a
	if a.stopping {
		p.ended = true
		p.kill()
	}
}

// settle ends an attempt.
func (p *process) settle(a *attempt, r executor.Result) {
	p.x.mu.Lock()
	a.in = nil
	p.x.mu.Unlock()
	a.finish(r)
}

// fail ends attempts of which none can be said to be at fault. When the context ended since one was stopped, the others run again.
func (p *process) fail(batch []*attempt, why string) {
	if p.stopped() {
		p.x.giveBack(p.g, batch)
		return
	}
	for _, a := range batch {
		p.settle(a, failed(why))
	}
}

// broken ends the attempt in whose turn the context ended; those that come after it run again.
func (p *process) broken(batch []*attempt, why string) {
	if p.stopped() {
		p.x.giveBack(p.g, batch)
		return
	}
	p.settle(batch[0], failed(why))
	p.x.giveBack(p.g, batch[1:])
}

// stopped reports whether the context was ended since a job was stopped.
func (p *process) stopped() bool {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	return p.ended
}

// held are attempts whose jobs are done but for the end of their batch.
type held struct {
	attempts []*attempt
	results  []executor.Result
}

func (h *held) add(a *attempt, r executor.Result) {
	h.attempts, h.results = append(h.attempts, a), append(h.results, r)
}

func (h *held) settle(p *process) {
	for i, a := range h.attempts {
		p.settle(a, h.results[i])
	}
}

// fail lets those fail that had ended well.
func (h *held) fail(why string, p *process) {
	for i, a := range h.attempts {
		if h.results[i].Outcome == haulier.OutcomeOK {
			h.results[i] = failed(why)
		}
		p.settle(a, h.results[i])
	}
}

// release gives back those that had ended well, to be run again without having been tried.
func (h *held) release(why string, p *process) {
	for i, a := range h.attempts {
		if h.results[i].Outcome == haulier.OutcomeOK {
			h.results[i] = executor.Result{Outcome: haulier.OutcomeRetry, Error: why, Released: true}
		}
		p.settle(a, h.results[i])
	}
}

package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/haulier/haulier"
)

// maxBatchBytes bounds what one request carries, roughly.
const maxBatchBytes = 2 << 20

// reports is a queue of what is to be told; runs[i] is what list[i] is about.
type reports struct {
	list []haulier.Report
	runs []*run
}

func (q *reports) add(r *run, rep haulier.Report) {
	q.list = append(q.list, rep)
	q.runs = append(q.runs, r)
}

func (q *reports) reset() {
	clear(q.list)
	clear(q.runs)
	q.list, q.runs = q.list[:0], q.runs[:0]
}

// report queues a report. The end of a run takes its remaining output along. It is called with the lock held.
func (s *session) report(r *run, rep haulier.Report) {
	if s.lost {
		return
	}
	if rep.Kind.Ends() {
		r.out.take(&rep)
		r.out.end()
	}
	s.queue.add(r, rep)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// reportLoop sends what there is to tell: everything that came together while the request before was under way.
func (s *session) reportLoop(ctx context.Context) {
	var batch reports
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		for {
			batch.reset()
			s.w.mu.Lock()
			batch, s.queue = s.queue, batch
			s.fill(&batch)
			s.w.mu.Unlock()
			if len(batch.list) == 0 {
				break
			}
			if !s.sendAll(ctx, &batch) {
				return
			}
		}
	}
}

// fill completes the reports that are written when they are sent, and leaves out those that have become empty.
func (s *session) fill(q *reports) {
	n := 0
	for i := range q.list {
		rep, r := &q.list[i], q.runs[i]
		switch rep.Kind {
		case haulier.ReportLog:
			r.told.logQueued = false
			if rep.Log == nil {
				if r.out.take(rep); rep.Log == nil {
					continue
				}
			}
		case haulier.ReportProgress:
			if r.told.queued {
				rep.Percent, rep.Step = r.told.percent, r.told.step
				r.told.queued, r.told.progress = false, false
				r.told.percent, r.told.step = -1, ""
			}
		}
		if n != i {
			q.list[n], q.runs[n] = *rep, r
		}
		n++
	}
	clear(q.list[n:])
	clear(q.runs[n:])
	q.list, q.runs = q.list[:n], q.runs[:n]
}

// sendAll sends a batch in requests of bounded size, and reports whether the session lives.
func (s *session) sendAll(ctx context.Context, q *reports) bool {
	for at := 0; at < len(q.list); {
		n, size := 0, 0
		for at+n < len(q.list) && n < haulier.MaxReports && size < maxBatchBytes {
			size += len(q.list[at+n].Log) + len(q.list[at+n].Result) + 100
			n++
		}
		if !s.send(ctx, q.list[at:at+n:at+n], q.runs[at:at+n]) {
			return false
		}
		at += n
	}
	return true
}

// send sends reports until the server has answered. A request that the server refuses as a whole is halved, to find what it is about.
func (s *session) send(ctx context.Context, list []haulier.Report, runs []*run) bool {
	var wait backoff
	for {
		errs, err := s.w.cfg.Consumer.Report(ctx, s.id, list)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil && len(errs) == len(list):
			return s.settle(ctx, list, runs, errs, &wait)
		case err == nil:
			err = fmt.Errorf("report: %w: %d answers to %d reports", haulier.ErrUnavailable, len(errs), len(list))
		case errors.Is(err, haulier.ErrLeaseLost):
			s.lose()
			return false
		case errors.Is(err, haulier.ErrInvalid) && len(list) > 1:
			half := len(list) / 2
			return s.send(ctx, list[:half], runs[:half]) && s.send(ctx, list[half:], runs[half:])
		case errors.Is(err, haulier.ErrInvalid):
			return s.settle(ctx, list, runs, []error{err}, &wait)
		}
		s.log.Warn("report", "reports", len(list), "err", err)
		if !wait.pause(ctx, nil) {
			return false
		}
	}
}

// settle does what the answers ask for, and sends again what has to be.
func (s *session) settle(ctx context.Context, list []haulier.Report, runs []*run, errs []error, wait *backoff) bool {
	again := s.answered(list, runs, errs)
	if len(again.list) == 0 {
		return true
	}
	if !wait.pause(ctx, nil) {
		return false
	}
	return s.send(ctx, again.list, again.runs)
}

// answered takes in the answers and returns what is to be sent again.
func (s *session) answered(list []haulier.Report, runs []*run, errs []error) reports {
	var again reports
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for i := range list {
		rep, r, err := &list[i], runs[i], errs[i]
		if err == nil {
			s.acknowledged(rep, r)
			continue
		}
		ends := rep.Kind.Ends()
		switch {
		case errors.Is(err, haulier.ErrLeaseLost):
			s.drop(r)
		case errors.Is(err, haulier.ErrUnavailable), errors.Is(err, haulier.ErrConflict) && ends:
			again.add(r, *rep)
		case ends:
			s.log.Error("end of a job refused", "job", rep.Job, "attempt", rep.Attempt, "err", err)
			if rep.Kind == haulier.ReportFinish && !r.refused {
				r.refused = true
				again.add(r, haulier.Report{Ref: rep.Ref, Kind: haulier.ReportFinish, Outcome: haulier.OutcomeFailed, Code: -1,
					Error: "the server refused how the attempt ended: " + err.Error()})
			} else {
				s.drop(r)
			}
		default:
			s.log.Warn("report refused", "job", rep.Job, "attempt", rep.Attempt, "kind", int(rep.Kind), "err", err)
			s.acknowledged(rep, r) // so that output goes on
		}
	}
	return again
}

// acknowledged is called with the lock held.
func (s *session) acknowledged(rep *haulier.Report, r *run) {
	if len(rep.Log) > 0 {
		offset := rep.LogFrom + int64(len(rep.Log))
		r.out.ack(offset)
		if r.attempt != nil {
			r.attempt.Acked(offset)
		}
	}
	if !rep.Kind.Ends() {
		return
	}
	if s.held[rep.Job] == r {
		delete(s.held, rep.Job)
	}
	if r.attempt != nil {
		r.attempt.Close()
	}
	s.checkDrained()
}

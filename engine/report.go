package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine/flow"
)

// maxThen bounds the follow-on jobs of one finish, so that it fits one commit on every store.
const maxThen = 40

// Report implements haulier.Consumer. All reports of a call go into one commit;
// when that meets a conflict, each job's go into one of their own.
func (e *Engine) Report(ctx context.Context, session haulier.ID, reports []haulier.Report) ([]error, error) {
	if len(reports) > haulier.MaxReports {
		return nil, &haulier.FieldError{Field: "reports", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d reports: send at most %d in a request", len(reports), haulier.MaxReports)}
	}
	s, err := e.session(ctx, session)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(reports))
	groups := byJob(reports)
	sortGroups(groups, reports)
	// A store may take less at once than workers have to tell.
	if err = e.reportOnce(ctx, s, reports, groups, errs); errors.Is(err, haulier.ErrConflict) || errors.Is(err, haulier.ErrTooLarge) {
		err = e.reportEach(ctx, s, reports, groups, errs)
	}
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return errs, nil
}

// reportEach carries out each job's reports on their own, anew while others change the job.
func (e *Engine) reportEach(ctx context.Context, s *session, reports []haulier.Report, groups [][]int, errs []error) error {
	for _, g := range groups {
		var err error
		for range tiedTries {
			if err = e.reportOnce(ctx, s, reports, [][]int{g}, errs); !errors.Is(err, haulier.ErrConflict) {
				break
			}
		}
		if errors.Is(err, haulier.ErrConflict) {
			for _, i := range g {
				errs[i] = err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// byJob groups the indexes of reports by their job, in order of first appearance.
func byJob(reports []haulier.Report) [][]int {
	place := make(map[haulier.ID]int, len(reports))
	groups := make([][]int, 0, len(reports))
	flat := make([]int, len(reports)) // backs the groups of one, which most are
	for i := range reports {
		id := reports[i].Job
		if k, ok := place[id]; ok {
			groups[k] = append(groups[k], i)
			continue
		}
		place[id] = len(groups)
		flat[i] = i
		groups = append(groups, flat[i:i+1:i+1])
	}
	return groups
}

// sortGroups puts the groups in order of their jobs, the order in which outputs are locked.
func sortGroups(groups [][]int, reports []haulier.Report) {
	slices.SortFunc(groups, func(a, b []int) int { return bytes.Compare(reports[a[0]].Job[:], reports[b[0]].Job[:]) })
}

// reporting is one commit of reports in the making.
type reporting struct {
	e       *Engine
	session *session
	now     time.Time
	batch   haulier.Batch
	grown   []*output // outputs to be settled after the commit
	ended   []endings // attempts, to be counted after the commit
	tx      *flow.Tx  // of jobs whose change means something for others; nil: none yet
	puts    keeping   // blobs that the commit refers to
	filed   *filing   // versions of filesets that it makes; nil: none
}

// reportOnce puts the reports of the groups into one commit. Reports that the
// rule book refuses get their error in errs; only the store's errors are returned.
func (e *Engine) reportOnce(ctx context.Context, s *session, reports []haulier.Report, groups [][]int, errs []error) error {
	ids := make([]haulier.ID, len(groups))
	for k, g := range groups {
		ids[k] = reports[g[0]].Job
	}
	jobs, err := e.store.Jobs(ctx, ids)
	if err != nil {
		return err
	}
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	r := &reporting{e: e, session: s, now: now, puts: keeping{e: e}}
	r.batch.Update = make([]haulier.JobUpdate, 0, len(groups))
	defer r.settle()
	for k, g := range groups {
		if err := r.job(ctx, jobs[k], reports, g, errs); err != nil {
			return err
		}
	}
	var work []string
	if r.tx != nil {
		if work, err = r.tx.Flush(ctx, &r.batch); err != nil {
			return err
		}
	}
	if r.filed != nil {
		r.batch.Docs = append(r.batch.Docs, r.filed.writes()...)
	}
	docs, err := r.puts.writes(ctx, r.batch.Insert)
	if err != nil {
		return err
	}
	r.batch.Docs = append(r.batch.Docs, docs...)
	if len(r.batch.Update)+len(r.batch.Docs)+len(r.batch.Insert) == 0 {
		return nil
	}
	if err := e.commit(ctx, &r.batch, work); err != nil {
		return err
	}
	e.outcomes.add(r.ended)
	if r.filed != nil {
		e.releaseBlobs(ctx, r.filed.freed)
	}
	for _, o := range r.grown {
		if o.commit(e.outputs) {
			e.hub.grew(o.ref.Job)
		}
	}
	return nil
}

// settle gives back what the commit held, whether it was made or not.
func (r *reporting) settle() {
	for _, o := range r.grown {
		o.mu.Unlock()
	}
}

// job adds the reports about one job.
func (r *reporting) job(ctx context.Context, j *haulier.Job, reports []haulier.Report, group []int, errs []error) error {
	if j == nil {
		for _, i := range group {
			errs[i] = fmt.Errorf("job %v: %w: it was deleted", reports[i].Job, haulier.ErrLeaseLost)
		}
		return nil
	}
	if r.tx != nil {
		j = r.tx.Adopt(j) // what became of those before may have changed it
	}
	before := j.Rev
	cur := *j
	var log written
	for _, i := range group {
		rep := &reports[i]
		errs[i] = nil
		if cur.State == haulier.Pending && cur.Attempt+1 == rep.Attempt && r.e.hold.active() {
			// A power cut made the store forget the claim: the report says it again.
			if err := become(&cur, haulier.Event{Kind: haulier.EventReclaim, Session: r.session.ID, Attempt: rep.Attempt, By: r.session.snapshot().Worker}, r.now); err != nil {
				errs[i] = err
				continue
			}
		}
		if !cur.State.Owned() || cur.Session != r.session.ID || cur.Attempt != rep.Attempt {
			errs[i] = fmt.Errorf("job %v: %w: attempt %d is not the session's any more", j.ID, haulier.ErrLeaseLost, rep.Attempt)
			continue
		}
		if len(rep.Log) > 0 || rep.Kind == haulier.ReportFinish {
			var err error
			if errs[i], err = log.add(ctx, r, j, rep); err != nil {
				return err
			} else if errs[i] != nil {
				continue
			}
		}
		if err := r.one(ctx, &cur, rep, log.out); err != nil {
			if isStore(err) {
				return err
			}
			errs[i] = err
		} else if rep.Kind == haulier.ReportFinish {
			r.ended = another(r.ended, endingOf(&cur))
		}
	}
	switch {
	case cur.Rev == before:
	case r.e.tied(j, &cur.Status):
		if err := r.flow().Set(ctx, j, cur.Status); err != nil {
			return err
		}
	default:
		r.batch.Update = append(r.batch.Update, haulier.JobUpdate{Spec: &j.Spec, Expect: before, Status: cur.Status})
	}
	return log.commit(ctx, r, cur.State.Owned())
}

// written is what the reports about one job bring of its output.
type written struct {
	out   *output
	links *chain // nil: its lines bring no jobs
}

// add takes the output of a report. refused is about the report, err about the call.
func (w *written) add(ctx context.Context, r *reporting, j *haulier.Job, rep *haulier.Report) (refused, err error) {
	if w.out == nil {
		if w.out, err = r.output(ctx, j, rep); err != nil {
			return nil, err
		}
		if w.links, err = r.chain(ctx, j, rep.Attempt); err != nil {
			return nil, err
		}
	}
	fresh, refused := w.out.append(rep)
	if refused != nil || w.links == nil {
		return refused, nil
	}
	return nil, w.links.read(fresh)
}

// commit adds what is to be kept to the commit.
func (w *written) commit(ctx context.Context, r *reporting, running bool) error {
	if w.out == nil {
		return nil
	}
	r.batch.Docs = append(r.batch.Docs, w.out.writes()...)
	if w.links == nil {
		return nil
	}
	return w.links.commit(ctx, !running)
}

func (r *reporting) flow() *flow.Tx {
	if r.tx == nil {
		r.tx = flow.Begin(r.e.store, r.now)
	}
	return r.tx
}

// isStore tells the store's errors, which are about the call, from those about one report.
func isStore(err error) bool {
	return errors.Is(err, haulier.ErrUnavailable) || errors.Is(err, haulier.ErrCorrupt)
}

// one decides what a report does to the job.
func (r *reporting) one(ctx context.Context, cur *haulier.Job, rep *haulier.Report, out *output) error {
	ev := haulier.Event{Session: r.session.ID, Attempt: rep.Attempt, By: cur.Worker}
	switch rep.Kind {
	case haulier.ReportLog:
		return nil
	case haulier.ReportStart:
		if cur.State == haulier.Running {
			return nil // said again, as after an adoption
		}
		ev.Kind = haulier.EventStart
	case haulier.ReportProgress:
		ev.Kind, ev.Percent, ev.Step = haulier.EventProgress, rep.Percent, rep.Step
	case haulier.ReportRelease:
		ev.Kind, ev.Error, ev.Delay = haulier.EventRelease, rep.Error, rep.Delay
		r.batch.Sync = true
	case haulier.ReportAbort:
		ev.Kind, ev.Error = haulier.EventAbort, rep.Error
		r.batch.Sync = true
	case haulier.ReportFinish:
		return r.finish(ctx, cur, rep, ev, out)
	default:
		return field("kind", fmt.Sprintf("%d is no kind of report", rep.Kind))
	}
	return become(cur, ev, r.now)
}

func (r *reporting) finish(ctx context.Context, cur *haulier.Job, rep *haulier.Report, ev haulier.Event, out *output) error {
	ev.Kind, ev.Outcome, ev.Code, ev.Error = haulier.EventFinish, rep.Outcome, rep.Code, rep.Error
	ev.Result, ev.Delay, ev.Account = rep.Result, rep.Delay, rep.Account
	if !rep.Outcome.Valid() {
		return become(cur, ev, r.now) // which says so
	}
	if len(rep.Then) > 0 {
		if rep.Outcome != haulier.OutcomeOK {
			return field("then", "only an attempt that ended ok can bring further jobs")
		}
		if err := r.follow(ctx, cur, rep.Then); err != nil {
			return err
		}
	}
	var err error
	if rep.Output != "" {
		if ev.Output, err = r.file(ctx, cur, rep.Output); err != nil {
			return err
		}
	}
	if rep.ResultBlob != "" {
		if err := r.keepResult(ctx, cur, rep); err != nil {
			return err
		}
		ev.ResultBlob = rep.ResultBlob
	}
	if ev.LogBlob, ev.LogSize, err = out.close(ctx, r, cur.Tenant); err != nil {
		return err
	}
	r.batch.Sync = true
	return become(cur, ev, r.now)
}

// keepResult holds the blob of a whole result for the job.
func (r *reporting) keepResult(ctx context.Context, j *haulier.Job, rep *haulier.Report) error {
	if err := checkAddress(j.Tenant, rep.ResultBlob); err != nil {
		return err
	}
	_, rev, err := r.e.blobDoc(ctx, blobKey(j.Tenant, rep.ResultBlob))
	if err != nil {
		return err
	}
	if rev == 0 {
		return field("result_blob", "is the address of no blob of the tenant: put it first")
	}
	r.puts.blob(j.Tenant, rep.ResultBlob, j.ID.String(), haulier.NilID)
	kept, err := json.Marshal(outputBlob{Blob: rep.ResultBlob})
	r.batch.Docs = append(r.batch.Docs, haulier.DocWrite{Kind: haulier.DocLog, Key: outputPrefix(rep.Ref) + resultMarker, Expect: haulier.AnyRev, Value: kept})
	return err
}

// follow adds the jobs that a finish brings, in the tenant of the job that ends.
func (r *reporting) follow(ctx context.Context, cur *haulier.Job, specs []haulier.Spec) error {
	if len(specs) > maxThen {
		return &haulier.FieldError{Field: "then", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d jobs: at most %d come with a finish; enqueue more by the API while the job runs", len(specs), maxThen)}
	}
	jobs := make([]haulier.Spec, len(specs))
	for i, s := range specs {
		if s.Tenant != "" && s.Tenant != cur.Tenant {
			return fmt.Errorf("then[%d].tenant: %w: a job brings jobs of its own tenant only", i, haulier.ErrForbidden)
		}
		s.Tenant = cur.Tenant
		if len(s.Payload) > haulier.MaxPayload {
			return &haulier.FieldError{Field: fmt.Sprintf("then[%d].payload", i), Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d bytes: at most %d in a finish", len(s.Payload), haulier.MaxPayload)}
		}
		jobs[i] = s
	}
	b := haulier.Batch{Insert: make([]haulier.Job, len(jobs))}
	req := haulier.EnqueueRequest{Jobs: jobs, By: "job " + cur.ID.String()}
	if err := r.e.prepare(ctx, &req, nil, r.now, make([]haulier.ID, len(jobs)), &b, &r.puts); err != nil {
		return err
	}
	tied := false
	for i := range b.Insert {
		b.Insert[i].Parent = cur.ID
		tied = tied || b.Insert[i].Flow != nil
	}
	if tied {
		_, err := r.flow().Add(ctx, b.Insert)
		return err
	}
	r.batch.Insert = append(r.batch.Insert, b.Insert...)
	return nil
}

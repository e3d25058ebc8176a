package server_test

import (
	"context"

	"github.com/haulier/haulier"
)

func (r *recorder) SetSchedule(_ context.Context, s haulier.Schedule) (haulier.Schedule, error) {
	return s, r.note("set schedule %q %q %s", s.Tenant, s.Name, s.Cron)
}

func (r *recorder) Schedules(_ context.Context, tenant string) ([]haulier.Schedule, error) {
	return nil, r.note("schedules %q", tenant)
}

func (r *recorder) Schedule(_ context.Context, tenant, name string) (haulier.Schedule, error) {
	return haulier.Schedule{Tenant: tenant, Name: name}, r.note("schedule %q %q", tenant, name)
}

func (r *recorder) DeleteSchedule(_ context.Context, tenant, name string) error {
	return r.note("delete schedule %q %q", tenant, name)
}

func (r *recorder) PauseSchedule(_ context.Context, tenant, name string, paused bool) (haulier.Schedule, error) {
	return haulier.Schedule{Tenant: tenant, Name: name}, r.note("pause schedule %q %q %v", tenant, name, paused)
}

func (r *recorder) RunSchedule(_ context.Context, tenant, name, by string) ([]haulier.ID, error) {
	return nil, r.note("run schedule %q %q by %q", tenant, name, by)
}

func (r *recorder) ApplyWorkflow(_ context.Context, tenant, name, source, by string) (haulier.Workflow, error) {
	return haulier.Workflow{}, r.note("apply %q %q %q by %q", tenant, name, source, by)
}

func (r *recorder) Workflows(_ context.Context, tenant string) ([]haulier.Workflow, error) {
	return nil, r.note("workflows %q", tenant)
}

func (r *recorder) Workflow(_ context.Context, tenant, name string, version int) (haulier.Workflow, error) {
	return haulier.Workflow{}, r.note("workflow %q %q %d", tenant, name, version)
}

func (r *recorder) DeleteWorkflow(_ context.Context, tenant, name string) error {
	return r.note("delete workflow %q %q", tenant, name)
}

func (r *recorder) StartRun(_ context.Context, q haulier.RunRequest) (haulier.Run, error) {
	return haulier.Run{}, r.note("start %q %q from %q with %s by %q", q.Tenant, q.Workflow, q.From, q.Payload, q.By)
}

func (r *recorder) Runs(_ context.Context, tenant, name string, limit int) ([]haulier.Run, error) {
	return nil, r.note("runs %q %q %d", tenant, name, limit)
}

func (r *recorder) GetRun(_ context.Context, tenant, id string) (haulier.Run, error) {
	return haulier.Run{}, r.note("run %q %q", tenant, id)
}

func (r *recorder) CancelRun(_ context.Context, tenant, id, by, _ string) (haulier.Changed, error) {
	return haulier.Changed{}, r.note("cancel run %q %q by %q", tenant, id, by)
}

func (r *recorder) RetryRun(_ context.Context, tenant, id, by string) (haulier.Changed, error) {
	return haulier.Changed{}, r.note("retry run %q %q by %q", tenant, id, by)
}

func (r *recorder) WorkflowGraph(_ context.Context, tenant, name, run string, svg bool) (string, error) {
	return "A", r.note("graph %q %q %q %v", tenant, name, run, svg)
}

func (r *recorder) PostEvent(_ context.Context, s haulier.Signal) error {
	return r.note("post %q %q with %s by %q", s.Tenant, s.Name, s.Payload, s.By)
}

func (r *recorder) SetWindow(_ context.Context, w haulier.Window) (haulier.Window, error) {
	return w, r.note("set window %q %q %s %q", w.Tenant, w.Name, w.Mode, w.Rules)
}

func (r *recorder) Windows(_ context.Context, tenant string) ([]haulier.Window, error) {
	return nil, r.note("windows %q", tenant)
}

func (r *recorder) DeleteWindow(_ context.Context, tenant, name string) error {
	return r.note("delete window %q %q", tenant, name)
}

func (r *recorder) Force(_ context.Context, sel haulier.Selection, by string) (haulier.Changed, error) {
	return r.change("force", sel, by)
}

func (r *recorder) Outcomes(_ context.Context, tenant string) ([]haulier.OutcomeCount, error) {
	return []haulier.OutcomeCount{{Tenant: "t", Queue: "q", Type: "a", Outcome: haulier.OutcomeFailed, N: 3}}, r.note("outcomes %q", tenant)
}

func (r *recorder) CreateBatch(_ context.Context, q haulier.BatchRequest) (haulier.BatchStatus, error) {
	return haulier.BatchStatus{}, r.note("create batch %q %q of %d by %q", q.Tenant, q.Name, len(q.Jobs), q.By)
}

func (r *recorder) CloseBatch(_ context.Context, tenant string, _ haulier.ID, by string) (haulier.BatchStatus, error) {
	return haulier.BatchStatus{}, r.note("close batch %q by %q", tenant, by)
}

func (r *recorder) GetBatch(_ context.Context, tenant string, _ haulier.ID) (haulier.BatchStatus, error) {
	return haulier.BatchStatus{}, r.note("batch %q", tenant)
}

func (r *recorder) ListBatches(_ context.Context, tenant string, limit int) ([]haulier.BatchStatus, error) {
	return nil, r.note("batches %q %d", tenant, limit)
}

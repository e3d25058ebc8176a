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

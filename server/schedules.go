package server

import (
	"net/http"

	"github.com/haulier/haulier"
)

func (s *Server) scheduleOperations() []operation {
	one := func(id, method, verb, summary string, need permission, do func(*call) error) operation {
		return operation{id: id, method: method, path: "/v1/schedules/{name}" + verb, tag: "schedules", summary: summary, need: need,
			query: []param{tenantParam}, reply: haulier.Schedule{}, bodyOptional: method == http.MethodPost, do: do}
	}
	set := one("setSchedule", http.MethodPut, "", "Make or change a schedule", operate, (*call).setSchedule)
	set.body = haulier.Schedule{}
	set.doc = "What the server says of a schedule (created_at, next, last, started, skipped) is not taken from the body. See docs/schedules.md."
	run := one("runSchedule", http.MethodPost, "/run", "Start at once what a schedule starts", operate, (*call).runSchedule)
	run.reply, run.status = enqueued{}, http.StatusCreated
	del := one("deleteSchedule", http.MethodDelete, "", "Remove a schedule; what it has started goes on", operate, (*call).deleteSchedule)
	del.reply = nil
	return []operation{
		{id: "listSchedules", method: http.MethodGet, path: "/v1/schedules", tag: "schedules", need: read, summary: "List schedules, with their next times",
			query: []param{tenantParam}, reply: scheduleList{}, do: (*call).listSchedules},
		one("getSchedule", http.MethodGet, "", "Show a schedule", read, (*call).getSchedule),
		set, run, del,
		one("pauseSchedule", http.MethodPost, "/pause", "Stop a schedule", operate, func(c *call) error { return c.pauseSchedule(true) }),
		one("resumeSchedule", http.MethodPost, "/resume", "Let a schedule go on with its next time", operate, func(c *call) error { return c.pauseSchedule(false) }),
	}
}

type scheduleList struct {
	Schedules []haulier.Schedule `json:"schedules"`
}

func (c *call) listSchedules() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Schedules(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, scheduleList{Schedules: orNone(list)})
}

func (c *call) getSchedule() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	s, err := c.Queue.Schedule(c.ctx(), tenant, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, s)
}

func (c *call) setSchedule() error {
	var s haulier.Schedule
	if err := c.readJSON(&s); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if s.Tenant, s.Name = tenant, c.r.PathValue("name"); s.Name == "" {
		return &haulier.FieldError{Field: "name", Msg: "is missing in the path"}
	}
	s.ScheduleStanding = haulier.ScheduleStanding{}
	if s, err = c.Queue.SetSchedule(c.ctx(), s); err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, s)
}

func (c *call) runSchedule() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	ids, err := c.Queue.RunSchedule(c.ctx(), tenant, c.r.PathValue("name"), c.who.name)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusCreated, enqueued{IDs: ids})
}

func (c *call) deleteSchedule() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteSchedule(c.ctx(), tenant, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.replyNone()
}

func (c *call) pauseSchedule(paused bool) error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	s, err := c.Queue.PauseSchedule(c.ctx(), tenant, c.r.PathValue("name"), paused)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, s)
}

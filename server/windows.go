package server

import (
	"net/http"

	"github.com/haulier/haulier"
)

func (s *Server) windowOperations() []operation {
	query := []param{tenantParam}
	return []operation{
		{id: "listWindows", method: http.MethodGet, path: "/v1/windows", tag: "schedules", need: read, summary: "List windows, and whether they are closed",
			query: query, reply: windowList{}, do: (*call).listWindows},
		{id: "setWindow", method: http.MethodPut, path: "/v1/windows/{name}", tag: "schedules", need: operate, summary: "Make or change a window",
			doc:   "What the server says of a window (closed, until, frozen) is not taken from the body. See docs/windows.md.",
			query: query, body: haulier.Window{}, reply: haulier.Window{}, do: (*call).setWindow},
		{id: "deleteWindow", method: http.MethodDelete, path: "/v1/windows/{name}", tag: "schedules", need: operate, summary: "Remove a window; what waits for it may start",
			query: query, do: (*call).deleteWindow},
	}
}

type windowList struct {
	Windows []haulier.Window `json:"windows"`
}

func (c *call) listWindows() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Windows(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, windowList{Windows: orNone(list)})
}

func (c *call) setWindow() error {
	var w haulier.Window
	if err := c.readJSON(&w); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	w.Tenant, w.Name, w.WindowStanding = tenant, c.r.PathValue("name"), haulier.WindowStanding{}
	if w, err = c.Queue.SetWindow(c.ctx(), w); err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, w)
}

func (c *call) deleteWindow() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteWindow(c.ctx(), tenant, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.replyNone()
}

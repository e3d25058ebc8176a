package server

import (
	"context"
	"net/http"

	"github.com/haulier/haulier"
)

var handlerVersion = numberParam("version", "a version that is kept; the newest unless said")

func (s *Server) handlerOperations() []operation {
	one := func(id, method, verb, summary string, need permission, reply any, do func(*call) error) operation {
		return operation{id: id, method: method, path: "/v1/handlers/{type}" + verb, tag: "handlers", summary: summary, need: need,
			query: []param{tenantParam}, reply: reply, bodyOptional: method == http.MethodPost, do: do}
	}
	get := one("getHandler", http.MethodGet, "", "Show a handler with its scripts", read, haulier.Handler{}, (*call).getHandler)
	get.query = append(get.query, handlerVersion)
	set := one("setHandler", http.MethodPut, "", "Keep a handler as the next version", operate, haulier.Handler{}, (*call).setHandler)
	set.body, set.doc = handlerBody{}, "The answer has the version. When the newest says the same already, nothing changes. See docs/handlers.md."
	back := one("rollbackHandler", http.MethodPost, "/rollback", "Make the next version of what an earlier one says", operate, haulier.Handler{}, (*call).rollbackHandler)
	back.query = append(back.query, numberParam("version", "the one before the newest unless said"))
	return []operation{
		{id: "listHandlers", method: http.MethodGet, path: "/v1/handlers", tag: "handlers", need: read, query: []param{tenantParam}, reply: handlerList{},
			summary: "List handlers by type", doc: "Types without a version have no handler, and jobs that wait for one.", do: (*call).listHandlers},
		get, set, back,
		one("listHandlerVersions", http.MethodGet, "/versions", "List the versions of a handler, the newest first", read, handlerList{}, (*call).listHandlerVersions),
		one("deleteHandler", http.MethodDelete, "", "Remove a handler; jobs of the type wait for another", operate, nil, (*call).deleteHandler),
	}
}

type handlerList struct {
	Handlers []haulier.Handler `json:"handlers"`
}

type handlerBody struct {
	Lang       string `json:"lang" doc:"the language, by the name that workers have for it, such as node, python or sh"`
	Engine     string `json:"eid,omitempty" doc:"id shared by handlers that may run in one process"`
	Body       string `json:"body" doc:"the script that runs a job"`
	Before     string `json:"before,omitempty" doc:"runs once in each process"`
	BeforeEach string `json:"before_each,omitempty" doc:"runs before each batch of jobs"`
	AfterEach  string `json:"after_each,omitempty" doc:"runs after each batch of jobs"`
}

func (c *call) listHandlers() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Handlers(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, handlerList{Handlers: orNone(list)})
}

func (c *call) getHandler() error { return c.ofHandler(c.Queue.Handler) }

func (c *call) setHandler() error {
	var b handlerBody
	if err := c.readJSON(&b); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	h, err := c.Queue.SetHandler(c.ctx(), haulier.Handler{Tenant: tenant, Type: c.r.PathValue("type"), Lang: b.Lang, Engine: b.Engine,
		Scripts: haulier.Scripts{Body: b.Body, Before: b.Before, BeforeEach: b.BeforeEach, AfterEach: b.AfterEach}}, c.who.name)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, h)
}

func (c *call) rollbackHandler() error {
	return c.ofHandler(func(ctx context.Context, tenant, typ string, version int) (haulier.Handler, error) {
		return c.Queue.RollbackHandler(ctx, tenant, typ, version, c.who.name)
	})
}

// ofHandler answers with what do makes of the handler in the path and the version in the query.
func (c *call) ofHandler(do func(ctx context.Context, tenant, typ string, version int) (haulier.Handler, error)) error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	version, err := c.number("version", 1, 1<<30, 0)
	if err != nil {
		return err
	}
	h, err := do(c.ctx(), tenant, c.r.PathValue("type"), int(version))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, h)
}

func (c *call) listHandlerVersions() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.HandlerVersions(c.ctx(), tenant, c.r.PathValue("type"))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, handlerList{Handlers: list})
}

func (c *call) deleteHandler() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteHandler(c.ctx(), tenant, c.r.PathValue("type")); err != nil {
		return err
	}
	return c.replyNone()
}

package server

import (
	"net/http"

	"github.com/haulier/haulier"
)

func (s *Server) hookOperations() []operation {
	one := func(id, method, path, tag, summary string, need permission, reply any, do func(*call) error) operation {
		return operation{id: id, method: method, path: path, tag: tag, summary: summary, need: need, query: []param{tenantParam}, reply: reply, do: do}
	}
	set := one("setHook", http.MethodPut, "/v1/hooks/{name}", "hooks", "Make or replace a hook", operate, haulier.Hook{}, (*call).setHook)
	set.body, set.doc = haulier.Hook{}, "What it is sent, and what it may answer, stands in docs/hooks.md."
	test := one("testHook", http.MethodPost, "/v1/hooks/{name}/test", "hooks", "Ask a hook about a made-up job", operate, haulier.HookTrial{}, (*call).testHook)
	test.query = append(test.query, textParam("event", "when it is called; the first of its events unless said"))
	secret := one("setSecret", http.MethodPut, "/v1/secrets/{name}", "hooks", "Keep a secret", operate, haulier.Secret{}, (*call).setSecret)
	secret.body, secret.bodyOptional = secretBody{}, true
	secret.doc = "Without a value the server makes one, and this answer is the only one that ever shows it."
	return []operation{
		one("listHooks", http.MethodGet, "/v1/hooks", "hooks", "List hooks, in the order in which they are asked", read, hookList{}, (*call).listHooks),
		one("getHook", http.MethodGet, "/v1/hooks/{name}", "hooks", "Show a hook", read, haulier.Hook{}, (*call).getHook),
		set, test,
		one("deleteHook", http.MethodDelete, "/v1/hooks/{name}", "hooks", "Remove a hook", operate, nil, (*call).deleteHook),
		one("listSecrets", http.MethodGet, "/v1/secrets", "hooks", "List the names of secrets", read, secretList{}, (*call).listSecrets),
		secret,
		one("deleteSecret", http.MethodDelete, "/v1/secrets/{name}", "hooks", "Remove a secret", operate, nil, (*call).deleteSecret),
	}
}

type hookList struct {
	Hooks []haulier.Hook `json:"hooks"`
}

type secretList struct {
	Secrets []haulier.Secret `json:"secrets"`
}

type secretBody struct {
	Value string `json:"value,omitempty" doc:"whsec_ and base64, or any text of 16 to 256 bytes; made by the server unless given"`
}

func (c *call) listHooks() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Hooks(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, hookList{Hooks: orNone(list)})
}

func (c *call) getHook() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	h, err := c.Queue.Hook(c.ctx(), tenant, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, h)
}

func (c *call) setHook() error {
	var h haulier.Hook
	if err := c.readJSON(&h); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	h.Tenant, h.Name = tenant, c.r.PathValue("name")
	if h, err = c.Queue.SetHook(c.ctx(), h); err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, h)
}

func (c *call) testHook() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	event, err := c.text("event")
	if err != nil {
		return err
	}
	out, err := c.Queue.TestHook(c.ctx(), tenant, c.r.PathValue("name"), haulier.HookEvent(event))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, out)
}

func (c *call) deleteHook() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteHook(c.ctx(), tenant, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.replyNone()
}

func (c *call) listSecrets() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Secrets(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, secretList{Secrets: orNone(list)})
}

func (c *call) setSecret() error {
	var b secretBody
	if err := c.readJSON(&b); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	s, err := c.Queue.SetSecret(c.ctx(), tenant, c.r.PathValue("name"), b.Value)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, s)
}

func (c *call) deleteSecret() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteSecret(c.ctx(), tenant, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.replyNone()
}

// askHooksBody is how a worker has the hooks around an attempt called.
type askHooksBody struct {
	Job     haulier.ID        `json:"job"`
	Attempt int               `json:"attempt"`
	Event   haulier.HookEvent `json:"event" doc:"before_perform or after_perform"`
	Outcome haulier.Outcome   `json:"outcome,omitempty" doc:"of after_perform: how it ended, as the report will say"`
	Code    int               `json:"code,omitempty"`
	Error   string            `json:"error,omitempty"`
	Result  []byte            `json:"result_bytes,omitempty" doc:"as base64"`
}

func (c *call) askHooks() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	var b askHooksBody
	if err := c.readJSON(&b); err != nil {
		return err
	}
	ref := haulier.Ref{Job: b.Job, Attempt: b.Attempt}
	end := haulier.Report{Ref: ref, Kind: haulier.ReportFinish, Outcome: b.Outcome, Code: b.Code, Error: b.Error, Result: b.Result}
	a, err := c.Queue.AskHooks(c.ctx(), id, haulier.HookCall{Ref: ref, Event: b.Event, End: end})
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, a)
}

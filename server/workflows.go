package server

import (
	"encoding/json"
	"net/http"

	"github.com/haulier/haulier"
)

func (s *Server) workflowOperations() []operation {
	at := func(id, method, path, summary string, need permission, reply any, do func(*call) error) operation {
		return operation{id: id, method: method, path: path, tag: "workflows", summary: summary, need: need, query: []param{tenantParam}, reply: reply,
			bodyOptional: method == http.MethodPost, do: do}
	}
	apply := at("applyWorkflow", http.MethodPut, "/v1/workflows/{name}", "Keep a version of a workflow", operate, haulier.Workflow{}, (*call).applyWorkflow)
	apply.body = workflowBody{}
	apply.doc = "The same text makes no new version. What is wrong with the text is told with its lines. See docs/workflows.md."
	get := at("getWorkflow", http.MethodGet, "/v1/workflows/{name}", "Show a workflow with its text", read, haulier.Workflow{}, (*call).getWorkflow)
	get.query = append(get.query, textParam("version", "the newest unless said"))
	start := at("startRun", http.MethodPost, "/v1/workflows/{name}/runs", "Start a run", enqueue, haulier.Run{}, (*call).startRun)
	start.body, start.status = runBody{}, http.StatusCreated
	runs := at("listRuns", http.MethodGet, "/v1/workflows/{name}/runs", "List the newest runs of a workflow", read, runList{}, (*call).listRuns)
	runs.query = append(runs.query, textParam("limit", "at most this many; 50 unless said, at most 1000"))
	cancel := at("cancelRun", http.MethodPost, "/v1/runs/{run}/cancel", "Cancel what has not ended of a run", enqueue, runChanged{}, (*call).cancelRun)
	format := textParam("format", "text or svg; text unless said")
	graph := at("workflowGraph", http.MethodGet, "/v1/workflows/{name}/graph", "Draw a workflow", read, nil, (*call).graph)
	graph.query = append(graph.query, format)
	runGraph := at("runGraph", http.MethodGet, "/v1/runs/{run}/graph", "Draw a run with the states of its jobs", read, nil, (*call).graph)
	runGraph.query = append(runGraph.query, format)
	event := at("postEvent", http.MethodPost, "/v1/events", "Post an event", enqueue, nil, (*call).postEvent)
	event.body, event.bodyOptional = eventBody{}, false
	event.doc = "Starts the workflows that wait for it, each once. With the answer this is certain, though it may not have happened yet."
	return []operation{
		at("listWorkflows", http.MethodGet, "/v1/workflows", "List workflows", read, workflowList{}, (*call).listWorkflows),
		get, apply, at("deleteWorkflow", http.MethodDelete, "/v1/workflows/{name}", "Remove a workflow; its runs go on", operate, nil, (*call).deleteWorkflow),
		start, runs, at("getRun", http.MethodGet, "/v1/runs/{run}", "Show a run with its jobs", read, haulier.Run{}, (*call).getRun),
		cancel, at("retryRun", http.MethodPost, "/v1/runs/{run}/retry", "Run again what has failed in a run", enqueue, runChanged{}, (*call).retryRun),
		graph, runGraph, event,
	}
}

type workflowList struct {
	Workflows []haulier.Workflow `json:"workflows"`
}

type runList struct {
	Runs []haulier.Run `json:"runs"`
}

type workflowBody struct {
	Source string `json:"source" doc:"YAML"`
}

type runBody struct {
	haulier.RunRequest
	Payload json.RawMessage `json:"payload,omitempty" doc:"any JSON, for the jobs that come first"`
}

type eventBody struct {
	Name    string          `json:"name" doc:"without a colon"`
	Payload json.RawMessage `json:"payload,omitempty" doc:"any JSON, for the jobs that come first"`
}

type runChanged struct {
	Changed int `json:"changed" doc:"number of jobs"`
}

func (c *call) listWorkflows() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	list, err := c.Queue.Workflows(c.ctx(), tenant)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, workflowList{Workflows: orNone(list)})
}

func (c *call) getWorkflow() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	version, err := c.number("version", 1, 1<<30, 0)
	if err != nil {
		return err
	}
	w, err := c.Queue.Workflow(c.ctx(), tenant, c.r.PathValue("name"), int(version))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, w)
}

func (c *call) applyWorkflow() error {
	var body workflowBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	w, err := c.Queue.ApplyWorkflow(c.ctx(), tenant, c.r.PathValue("name"), body.Source, c.who.name)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, w)
}

func (c *call) deleteWorkflow() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteWorkflow(c.ctx(), tenant, c.r.PathValue("name")); err != nil {
		return err
	}
	return c.replyNone()
}

func (c *call) startRun() error {
	var body runBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	r := body.RunRequest
	r.Tenant, r.Workflow, r.Payload, r.By = tenant, c.r.PathValue("name"), body.Payload, c.who.name
	run, err := c.Queue.StartRun(c.ctx(), r)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusCreated, run)
}

func (c *call) listRuns() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	limit, err := c.number("limit", 1, 1000, 50)
	if err != nil {
		return err
	}
	list, err := c.Queue.Runs(c.ctx(), tenant, c.r.PathValue("name"), int(limit))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, runList{Runs: orNone(list)})
}

func (c *call) getRun() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	r, err := c.Queue.GetRun(c.ctx(), tenant, c.r.PathValue("run"))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, r)
}

func (c *call) cancelRun() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	n, err := c.Queue.CancelRun(c.ctx(), tenant, c.r.PathValue("run"), c.who.name, "its run was cancelled")
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, runChanged{n.N})
}

func (c *call) retryRun() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	n, err := c.Queue.RetryRun(c.ctx(), tenant, c.r.PathValue("run"), c.who.name)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, runChanged{n.N})
}

func (c *call) graph() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	format, err := c.text("format")
	if err != nil {
		return err
	}
	if format != "" && format != "text" && format != "svg" {
		return &haulier.FieldError{Field: "format", Msg: "must be text or svg"}
	}
	drawn, err := c.Queue.WorkflowGraph(c.ctx(), tenant, c.r.PathValue("name"), c.r.PathValue("run"), format == "svg")
	if err != nil {
		return err
	}
	kind := "text/plain; charset=utf-8"
	if format == "svg" {
		kind = "image/svg+xml"
	}
	c.send(http.StatusOK, kind, []byte(drawn))
	return nil
}

func (c *call) postEvent() error {
	var body eventBody
	if err := c.readJSON(&body); err != nil {
		return err
	}
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.PostEvent(c.ctx(), haulier.Signal{Tenant: tenant, Name: body.Name, Payload: body.Payload, By: c.who.name}); err != nil {
		return err
	}
	return c.replyNone()
}

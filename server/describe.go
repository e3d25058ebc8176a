package server

import (
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

const apiText = `The HTTP API of a Haulier server. Bodies are JSON, times RFC 3339, durations texts such as "1m30s".
Errors are problem documents (RFC 9457); their code is one of a fixed list. Where there are tokens, each request carries one
in the header Authorization: Bearer TOKEN, and sees the tenant of that token.`

// describe begins the OpenAPI description; register adds the operations.
func describe(version string) huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	schemas.RegisterTypeAlias(reflect.TypeFor[haulier.Job](), reflect.TypeFor[jobDocument]())
	schemas.RegisterTypeAlias(reflect.TypeFor[haulier.State](), reflect.TypeFor[stateName]())
	schemas.RegisterTypeAlias(reflect.TypeFor[haulier.Duration](), reflect.TypeFor[durationText]())
	schemas.RegisterTypeAlias(reflect.TypeFor[haulier.ID](), reflect.TypeFor[idText]())
	if version == "" {
		version = "dev"
	}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Haulier", Version: version, Description: apiText},
			Tags: []*huma.Tag{
				{Name: "jobs", Description: "Enqueue jobs, look at them, change them."},
				{Name: "logs", Description: "What jobs wrote."},
				{Name: "queues", Description: "Queues, counts, pausing."},
				{Name: "schedules", Description: "Jobs by the clock."},
				{Name: "workflows", Description: "Jobs in order."},
				{Name: "handlers", Description: "Scripts kept by the server, which run the jobs of a type."},
				{Name: "hooks", Description: "What is called before and after jobs are enqueued and run."},
				{Name: "batches", Description: "Jobs that belong together, and what follows them."},
				{Name: "workers", Description: "Sessions of workers: claim jobs and report on them."},
				{Name: "events", Description: "Changes of jobs as they happen."},
				{Name: "tokens", Description: "Who may ask."},
				{Name: "health", Description: "Whether the server is up."},
			},
			Components: &huma.Components{
				Schemas:         schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "a secret that `haulier token create` prints"}},
			},
		},
		Formats:       huma.DefaultFormats,
		DefaultFormat: jsonType,
	}
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

// document is the operation as the description has it.
func (s *Server) document(op *operation) *huma.Operation {
	d := &huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Tags: []string{op.tag}, Summary: op.summary, Description: op.doc,
		Responses: map[string]*huma.Response{"default": {
			Description: "Error", Content: map[string]*huma.MediaType{problemType: {Schema: s.schema(Problem{}, "Problem")}},
		}},
	}
	if op.need != public {
		d.Security = []map[string][]string{{"token": {}}}
	}
	for _, m := range pathParam.FindAllStringSubmatch(op.path, -1) {
		p := &huma.Param{Name: m[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}
		if m[1] == "id" {
			p.Schema.Format = "uuid"
		}
		d.Parameters = append(d.Parameters, p)
	}
	for _, p := range op.query {
		d.Parameters = append(d.Parameters, &huma.Param{Name: p.name, In: "query", Description: p.doc, Schema: p.schema})
	}
	for _, p := range op.headers {
		d.Parameters = append(d.Parameters, &huma.Param{Name: p.name, In: "header", Description: p.doc, Schema: p.schema})
	}
	if op.body != nil {
		d.RequestBody = &huma.RequestBody{Required: !op.bodyOptional, Content: s.content(op, op.body, op.id+"Request")}
	}
	if op.octets {
		d.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{octetType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	}
	d.Responses[strconv.Itoa(op.success())] = s.success(op)
	return d
}

func (o *operation) success() int {
	switch {
	case o.status != 0:
		return o.status
	case o.reply == nil && len(o.replyTypes) == 0:
		return http.StatusNoContent
	}
	return http.StatusOK
}

func (s *Server) success(op *operation) *huma.Response {
	r := &huma.Response{Description: http.StatusText(op.success())}
	if op.reply != nil {
		r.Content = s.content(op, op.reply, op.id+"Reply")
	}
	for _, t := range op.replyTypes {
		if r.Content == nil {
			r.Content = map[string]*huma.MediaType{}
		}
		r.Content[t] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	}
	return r
}

func (s *Server) content(op *operation, v any, hint string) map[string]*huma.MediaType {
	m := map[string]*huma.MediaType{jsonType: {Schema: s.schema(v, hint)}}
	if op.binary {
		m[wire.ContentType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	}
	return m
}

func (s *Server) schema(v any, hint string) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, hint)
}

// jobDocument is how a haulier.Job looks as JSON, for the description.
type jobDocument struct {
	haulier.Spec
	haulier.Status
	RunAt        time.Time `json:"run_at,omitzero" doc:"when a scheduled job becomes pending; of a pending job, since when it is"`
	Payload      any       `json:"payload,omitempty" doc:"when it is JSON"`
	PayloadBytes []byte    `json:"payload_bytes,omitempty" doc:"when it is not JSON, as base64"`
	Result       any       `json:"result,omitempty" doc:"when it is JSON"`
	ResultBytes  []byte    `json:"result_bytes,omitempty" doc:"when it is not JSON, as base64"`
	Results      any       `json:"results,omitempty" doc:"of a claim: the results of the jobs that it needs"`

	Hooks []haulier.HookEvent `json:"hooks,omitempty" doc:"of a claim: at which events of the attempt the worker has hooks called"`
}

// How some types of the root look in the description.
type (
	stateName    struct{}
	durationText struct{}
	idText       struct{}
)

// Schema implements huma.SchemaProvider.
func (stateName) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range haulier.States {
		s.Enum = append(s.Enum, v.String())
	}
	return s
}

// Schema implements huma.SchemaProvider.
func (durationText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "a duration such as 1m30s", Examples: []any{"1m30s"}}
}

// Schema implements huma.SchemaProvider.
func (idText) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "uuid"}
}

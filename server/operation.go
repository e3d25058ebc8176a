package server

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// plainDeadline bounds operations that do not wait for something to happen.
const plainDeadline = 60 * time.Second

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
	eventsType  = "text/event-stream"
	textType    = "text/plain; charset=utf-8"
)

// operation is one call of the API: what it is called and who may make it, what
// goes in and out (which becomes its description), and what it does.
type operation struct {
	id, method, path string
	tag              string
	summary, doc     string
	need             permission
	query            []param // others are refused
	headers          []param
	body             any  // a value of the JSON body's type; nil: takes no body
	bodyOptional     bool // may be left out
	octets           bool // takes a body of bytes
	binary           bool // body and reply exist as wire.ContentType too
	status           int  // when it went well; 0: 200, or 204 without a reply
	reply            any  // a value of the JSON reply's type; nil: none
	replyTypes       []string
	long             bool // may take as long as the client waits
	do               func(*call) error
}

// param is a parameter of a query or a header.
type param struct {
	name, doc string
	schema    *huma.Schema
}

// call is one request in the hands of an operation.
type call struct {
	*Server
	w     http.ResponseWriter
	r     *http.Request
	op    *operation
	who   caller
	query url.Values
}

// register adds the operation to the routes and to the description.
func (s *Server) register(op *operation) {
	doc := s.document(op)
	s.api.OpenAPI().AddOperation(doc)
	s.api.Adapter().Handle(doc, func(ctx huma.Context) {
		r, w := humago.Unwrap(ctx)
		c := &call{Server: s, w: w, r: r, op: op}
		if err := c.run(); err != nil {
			s.fail(w, r, err)
		}
	})
}

// run is the way of every request: who asks, may they, is it well formed, do it.
func (c *call) run() error {
	if err := c.authorize(); err != nil {
		return err
	}
	if err := c.parseQuery(); err != nil {
		return err
	}
	if err := c.checkMedia(); err != nil {
		return err
	}
	if !c.op.long {
		ctx, cancel := context.WithTimeout(c.r.Context(), plainDeadline)
		defer cancel()
		c.r = c.r.WithContext(ctx)
	}
	return c.op.do(c)
}

func (c *call) ctx() context.Context { return c.r.Context() }

// parseQuery refuses parameters that the operation does not know: a misspelt
// filter must not select everything.
func (c *call) parseQuery() error {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return &haulier.FieldError{Field: "query", Msg: "can't be read: " + err.Error()}
	}
	for name := range q {
		if !c.op.takes(name) {
			return &haulier.FieldError{Field: "query." + clip(name), Msg: "is not known here: see /docs for what " + c.op.id + " takes"}
		}
	}
	c.query = q
	return nil
}

func (o *operation) takes(name string) bool {
	for i := range o.query {
		if o.query[i].name == name {
			return true
		}
	}
	return false
}

// checkMedia refuses bodies of other types. Among these are all that a web page
// can send to another site without asking it first.
func (c *call) checkMedia() error {
	if c.op.body == nil && !c.op.octets || c.r.ContentLength == 0 {
		return nil
	}
	if enc := c.r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type",
			detail: "bodies in the encoding " + clip(enc) + " are not taken: send it as it is"}
	}
	t := c.r.Header.Get("Content-Type")
	if t == jsonType && !c.op.octets || c.op.binary && t == wire.ContentType || c.op.octets && t == octetType {
		return nil
	}
	if plain, _, err := mime.ParseMediaType(t); err == nil && plain == jsonType && !c.op.octets {
		return nil
	}
	want := jsonType
	switch {
	case c.op.octets:
		want = octetType
	case c.op.binary:
		want += " or " + wire.ContentType
	}
	return &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type",
		detail: "bodies of the type " + strconv.Quote(clip(t)) + " are not taken: set the header Content-Type to " + want}
}

// sentBinary: the body is in the form of package wire.
func (c *call) sentBinary() bool {
	return c.op.binary && c.r.Header.Get("Content-Type") == wire.ContentType
}

// wantsBinary: the reply is to be in the form of package wire.
func (c *call) wantsBinary() bool { return c.r.Header.Get("Accept") == wire.ContentType }

// pathID reads the id in the path.
func (c *call) pathID() (haulier.ID, error) {
	id, err := haulier.ParseID(c.r.PathValue("id"))
	if err != nil {
		return id, &haulier.FieldError{Field: "path.id", Msg: strconv.Quote(clip(c.r.PathValue("id"))) + " is not an id such as 0199c3f0-7d3a-7000-8000-1b2c3d4e5f60"}
	}
	return id, nil
}

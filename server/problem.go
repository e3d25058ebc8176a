package server

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/wire"
)

// Problem is an error as the API tells it: a problem document of RFC 9457.
type Problem struct {
	Type     string         `json:"type" doc:"urn:haulier:error: and the code"`
	Title    string         `json:"title" doc:"the code in words"`
	Status   int            `json:"status" doc:"the HTTP status"`
	Detail   string         `json:"detail" doc:"what went wrong and what to do about it"`
	Code     string         `json:"code" doc:"the kind of error, for programs"`
	Instance string         `json:"instance,omitempty" doc:"names this one failure in the server's log"`
	Errors   []FieldProblem `json:"errors,omitempty" doc:"the fields that are wrong"`
}

// FieldProblem is one wrong field of a request.
type FieldProblem struct {
	Field   string `json:"field" doc:"its path, as in jobs[3].priority"`
	Message string `json:"message" doc:"what is wrong with it and what is allowed"`
}

// statuses is the one table from the codes of errors to HTTP.
var statuses = map[string]struct {
	status int
	title  string
}{
	"invalid":         {http.StatusBadRequest, "The request is wrong"},
	"unauthenticated": {http.StatusUnauthorized, "Not known who asks"},
	"forbidden":       {http.StatusForbidden, "Not allowed"},
	"refused":         {http.StatusUnprocessableEntity, "A hook said no"},
	"not_found":       {http.StatusNotFound, "Not there"},
	"conflict":        {http.StatusConflict, "In conflict with what is there"},
	"lease_lost":      {http.StatusGone, "The session or the job is no longer the worker's"},
	"too_large":       {http.StatusRequestEntityTooLarge, "Too large"},
	"unavailable":     {http.StatusServiceUnavailable, "Not possible right now"},
	"corrupt":         {http.StatusInternalServerError, "Stored data is damaged"},
	"internal":        {http.StatusInternalServerError, "The server failed"},
}

// refusal is an error of HTTP itself, which has no sentinel at the root.
type refusal struct {
	status int
	code   string
	detail string
	header http.Header
}

func (r *refusal) Error() string { return r.detail }

func methodRefused(method string, allow []string) error {
	list := strings.Join(allow, ", ")
	return &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", header: http.Header{"Allow": {list}},
		detail: "the method " + clip(method) + " does nothing here: use " + list}
}

// fail answers err. Who has gone away gets no answer.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil && !stopping(r.Context()) {
		return
	}
	p, header := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		id := haulier.NewID(time.Now())
		p.Instance = "urn:uuid:" + id.String()
		s.Log.Error("request failed", "err", err, "method", r.Method, "path", r.URL.Path, "instance", p.Instance)
	}
	for k, v := range header {
		w.Header()[k] = v
	}
	b, err := json.Marshal(p)
	if err != nil {
		s.Log.Error("problem document", "err", err)
	}
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	soon(w)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(b, '\n')) // who does not wait for the answer misses it
}

// problemOf tells err to the outside. What is the server's own failure is not told in detail.
func problemOf(err error) (Problem, http.Header) {
	var ref *refusal
	if errors.As(err, &ref) {
		return newProblem(ref.status, ref.code, http.StatusText(ref.status), ref.detail), ref.header
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = &haulier.RetryAfterError{After: time.Second, Cause: errors.New("the server is busy or stopping")}
	}
	code := wire.ErrorCode(err)
	row := statuses[code]
	p := newProblem(row.status, code, row.title, err.Error())
	header := http.Header{}
	switch code {
	case "unauthenticated":
		header.Set("WWW-Authenticate", `Bearer realm="haulier"`)
	case "unavailable":
		header.Set("Retry-After", strconv.Itoa(retryAfter(err)))
	case "corrupt", "internal":
		p.Detail = "the server could not do this; its log says why under the id in instance: ask who runs it"
	}
	var field *haulier.FieldError
	if errors.As(err, &field) {
		p.Errors = []FieldProblem{{Field: field.Field, Message: field.Msg}}
	}
	var many fieldErrors
	if errors.As(err, &many) {
		p.Errors = many
	}
	return p, header
}

func newProblem(status int, code, title, detail string) Problem {
	return Problem{Type: "urn:haulier:error:" + code, Title: title, Status: status, Detail: detail, Code: code}
}

// retryAfter is in whole seconds, at least one.
func retryAfter(err error) int {
	var later *haulier.RetryAfterError
	if errors.As(err, &later) {
		return max(int(math.Ceil(later.After.Seconds())), 1)
	}
	return 1
}

// clip shortens what came from outside to what a message can bear.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

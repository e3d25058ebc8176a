// Package server is the HTTP API of Haulier: haulier.Queue under /v1, as JSON
// for everybody and in the binary form of package wire for the Go client, with
// problem documents (RFC 9457) for errors and an OpenAPI 3.1 description that is
// made from the same table of operations that serves them.
//
// A request passes guard (limits, foreign origins), the operation's own door
// (token, role, query, media type), its handler, and one function that turns
// whatever error came out into a problem document.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/haulier/haulier"
)

// Config of a Server.
type Config struct {
	// Queue is what the API offers. Needed.
	Queue haulier.Queue
	// Journal gets the enqueues that ask to be acknowledged from a journal, and passes on those that it can't keep. Nil: there is none.
	Journal haulier.Producer
	// Auth tells tokens. Nil: everybody may do everything in every tenant, but
	// only requests that no foreign web page can have sent are answered; see Hosts.
	Auth haulier.Authenticator
	// Hosts are names under which the server is reached while Auth is nil, besides
	// loopback names and the address that the client connected to. "*" allows all.
	Hosts []string
	// Log gets failed requests and panics. Nil: discarded.
	Log *slog.Logger
	// Version of the program, for the description of the API.
	Version string
	// Ready answers /readyz: nil when the server can work. Nil: always.
	Ready func(ctx context.Context) error
}

// Server answers the HTTP API. It is safe for concurrent use.
type Server struct {
	Config
	mux      *http.ServeMux
	api      huma.API
	sessions *sessionBook
	large    chan struct{} // permits for bodies over maxBatchBody
}

// New returns a server that is ready to serve.
func New(c Config) (*Server, error) {
	if c.Queue == nil {
		return nil, errors.New("server: no queue given: set Config.Queue")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{Config: c, mux: http.NewServeMux(), sessions: newSessionBook(), large: make(chan struct{}, maxLargeBodies)}
	s.api = humago.New(s.mux, describe(c.Version))
	for _, list := range [][]operation{
		s.enqueueOperations(), s.jobOperations(), s.logOperations(), s.queueOperations(), s.scheduleOperations(), s.windowOperations(), s.batchOperations(), s.blobOperations(),
		s.metricsOperations(), s.workflowOperations(), s.hookOperations(), s.handlerOperations(),
		s.sessionOperations(), s.eventOperations(), s.tokenOperations(), s.healthOperations(),
	} {
		for i := range list {
			s.register(&list[i])
		}
	}
	if err := s.registerPages(); err != nil {
		return nil, err
	}
	s.mux.HandleFunc("/", s.unknown)
	return s, nil
}

// Handler answers all requests of the API.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.guard) }

// methods that an operation can have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}

// unknown answers what no operation matches: 405 when another method would.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, m := range methods {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := s.mux.Handler(other); pattern != "/" {
			allow = append(allow, m)
		}
	}
	if len(allow) == 0 {
		s.fail(w, r, &refusal{status: http.StatusNotFound, code: "not_found",
			detail: "there is nothing at " + clip(r.URL.Path) + ": see /docs for what the API offers"})
		return
	}
	s.fail(w, r, methodRefused(r.Method, allow))
}

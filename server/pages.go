package server

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
)

// The page at /docs. It draws /openapi.json with a script of its own and asks no other host for anything.
//
//go:embed pages/docs.html pages/docs.css pages/docs.js
var pages embed.FS

// docsPolicy keeps the page to this server.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (s *Server) registerPages() error {
	spec, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		return fmt.Errorf("openapi description: %w", err)
	}
	s.page("/openapi.json", "application/openapi+json", spec)
	for path, p := range map[string]struct{ file, contentType string }{
		"/docs":          {"pages/docs.html", "text/html; charset=utf-8"},
		"/docs/docs.css": {"pages/docs.css", "text/css; charset=utf-8"},
		"/docs/docs.js":  {"pages/docs.js", "text/javascript; charset=utf-8"},
	} {
		b, err := pages.ReadFile(p.file)
		if err != nil {
			return err
		}
		s.page(path, p.contentType, b)
	}
	return nil
}

func (s *Server) page(path, contentType string, b []byte) {
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Security-Policy", docsPolicy)
		_, _ = w.Write(b) // who does not wait for the page misses it
	})
}

package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/haulier/haulier"
)

// Limits of a request's head, which the API refuses in its own words. The HTTP
// server below has a limit of its own a little above.
const (
	maxURL    = 8 << 10  // bytes
	maxHeader = 32 << 10 // bytes of names and values together
)

// guard is the way into the API: it keeps out what is too large or comes from a
// foreign web page, and makes panics an answer.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler { //nolint:errorlint // net/http knows this very value
				panic(v)
			}
			s.Log.Error("panic", "err", v, "stack", string(debug.Stack()))
			s.fail(w, r, fmt.Errorf("panic: %v", v))
		}
	}()
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if err := s.checkHead(r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) checkHead(r *http.Request) error {
	if len(r.RequestURI) > maxURL {
		return &refusal{status: http.StatusRequestURITooLong, code: "uri_too_long",
			detail: fmt.Sprintf("the URL has %d bytes: at most %d are taken; long lists of ids go into the body of POST /v1/jobs/get, wait, cancel, retry or delete", len(r.RequestURI), maxURL)}
	}
	size := 0
	for k, list := range r.Header {
		for _, v := range list {
			size += len(k) + len(v)
		}
	}
	if size > maxHeader {
		return &refusal{status: http.StatusRequestHeaderFieldsTooLarge, code: "header_too_large",
			detail: fmt.Sprintf("the header has %d bytes: at most %d are taken; send less of it", size, maxHeader)}
	}
	if s.Auth == nil {
		return s.checkOrigin(r)
	}
	return nil
}

// checkOrigin protects a server without tokens from web pages that a browser on
// the same machine or network shows. A page that calls it from another site says
// so in Origin; one whose own name was made to point here (DNS rebinding) says
// that name in Host. Names of the machine itself and its addresses are no such names.
func (s *Server) checkOrigin(r *http.Request) error {
	if !s.knownHost(r) {
		return fmt.Errorf("%w: without tokens, requests to the host %q are not answered; use an address, allow the name where the server is started, or create tokens",
			haulier.ErrForbidden, clip(r.Host))
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
		return fmt.Errorf("%w: without tokens, requests of pages of another site (%q) are not answered; create tokens to use the API from there",
			haulier.ErrForbidden, clip(origin))
	}
	return nil
}

func (s *Server) knownHost(r *http.Request) bool {
	if slices.Contains(s.Hosts, "*") {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(s.Hosts, host) {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return addr.Unmap().IsLoopback() || local != nil && sameAddr(local, addr)
}

func sameAddr(local net.Addr, asked netip.Addr) bool {
	ap, err := netip.ParseAddrPort(local.String())
	return err == nil && ap.Addr().Unmap().WithZone("") == asked.Unmap().WithZone("")
}

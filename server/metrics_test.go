package server_test

import (
	"strings"
	"testing"

	"github.com/haulier/haulier/server"
)

func TestMetrics(t *testing.T) {
	h := newServer(t, server.Config{Queue: &recorder{}}).Handler()
	status, header, body := ask(t, h, request{method: "GET", path: "/metrics", token: "viewer@*"})
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") ||
		!strings.Contains(body, `haulier_attempts_total{outcome="failed",queue="q",tenant="t",type="a"} 3`) || !strings.Contains(body, "haulier_workers 0") {
		t.Errorf("%d %v\n%s", status, header, body)
	}
}

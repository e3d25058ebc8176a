package server

import (
	"fmt"
	"net/http"

	"github.com/haulier/haulier"
)

func (s *Server) healthOperations() []operation {
	return []operation{
		{id: "healthy", method: http.MethodGet, path: "/healthz", tag: "health", summary: "The process answers", reply: health{},
			do: func(c *call) error { return c.replyJSON(http.StatusOK, health{Status: "ok", Version: c.Version}) }},
		{id: "ready", method: http.MethodGet, path: "/readyz", tag: "health", summary: "The server can work", reply: health{}, do: (*call).ready},
	}
}

type health struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

func (c *call) ready() error {
	if stopping(c.ctx()) {
		return fmt.Errorf("%w: the server is stopping", haulier.ErrUnavailable)
	}
	if c.Ready != nil {
		if err := c.Ready(c.ctx()); err != nil {
			c.Log.Warn("not ready", "err", err)
			return fmt.Errorf("%w: the server is not ready; its log says why", haulier.ErrUnavailable)
		}
	}
	return c.replyJSON(http.StatusOK, health{Status: "ready", Version: c.Version})
}

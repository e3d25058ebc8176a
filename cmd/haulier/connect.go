package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// patience says how a command bears a server that can't be reached.
type patience int

const (
	impatient patience = iota // fail at once
	patient                   // fail when it is not there at first, then bear its restarts
	endless                   // wait for it
)

// connect returns a client of the server in the settings.
func (p *program) connect(ctx context.Context, how patience) (*client.Client, error) {
	s := &p.settings
	token := s.Token
	if token == "" {
		token = client.LocalToken(s.URL, s.env)
	}
	cfg := client.Config{URL: s.URL, Token: token, Retry: -1, InFlight: 8}
	if how != impatient {
		cfg.Retry = 0
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, usagef("--url: %v", err)
	}
	if how == patient {
		if err := knock(ctx, s.URL); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// knock fails when no server answers at the URL.
func knock(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+"/healthz", nil)
	if err != nil {
		return err
	}
	once := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	resp, err := once.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("%w: %w; is the server up, and the URL right?", haulier.ErrUnavailable, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // it answers, that is all
	return resp.Body.Close()
}

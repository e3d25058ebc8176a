package client

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/haulier/haulier"
)

// DefaultURL is where a server listens that was not told otherwise.
const DefaultURL = "http://127.0.0.1:7480"

// FromEnv is a configuration by the environment: HAULIER_URL, or DefaultURL, and
// HAULIER_TOKEN, or the token that a server of this user on this machine left; see LeaveToken.
func FromEnv() Config {
	c := Config{URL: os.Getenv("HAULIER_URL"), Token: os.Getenv("HAULIER_TOKEN")}
	if c.URL == "" {
		c.URL = DefaultURL
	}
	if c.Token == "" {
		c.Token = LocalToken(c.URL, os.Getenv)
	}
	return c
}

// access is the content of the file in which a server leaves a token.
type access struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"` // of the server
}

// LeaveToken lets the programs of this user on this machine in: it puts a token for a
// server of this process into a file that only the user can read, named after the server's port,
//
//	$XDG_STATE_HOME/haulier/access/7480.json
//
// The returned function takes the file back, unless it is another server's by then.
func LeaveToken(serverURL, token string, getenv func(string) string) (remove func(), err error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, err
	}
	path, err := accessFile(u, getenv)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	b, err := json.Marshal(access{URL: serverURL, Token: token, PID: os.Getpid()})
	if err != nil {
		return nil, err
	}
	content := string(b) + "\n"
	if err := replaceFile(path, content); err != nil {
		return nil, fmt.Errorf("leave a token for the other commands: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && string(now) == content {
			os.Remove(path)
		}
	}, nil
}

func replaceFile(path, content string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.WriteString(content)
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// LocalToken is the token that a server of this user on this machine left for
// its programs; "" when the URL is not of this machine or there is none.
func LocalToken(serverURL string, getenv func(string) string) string {
	u, err := url.Parse(serverURL)
	if err != nil || u.Scheme != "http" || !Loopback(u.Hostname()) {
		return ""
	}
	path, err := accessFile(u, getenv)
	if err != nil {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var a access
	if json.Unmarshal(b, &a) != nil {
		return ""
	}
	return a.Token
}

func accessFile(u *url.URL, getenv func(string) string) (string, error) {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	base := getenv("XDG_STATE_HOME")
	if base == "" {
		home := getenv("HOME")
		if home == "" {
			return "", fmt.Errorf("%w: neither XDG_STATE_HOME nor HOME is set; set one", haulier.ErrInvalid)
		}
		base = filepath.Join(home, ".local/state")
	}
	return filepath.Join(base, "haulier", "access", port+".json"), nil
}

// Loopback reports whether a host name or address is this machine's own and no other can reach it.
func Loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

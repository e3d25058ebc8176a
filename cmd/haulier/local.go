package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
)

// A server that a user starts on this machine lets that user's other commands in:
// it leaves a token in a file that only the user can read, named after its port,
//
//	$XDG_STATE_HOME/haulier/access/7480.json
//
// and takes both back when it stops.
type access struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"` // of the server
}

func (s *settings) accessFile(port string) (string, error) {
	dir, err := s.stateFolder()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "access", port+".json"), nil
}

// writeAccess leaves the token for the user's commands, and returns what takes the file back.
func (s *settings) writeAccess(port string, a access) (remove func(), err error) {
	path, err := s.accessFile(port)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	b, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "new-*") // mode 0600
	if err != nil {
		return nil, err
	}
	_, err = tmp.WriteString(string(b) + "\n")
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return nil, fmt.Errorf("leave a token for the other commands: %w", err)
	}
	return func() {
		if now, err := os.ReadFile(path); err == nil && string(now) == string(b)+"\n" { // else it is the next server's
			os.Remove(path)
		}
	}, nil
}

// localToken is the token that a server of this user on this machine left for
// its commands; "" when the URL is not of this machine or there is none.
func (s *settings) localToken() string {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" || !loopback(u.Hostname()) {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	path, err := s.accessFile(port)
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

// loopback reports whether a host name or address is this machine's own and no other can reach it.
func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// here reports whether the server runs on this machine, as far as its URL tells.
func (s *settings) here() bool {
	u, err := url.Parse(s.URL)
	return err == nil && loopback(u.Hostname())
}

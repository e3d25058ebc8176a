package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/haulier/haulier"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// errInterrupted ends a command that was stopped by a signal: there is nothing more to say.
var errInterrupted = errors.New("interrupted")

// exit ends the program with a code of its own, after everything was said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usage is an error of the command line.
type usage struct{ msg string }

func (u *usage) Error() string { return u.msg }

func usagef(format string, args ...any) error { return &usage{fmt.Sprintf(format, args...)} }

// conclude tells of the error, when there is one, and returns the exit code for it.
func (p *program) conclude(err error) int {
	var code exit
	var wrong *usage
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &wrong) || !p.began:
		p.say("haulier: %v", err)
		p.say("Add --help to the command to see how it is used.")
		return exitUsage
	}
	p.say("haulier: %s", p.explain(err))
	return exitFailed
}

// explain is the error with what to do about it, where the error alone does not say.
func (p *program) explain(err error) string {
	s := &p.settings
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no server at %s: start one with `haulier dev`, or set --url", s.URL)
	case errors.Is(err, haulier.ErrUnauthenticated) && s.Token == "":
		return fmt.Sprintf("the server at %s wants a token: give one with --token or HAULIER_TOKEN, which `haulier token create` makes where the server runs", s.URL)
	case errors.Is(err, haulier.ErrUnauthenticated):
		return fmt.Sprintf("the server at %s does not know this token: it was revoked, has expired, or is of another server; `haulier token create` makes another", s.URL)
	}
	return err.Error()
}

package http

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// The serverless queue's protocol: the body has a line for each job, its payload; the answer has a line for each in the same order, which
// begins with a number. Lines that begin with # are comments; of these, and of others, those that go on or begin with "J: " bring jobs.
//
//	> {"to":"ann"}            < # sent at once
//	> {"to":"bob"}            < 200
//	> {"to":"eve"}            < #J: log|{"to":"bob"}
//	                          < 200 {"id":7}
//	                          < 503 try again
//
// A comment belongs to the job whose line comes next, and to the last one when none does.
const (
	comment = "#"
	jobMark = "J: "
)

// line is what an answer says of one job.
type line struct {
	code     int
	text     string   // that follows the number
	comments []string // as they go to the output
	why      string   // not empty: it says nothing of the job
}

// parseLines reads an answer about n jobs. What follows a line that is none can't be told apart from what should have been in its place, so
// it says nothing of the jobs after it either. cut: the body does not go on to its end.
func parseLines(body []byte, cut bool, n int) []line {
	out := make([]line, n)
	all := strings.Split(strings.TrimRight(string(body), "\r\n"), "\n")
	if cut {
		all = all[:len(all)-1]
	}
	at, broken := 0, false
	var comments []string
	for _, text := range all {
		text = strings.TrimSuffix(text, "\r")
		if c, is := commentOf(text); is {
			comments = append(comments, c)
			continue
		}
		if at == n {
			break
		}
		l := &out[at]
		code, rest, ok := status(text)
		switch {
		case broken:
			l.why = "a line of the answer before its own was none"
		case !ok:
			l.why, broken = fmt.Sprintf("its line of the answer begins with no number: %.80q", text), true
		default:
			l.code, l.text, l.comments, comments = code, rest, comments, nil
		}
		at++
	}
	for i := at; i < n; i++ {
		out[i].why = "the answer has no line for it"
	}
	if at > 0 && !broken {
		out[at-1].comments = append(out[at-1].comments, comments...)
	}
	return out
}

// commentOf is a comment as it goes to the output: a line that brings a job loses its mark of a comment.
func commentOf(text string) (string, bool) {
	if rest, ok := strings.CutPrefix(text, comment); ok {
		if strings.HasPrefix(rest, jobMark) {
			return rest, true
		}
		return text, true
	}
	return text, strings.HasPrefix(text, jobMark)
}

// status reads the number that a line begins with.
func status(text string) (code int, rest string, ok bool) {
	text = strings.TrimSpace(text)
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	code, err := strconv.Atoi(text[:n])
	return code, strings.TrimSpace(text[n:]), err == nil && code <= 1<<20
}

// jobLines are the lines of an answer about one job that bring jobs.
func jobLines(body []byte) (out []string) {
	for l := range bytes.Lines(body) {
		text := strings.TrimRight(string(l), "\r\n")
		if c, is := commentOf(text); is && strings.HasPrefix(c, jobMark) {
			out = append(out, c)
		}
	}
	return out
}

// judge says what a line means for its job.
func (l *line) judge() executor.Result {
	if l.why != "" {
		return executor.Result{Outcome: haulier.OutcomeError, Code: -1, Error: l.why}
	}
	r := executor.Result{Outcome: haulier.OutcomeError, Code: l.code, Result: []byte(l.text[:min(len(l.text), haulier.MaxResult)])}
	switch l.code / 100 {
	case 1:
		r.Outcome = haulier.OutcomeRetry
	case 2:
		r.Outcome = haulier.OutcomeOK
		return r
	case 4:
		r.Outcome = haulier.OutcomeFailed
	}
	r.Error = strings.TrimSpace(fmt.Sprintf("answered %d %.300s", l.code, strings.ToValidUTF8(l.text[:min(len(l.text), excerpt)], "")))
	return r
}

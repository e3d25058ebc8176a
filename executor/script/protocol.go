package script

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// Lines go to a context on its descriptor 3 and come from it on 4. A line is words with a space between them. What may be any
// text or bytes is a word in base64, or - when it is empty.
//
//	to the context                                         from the context
//	hello 1 MARK                                           hello 1
//	handler ID BODY BEFORE BEFORE-EACH AFTER-EACH          loaded ID STATUS ERROR
//	batch ID N, followed by N lines of                     begin STATUS ERROR     after before-each
//	job PLACE ID TYPE QUEUE TENANT ATTEMPT MOST PAYLOAD    done PLACE STATUS DELAY RESULT ERROR, for each, in order
//	                                                       end STATUS ERROR       after after-each
//
// STATUS is 200 when it went well. Of done it is the job's: 1xx retry, 2xx ok, 4xx failed, 5xx error, and DELAY is in
// milliseconds until it may be tried again, 0 for the usual. When begin says another status than 200, no done follows.
// After each job but the last, and after after-each, the context writes the mark to its standard output and error before the line.
// It ends when descriptor 3 does.
const (
	protocolVersion = 1
	// maxLine bounds a line from a context: a result and an error in base64.
	maxLine = (haulier.MaxResult+haulier.MaxErrorText)*4/3 + 1<<10
)

// errProtocol: what came is no line that may come.
var errProtocol = errors.New("it broke the line protocol")

func word[T ~string | ~[]byte](b []byte, v T) []byte {
	b = append(b, ' ')
	if len(v) == 0 {
		return append(b, '-')
	}
	return base64.StdEncoding.AppendEncode(b, []byte(v))
}

func appendHandler(b []byte, h *haulier.Handler) []byte {
	b = append(append(b, "handler "...), h.Digest...)
	return append(word(word(word(word(b, h.Body), h.Before), h.BeforeEach), h.AfterEach), '\n')
}

func appendBatch(b []byte, digest string, jobs []*attempt) []byte {
	b = fmt.Appendf(b, "batch %s %d\n", digest, len(jobs))
	for i, a := range jobs {
		j := a.job
		b = fmt.Appendf(b, "job %d %s %s %s %s %d %d", i, j.ID, j.Type, j.Queue, j.Tenant, j.Attempt, j.MaxAttempts)
		b = append(word(b, a.payload), '\n')
	}
	return b
}

// readLine reads the words of a line, of which the first is the verb, and there are as many as n says.
func readLine(line []byte, verb string, n int) ([]string, error) {
	words := strings.Split(string(line), " ")
	if words[0] != verb || len(words) != n {
		return nil, fmt.Errorf("%w: %.60q came in place of %s", errProtocol, line, verb)
	}
	return words, nil
}

// said reads a status and what went wrong: text is "" when nothing did.
func said(status, text string) (why string, err error) {
	code, err := strconv.Atoi(status)
	if err != nil {
		return "", fmt.Errorf("%w: status %.20q", errProtocol, status)
	}
	why, err = plain(text)
	if code/100 != 2 && why == "" {
		why = "status " + status
	}
	if code/100 == 2 {
		why = ""
	}
	return why, err
}

func plain(word string) (string, error) {
	if word == "-" {
		return "", nil
	}
	b, err := base64.StdEncoding.DecodeString(word)
	if err != nil {
		return "", fmt.Errorf("%w: %.40q is no base64", errProtocol, word)
	}
	return string(b), nil
}

// parseDone reads how the job at a place ended.
func parseDone(words []string, place int) (executor.Result, error) {
	var r executor.Result
	status, err := strconv.Atoi(words[2])
	delay, err2 := strconv.ParseInt(words[3], 10, 64)
	if words[1] != strconv.Itoa(place) || err != nil || err2 != nil || delay < 0 || delay > int64(haulier.MaxHookDelay/time.Millisecond) {
		return r, fmt.Errorf("%w: done %.20q with status %.20q and delay %.20q, for job %d", errProtocol, words[1], words[2], words[3], place)
	}
	result, err := plain(words[4])
	if err != nil {
		return r, err
	}
	text, err := plain(words[5])
	if err != nil {
		return r, err
	}
	r = executor.Result{Code: status, Result: []byte(result[:min(len(result), haulier.MaxResult)]), Error: text}
	switch status / 100 {
	case 2:
		r.Outcome, r.Error = haulier.OutcomeOK, ""
		return r, nil
	case 4:
		r.Outcome = haulier.OutcomeFailed
	case 1:
		r.Outcome, r.Delay = haulier.OutcomeRetry, time.Duration(delay)*time.Millisecond
	case 5:
		r.Outcome, r.Delay = haulier.OutcomeError, time.Duration(delay)*time.Millisecond
	default:
		return r, fmt.Errorf("%w: status %d is none of 1xx, 2xx, 4xx, 5xx", errProtocol, status)
	}
	if r.Error == "" {
		r.Error = fmt.Sprintf("the handler said status %d", status)
	}
	return r, nil
}

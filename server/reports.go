package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
	"github.com/haulier/haulier/wire"
)

// reportsBody is what a worker tells of its jobs.
type reportsBody struct {
	Reports []reportBody `json:"reports" doc:"from 1 to 2000 reports"`
}

// reportBody is a report; its kind says which fields count.
type reportBody struct {
	Job         haulier.ID       `json:"job"`
	Attempt     int              `json:"attempt"`
	Kind        string           `json:"kind" doc:"start, progress, log, finish, release or abort"`
	Outcome     haulier.Outcome  `json:"outcome,omitempty" doc:"of finish: ok, failed, retry or error"`
	Code        int              `json:"code,omitempty" doc:"of finish: exit code or status"`
	Error       string           `json:"error,omitempty" doc:"of finish, release and abort: why"`
	Result      json.RawMessage  `json:"result,omitempty" doc:"of finish: any JSON"`
	ResultBytes []byte           `json:"result_bytes,omitempty" doc:"instead of result: any bytes, as base64"`
	Delay       haulier.Duration `json:"delay,omitzero" doc:"of finish with retry or error: wait this long instead of the back-off; of release: before it may be claimed again"`
	Percent     *float64         `json:"percent,omitempty" doc:"of progress"`
	Step        string           `json:"step,omitempty" doc:"of progress"`
	Output      string           `json:"output,omitempty" doc:"of finish: address of the manifest of what the job's outputs are"`
	Account     *haulier.Account `json:"account,omitempty" doc:"of finish: what it used"`
	Then        []jobBody        `json:"then,omitempty" doc:"of finish with ok: jobs to add in the same commit"`
	Log         []logLine        `json:"log,omitempty" doc:"output since the report before, with any kind"`
	LogFrom     int64            `json:"log_from,omitempty" doc:"log_next of the answer before; what the server has already is dropped"`
}

// logLine is a piece of output.
type logLine struct {
	Stream    string    `json:"stream" doc:"stdout or stderr"`
	Time      time.Time `json:"time,omitzero" doc:"when it was written; now unless said"`
	Data      string    `json:"data,omitempty"`
	DataBytes []byte    `json:"data_bytes,omitempty" doc:"instead of data: any bytes, as base64"`
}

// reported answers reports, in their order.
type reported struct {
	Results []*told `json:"results" doc:"null where it was carried out"`
	LogNext []int64 `json:"log_next" doc:"log_from of the next report of the same attempt"`
}

var reportKinds = map[string]haulier.ReportKind{
	"start": haulier.ReportStart, "progress": haulier.ReportProgress, "log": haulier.ReportLog,
	"finish": haulier.ReportFinish, "release": haulier.ReportRelease, "abort": haulier.ReportAbort,
}

func (c *call) report() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	reports, err := c.reports()
	if err != nil {
		return err
	}
	if err := checkReports(reports); err != nil {
		return err
	}
	errs, err := c.Queue.Report(c.ctx(), id, reports)
	if err != nil {
		return c.forget(id, err)
	}
	if len(errs) != len(reports) {
		return fmt.Errorf("report: %d results for %d reports", len(errs), len(reports))
	}
	if c.wantsBinary() {
		for i := range errs {
			errs[i] = c.telling(errs[i])
		}
		return c.replyBinary(http.StatusOK, func(b []byte) []byte { return wire.AppendErrors(b, errs) })
	}
	reply := reported{Results: make([]*told, len(errs)), LogNext: make([]int64, len(errs))}
	for i := range errs {
		reply.Results[i] = tell(c.telling(errs[i]))
		reply.LogNext[i] = reports[i].LogFrom + int64(len(reports[i].Log))
	}
	return c.replyJSON(http.StatusOK, reply)
}

func (c *call) reports() ([]haulier.Report, error) {
	b, err := c.readBody(maxBatchBody)
	if err != nil {
		return nil, err
	}
	if c.sentBinary() {
		reports, err := wire.ParseReports(b)
		if err != nil {
			return nil, badBinary(err)
		}
		return reports, nil
	}
	return parseReports(b, time.Now())
}

// checkReports checks what the engine takes as given.
func checkReports(reports []haulier.Report) error {
	if len(reports) == 0 {
		return &haulier.FieldError{Field: "reports", Msg: "is empty or missing: send at least one report"}
	}
	if len(reports) > haulier.MaxReports {
		return &haulier.FieldError{Field: "reports", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d reports: send at most %d in a request", len(reports), haulier.MaxReports)}
	}
	for i := range reports {
		r := &reports[i]
		at := func(field string) string { return fmt.Sprintf("reports[%d].%s", i, field) }
		switch whole, err := joblog.Whole(r.Log); {
		case r.Kind < haulier.ReportStart || r.Kind > haulier.ReportAbort:
			return &haulier.FieldError{Field: at("kind"), Msg: "is none of start, progress, log, finish, release, abort"}
		case err != nil || whole != len(r.Log):
			return &haulier.FieldError{Field: at("log"), Msg: "does not consist of whole frames of output"}
		case r.LogFrom < 0:
			return &haulier.FieldError{Field: at("log_from"), Msg: "is negative: the first report of an attempt begins at 0"}
		case r.Kind == haulier.ReportFinish && !r.Outcome.Valid():
			return &haulier.FieldError{Field: at("outcome"), Msg: fmt.Sprintf("%q is none of ok, failed, retry, error", clip(string(r.Outcome)))}
		case r.Account != nil && (len(r.Account.Container) > haulier.MaxResult || len(r.Account.Container) > 0 && !json.Valid(r.Account.Container)):
			return &haulier.FieldError{Field: at("account.container"), Msg: fmt.Sprintf("is no JSON, or has more than %d bytes", haulier.MaxResult)}
		case r.Percent != r.Percent:
			return &haulier.FieldError{Field: at("percent"), Msg: "is no number"}
		}
	}
	return nil
}

// parseReports reads the JSON of reports.
func parseReports(b []byte, now time.Time) ([]haulier.Report, error) {
	var body reportsBody
	if err := decodeJSON(b, &body); err != nil {
		return nil, err
	}
	reports := make([]haulier.Report, len(body.Reports))
	for i := range body.Reports {
		if err := body.Reports[i].report(&reports[i], now); err != nil {
			return nil, inItem("reports", i, err)
		}
	}
	return reports, nil
}

func (b *reportBody) report(r *haulier.Report, now time.Time) error {
	*r = haulier.Report{
		Ref: haulier.Ref{Job: b.Job, Attempt: b.Attempt}, Kind: reportKinds[b.Kind], Outcome: b.Outcome, Code: b.Code,
		Error: b.Error, Result: b.ResultBytes, Delay: time.Duration(b.Delay), Percent: -1, Step: b.Step, LogFrom: b.LogFrom, Output: b.Output, Account: b.Account,
	}
	if b.Result != nil {
		r.Result = b.Result
	}
	if b.Percent != nil {
		r.Percent = *b.Percent
	}
	for i := range b.Then {
		var s haulier.Spec
		if err := b.Then[i].spec(&s, now); err != nil {
			return inItem("then", i, err)
		}
		r.Then = append(r.Then, s)
	}
	for i := range b.Log {
		if err := b.Log[i].append(r, now); err != nil {
			return &haulier.FieldError{Field: fmt.Sprintf("log[%d].stream", i), Msg: err.Error()}
		}
	}
	return nil
}

func (l *logLine) append(r *haulier.Report, now time.Time) error {
	stream := joblog.Stdout
	switch l.Stream {
	case "", "stdout":
	case "stderr":
		stream = joblog.Stderr
	default:
		return fmt.Errorf("%q is neither stdout nor stderr", clip(l.Stream))
	}
	at := l.Time
	if at.IsZero() {
		at = now
	}
	data := l.DataBytes
	if data == nil {
		data = []byte(l.Data)
	}
	r.Log = joblog.Append(r.Log, stream, at, data)
	return nil
}

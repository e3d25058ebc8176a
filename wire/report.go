package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// Fields of a Report.
const (
	reportJob protowire.Number = iota + 1
	reportAttempt
	reportKind
	reportOutcome
	reportCode
	reportError
	reportResult
	reportDelay
	reportPercent
	reportStep
	reportThen
	reportLog
	reportLogFrom
	reportOutput
	reportAccount
	reportResultBlob
)

// AppendReports appends reports, as messages (1).
func AppendReports(b []byte, reports []haulier.Report) []byte {
	for i := range reports {
		var mark int
		b, mark = open(b, 1)
		b = shut(appendReport(b, &reports[i]), mark)
	}
	return b
}

func appendReport(b []byte, r *haulier.Report) []byte {
	b = putID(b, reportJob, r.Job)
	b = putInt(b, reportAttempt, r.Attempt)
	b = putUint(b, reportKind, uint64(r.Kind))
	b = putText(b, reportOutcome, r.Outcome)
	b = putInt(b, reportCode, r.Code)
	b = putText(b, reportError, r.Error)
	b = putText(b, reportResult, r.Result)
	b = putInt(b, reportDelay, r.Delay)
	b = putFloat(b, reportPercent, r.Percent)
	b = putText(b, reportStep, r.Step)
	for i := range r.Then {
		var mark int
		b, mark = open(b, reportThen)
		b = shut(AppendSpec(b, &r.Then[i]), mark)
	}
	b = putText(b, reportLog, r.Log)
	b = putText(putInt(b, reportLogFrom, r.LogFrom), reportOutput, r.Output)
	b = appendAccount(b, reportAccount, r.Account)
	return putText(b, reportResultBlob, r.ResultBlob)
}

// ParseReports is the reverse of AppendReports. Results, logs and payloads share
// memory with b. ErrTooLarge: more than MaxJobs reports and jobs.
func ParseReports(b []byte) ([]haulier.Report, error) {
	room := MaxJobs
	reports := make([]haulier.Report, 0, min(count(b, 1), MaxJobs))
	f := fields{rest: b}
	for f.next() {
		if f.num != 1 {
			continue
		}
		reports = more(&f, reports, haulier.Report{}, MaxJobs)
		if f.bad == nil {
			f.take(parseReport(f.bytes(), &reports[len(reports)-1], &room))
		}
	}
	return reports, f.err("reports")
}

func parseReport(b []byte, r *haulier.Report, room *int) error {
	f := fields{rest: b}
	for f.next() {
		switch f.num {
		case reportJob:
			r.Job = f.id()
		case reportAttempt:
			r.Attempt = f.int()
		case reportKind:
			r.Kind = haulier.ReportKind(f.byte())
		case reportOutcome:
			r.Outcome = haulier.Outcome(f.name())
		case reportCode:
			r.Code = f.int()
		case reportError:
			r.Error = f.name()
		case reportResult:
			r.Result = f.bytes()
		case reportDelay:
			r.Delay = time.Duration(f.int64())
		case reportPercent:
			r.Percent = f.float()
		case reportStep:
			r.Step = f.name()
		case reportThen:
			if *room--; *room < 0 {
				f.take(fmt.Errorf("%w: more than %d jobs in one message; send several", haulier.ErrTooLarge, MaxJobs))
				break
			}
			r.Then = append(r.Then, haulier.Spec{})
			f.take(parseSpec(f.bytes(), &r.Then[len(r.Then)-1]))
		case reportLog:
			r.Log = f.bytes()
		case reportLogFrom:
			r.LogFrom = f.int64()
		case reportOutput:
			r.Output = f.name()
		case reportAccount:
			r.Account = f.account()
		case reportResultBlob:
			r.ResultBlob = f.text()
		}
	}
	return f.err("report")
}

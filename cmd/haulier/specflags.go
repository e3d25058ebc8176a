package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
)

// specFlags are what can be said of every job that is enqueued.
type specFlags struct {
	Queue       string
	Priority    int
	MaxAttempts int
	Backoff     string
	Timeout     time.Duration
	RetryFor    time.Duration
	Retention   time.Duration
	Labels      []string
	RunsOn      []string
	Group       string
	At          string
	In          time.Duration
	Flow        flowFlags
	Files       fileFlags
}

// register adds the flags; attempts is the usual number of attempts, 0 for the server's.
func (f *specFlags) register(fs *pflag.FlagSet, attempts int) {
	fs.StringVar(&f.Queue, "queue", "", "`NAME` of the queue; default unless said")
	fs.IntVar(&f.Priority, "priority", 0, "`N` from -10 to 10, higher first")
	fs.IntVar(&f.MaxAttempts, "max-attempts", attempts, "`N` attempts at most"+map[bool]string{true: "; 10 unless said"}[attempts == 0])
	fs.StringVar(&f.Backoff, "backoff", "", "`TIMES` to wait before the next attempts: one such as 10s, or a list such as 1s,10s,1m; exponential unless said")
	fs.DurationVar(&f.Timeout, "timeout", 0, "`TIME` that an attempt may take; no limit unless said")
	fs.DurationVar(&f.RetryFor, "retry-for", 0, "`TIME` after which no further attempt starts")
	fs.DurationVar(&f.Retention, "retention", 0, "`TIME` that the job is kept when it has ended; 7 days, failed 30, unless said")
	fs.StringArrayVar(&f.Labels, "label", nil, "`KEY=VALUE` to find the job by; may be repeated")
	fs.StringArrayVar(&f.RunsOn, "runs-on", nil, "`KEY=VALUE` that a worker must have as a label to run the job, such as gpu=true or arch=arm64; may be repeated, all must fit")
}

func (f *specFlags) registerTimes(fs *pflag.FlagSet) {
	fs.StringVar(&f.At, "at", "", "`TIME` of the earliest start, such as 2026-12-24T18:00:00Z or 18:00")
	fs.DurationVar(&f.In, "in", 0, "`TIME` from now to the earliest start, such as 10m")
	fs.StringVar(&f.Group, "group", "", "`NAME` shared by jobs that belong together")
	f.Flow.register(fs)
	f.Files.register(fs)
}

// spec is a job as the flags have it, without a type or a task.
func (f *specFlags) spec(s *settings, now time.Time) (haulier.Spec, error) {
	labels, err := parseLabels("label", f.Labels)
	if err != nil {
		return haulier.Spec{}, err
	}
	runsOn, err := parseLabels("runs-on", f.RunsOn)
	if err != nil {
		return haulier.Spec{}, err
	}
	spec := haulier.Spec{
		Tenant: s.Tenant, Queue: f.Queue, Priority: f.Priority, MaxAttempts: f.MaxAttempts,
		Timeout: haulier.Duration(f.Timeout), Retention: haulier.Duration(f.Retention), Labels: labels, RunsOn: runsOn, Group: f.Group,
	}
	if spec.Backoff, err = parseBackoff(f.Backoff); err != nil {
		return spec, err
	}
	if spec.Flow, err = f.Flow.flow(); err != nil {
		return spec, err
	}
	if spec.Files, err = f.Files.files(); err != nil {
		return spec, err
	}
	if f.RetryFor > 0 {
		spec.RetryUntil = now.Add(f.RetryFor)
	}
	switch {
	case f.At != "" && f.In != 0:
		return spec, usagef("--at and --in exclude each other: give one of them")
	case f.In < 0:
		return spec, usagef("--in is negative: leave it out to start at once")
	case f.In > 0:
		spec.RunAt = now.Add(f.In)
	case f.At != "":
		spec.RunAt, err = parseTime(f.At, now)
	}
	return spec, err
}

// parseBackoff reads one time or a list of them.
func parseBackoff(s string) (*haulier.Backoff, error) {
	if s == "" {
		return nil, nil
	}
	b := &haulier.Backoff{}
	for item := range strings.SplitSeq(s, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(item))
		if err != nil || d < 0 {
			return nil, usagef("--backoff: %q is no time, as in 10s or 1s,10s,1m", item)
		}
		b.List = append(b.List, haulier.Duration(d))
	}
	if len(b.List) == 1 && b.List[0] > 0 {
		return &haulier.Backoff{Constant: b.List[0]}, nil
	}
	return b, nil
}

// parseTime reads a time: RFC 3339, or without a zone in that of this machine,
// or a time of day, which is the next one.
func parseTime(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		day := func(add int) time.Time {
			return time.Date(now.Year(), now.Month(), now.Day()+add, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		}
		if at := day(0); at.After(now) {
			return at, nil
		}
		return day(1), nil
	}
	return time.Time{}, usagef("--at: %q is no time such as 2026-12-24T18:00:00Z, 2026-12-24 18:00 or 18:00", s)
}

// execFlags say how a command runs.
type execFlags struct {
	Shell bool
	Env   []string
	Dir   string
	Grace time.Duration
	Type  string
	// Limits within those of the worker.
	Limits limitFlags
}

func (f *execFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.Shell, "shell", false, "hand the command to sh -c as one line, with the further arguments as its $0, $1 …")
	fs.StringArrayVar(&f.Env, "env", nil, "`NAME=VALUE` for the command's environment; may be repeated")
	fs.StringVar(&f.Dir, "dir", "", "`DIR` that the command runs in; this one, or when the server is on another machine one of the job's own, unless said")
	fs.DurationVar(&f.Grace, "grace", 0, "`TIME` from TERM to KILL when the command is to end; 10s unless said")
	fs.StringVar(&f.Type, "type", "", "`NAME` of what the job does; exec unless said")
	f.Limits.register(fs, "of the command; the worker's limit unless said")
}

// task is the command of a job as the flags have it.
func (f *execFlags) task(argv []string, spec *haulier.Spec, s *settings) (*haulier.ExecTask, error) {
	t := &haulier.ExecTask{Argv: argv, Shell: f.Shell, Dir: f.Dir, Grace: haulier.Duration(f.Grace)}
	if l := f.Limits.limits(); l != (haulier.Limits{}) {
		t.Limits = &l
	}
	for _, item := range f.Env {
		k, v, ok := strings.Cut(item, "=")
		if !ok || k == "" {
			return nil, usagef("--env: %q is not of the form NAME=VALUE", item)
		}
		if t.Env == nil {
			t.Env = map[string]string{}
		}
		t.Env[k] = v
	}
	if t.Dir == "" && spec.Files == nil && s.here() {
		if dir, err := os.Getwd(); err == nil {
			t.Dir = dir
		}
	}
	return t, nil
}

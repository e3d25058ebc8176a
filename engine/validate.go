package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/haulier/haulier"
)

// Bounds of a command.
const (
	maxArgs     = 4096
	maxArgBytes = 48 << 10 // of arguments and environment together; they are kept in the store
	maxTimeSpan = 10 * 365 * 24 * time.Hour
)

// complete fills in a job's defaults and checks every field that a caller can set.
func complete(s *haulier.Spec, now time.Time) error {
	if s.Tenant == "" {
		s.Tenant = haulier.DefaultTenant
	}
	if s.Queue == "" {
		s.Queue = haulier.DefaultQueue
	}
	if s.Type == "" {
		if k := s.Task.Kind(); k == haulier.KindGo || k == haulier.KindScript {
			return field("type", "is missing: name what the job does, or give it a task such as exec; a handler is found by it")
		}
		s.Type = string(s.Task.Kind())
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = haulier.DefaultMaxAttempts
	}
	for _, n := range []struct{ field, v string }{{"tenant", s.Tenant}, {"queue", s.Queue}, {"type", s.Type}} {
		if err := checkName(n.field, n.v); err != nil {
			return err
		}
	}
	return first(
		func() error { return checkPolicies(s, now) },
		func() error { return checkBackoff(s.Backoff) },
		func() error { return checkLabels(s) },
		func() error { return checkRunsOn(s) },
		func() error { return checkPayload(s) },
		func() error { return checkTask(s) },
		func() error { return checkFlow(s) },
		func() error { return checkFiles(s) },
	)
}

func first(checks ...func() error) error {
	for _, c := range checks {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

// checkName accepts what can stand in a key, a URL and a table without quoting.
func checkName(name, v string) error {
	switch {
	case v == "":
		return field(name, "is empty")
	case len(v) > haulier.MaxName:
		return field(name, fmt.Sprintf("is longer than %d bytes", haulier.MaxName))
	}
	for _, r := range v {
		if strings.ContainsRune("/*|,=", r) || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return field(name, fmt.Sprintf("%.40q has %q in it: use letters, digits and - _ . : only", v, r))
		}
	}
	return nil
}

func checkPolicies(s *haulier.Spec, now time.Time) error {
	switch {
	case s.Priority < -haulier.MaxPriority || s.Priority > haulier.MaxPriority:
		return field("priority", fmt.Sprintf("is %d: it goes from %d to %d, higher first", s.Priority, -haulier.MaxPriority, haulier.MaxPriority))
	case s.MaxAttempts < 1 || s.MaxAttempts > haulier.MaxAttemptLimit:
		return field("max_attempts", fmt.Sprintf("is %d: it goes from 1 to %d", s.MaxAttempts, haulier.MaxAttemptLimit))
	case s.Timeout < 0 || time.Duration(s.Timeout) > maxTimeSpan:
		return field("timeout", "must not be negative, nor more than ten years; leave it out for none")
	case s.Retention < 0 || time.Duration(s.Retention) > maxTimeSpan:
		return field("retention", "must not be negative, nor more than ten years; leave it out for the default")
	case s.RunAt.After(now.Add(maxTimeSpan)):
		return field("run_at", "is more than ten years ahead")
	case !s.RetryUntil.IsZero() && s.RetryUntil.Before(now):
		return field("retry_until", "has passed already")
	case len(s.Group) > haulier.MaxName:
		return field("group", fmt.Sprintf("is longer than %d bytes", haulier.MaxName))
	}
	return nil
}

func checkBackoff(b *haulier.Backoff) error {
	if b == nil {
		return nil
	}
	if len(b.List) > haulier.MaxBackoffList {
		return field("backoff.list", fmt.Sprintf("has %d entries: at most %d", len(b.List), haulier.MaxBackoffList))
	}
	kinds := 0
	for _, set := range []bool{b.Constant != 0, len(b.List) > 0, b.Base != 0 || b.Max != 0} {
		if set {
			kinds++
		}
	}
	if kinds > 1 {
		return field("backoff", "mixes kinds: give constant, or list, or base and max")
	}
	for _, d := range append([]haulier.Duration{b.Constant, b.Base, b.Max}, b.List...) {
		if d < 0 || time.Duration(d) > maxTimeSpan {
			return field("backoff", "has a delay that is negative or more than ten years")
		}
	}
	return nil
}

func checkLabels(s *haulier.Spec) error {
	if len(s.Labels) > haulier.MaxLabels {
		return field("labels", fmt.Sprintf("has %d labels: at most %d", len(s.Labels), haulier.MaxLabels))
	}
	for k, v := range s.Labels {
		if k == "" || len(k)+len(v) > haulier.MaxLabelSize {
			return field("labels", fmt.Sprintf("label %.40q is empty or longer than %d bytes with its value", k, haulier.MaxLabelSize))
		}
	}
	return nil
}

// checkRunsOn accepts labels whose text is part of the lane's name.
func checkRunsOn(s *haulier.Spec) error {
	size := 0
	for k, v := range s.RunsOn {
		size += len(k) + len(v) + 2
		if err := first(func() error { return checkName("runs_on", k) }, func() error { return checkName("runs_on."+k, v) }); err != nil {
			return err
		}
	}
	switch {
	case len(s.RunsOn) > haulier.MaxRunsOn || size > haulier.MaxName:
		return field("runs_on", fmt.Sprintf("has %d labels of %d bytes: at most %d of %d", len(s.RunsOn), size, haulier.MaxRunsOn, haulier.MaxName))
	case size > 0 && s.Task.None != nil:
		return field("runs_on", "is for jobs that a worker runs, and a task of kind none needs none: leave it out")
	}
	return nil
}

func checkPayload(s *haulier.Spec) error {
	if s.Blob != "" {
		return field("payload_blob", "can't be given: send the payload, it becomes a blob when it is large")
	}
	if len(s.Payload) > haulier.MaxBlobPayload {
		return &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d bytes: at most %d", len(s.Payload), haulier.MaxBlobPayload)}
	}
	return nil
}

func checkTask(s *haulier.Spec) error {
	set := 0
	for _, is := range []bool{s.Task.Exec != nil, s.Task.HTTP != nil, s.Task.None != nil, s.Task.Container != nil, s.Task.Wasi != nil, s.Task.Script != nil} {
		if is {
			set++
		}
	}
	if set > 1 {
		return field("task", "has more than one kind: give one of exec, http, container, wasi, script, none")
	}
	return first(
		func() error { return checkExec(s.Task.Exec) },
		func() error { return checkHTTP(s.Task.HTTP, s.Payload) },
		func() error { return checkContainer(s.Task.Container) },
		func() error { return checkWasi(s.Task.Wasi, len(s.Payload)) },
		func() error { return checkScript(s.Task.Script, len(s.Payload)) },
	)
}

func checkScript(t *haulier.ScriptTask, payload int) error {
	switch {
	case t == nil:
		return nil
	case *t != haulier.ScriptTask{}:
		return field("task.script", "has a version or digest: leave them out, they are told when the job is claimed")
	case payload > haulier.MaxScriptPayload:
		return &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf(
			"has %d bytes: a handler takes at most %d; send the address of what is larger", payload, haulier.MaxScriptPayload)}
	}
	return nil
}

// checkContainer checks what holds for every engine; the rest of the config is up to that of the worker.
func checkContainer(t *haulier.ContainerTask) error {
	if t == nil {
		return nil
	}
	var config struct{ Image string }
	err := json.Unmarshal(t.Config, &config)
	switch {
	case len(t.Config) > maxArgBytes:
		return &haulier.FieldError{Field: "task.container.config", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d bytes: at most %d", len(t.Config), maxArgBytes)}
	case err != nil:
		return field("task.container.config", "is no object of JSON such as {\"Image\": \"alpine\", \"Cmd\": [\"true\"]}")
	case config.Image == "":
		return field("task.container.config", "has no Image: name the one to run")
	case t.Pull != "" && t.Pull != haulier.PullMissing && t.Pull != haulier.PullAlways && t.Pull != haulier.PullNever:
		return field("task.container.pull", fmt.Sprintf("%.20q is none of missing, always, never", t.Pull))
	case t.Grace < 0 || time.Duration(t.Grace) > 24*time.Hour:
		return field("task.container.grace", "must lie between 0 and 24h")
	}
	return optional("task.container.auth", t.Auth)
}

func checkWasi(t *haulier.WasiTask, payload int) error {
	if t == nil {
		return nil
	}
	if haulier.CheckBlobAddress(t.Module) != nil {
		return field("task.wasi.module", "is not the address of a blob: put the module there with `haulier blobs put`, which prints it")
	}
	if t.Stdin != "" && haulier.CheckBlobAddress(t.Stdin) != nil {
		return field("task.wasi.stdin", "is not the address of a blob: put it there with `haulier blobs put`, or send a payload instead")
	}
	switch {
	case t.Stdin != "" && payload > 0:
		return field("task.wasi.stdin", "can't be given with a payload: the module reads the one or the other")
	case t.Memory != 0 && (t.Memory < 1<<16 || t.Memory > 1<<32):
		return field("task.wasi.memory", fmt.Sprintf("is %d bytes: it goes from 64 KiB to 4 GiB", t.Memory))
	case t.CPU < 0 || time.Duration(t.CPU) > maxTimeSpan:
		return field("task.wasi.cpu", "must not be negative, nor more than ten years; leave it out for no limit")
	}
	return checkArguments("task.wasi", "args", t.Args, t.Env, 0)
}

func checkHTTP(t *haulier.HTTPTask, payload []byte) error {
	if t == nil {
		return nil
	}
	size := 0
	for k, v := range t.Headers {
		size += len(k) + len(v)
		if !headerName(k) || !headerValue(v) {
			return field("task.http.headers", fmt.Sprintf("%.40q is no name of a header, or its value can't be sent", k))
		}
	}
	switch {
	case t.Method != "" && !slices.Contains(httpMethods, t.Method):
		return field("task.http.method", fmt.Sprintf("%.20q is none of %s", t.Method, strings.Join(httpMethods, ", ")))
	case size > maxArgBytes:
		return &haulier.FieldError{Field: "task.http.headers", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("have %d bytes: at most %d", size, maxArgBytes)}
	case t.Secret != "" && len(payload) > haulier.MaxPayload:
		return &haulier.FieldError{Field: "payload", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("has %d bytes: at most %d can be signed", len(payload), haulier.MaxPayload)}
	case t.Batch < 0 || t.Batch > haulier.MaxHTTPBatch:
		return field("task.http.batch", fmt.Sprintf("is %d: it goes from 1 to %d jobs in a call, or 0 for a call each", t.Batch, haulier.MaxHTTPBatch))
	case t.Batch > 0 && t.Secret != "":
		return field("task.http.secret", "can't sign a call that jobs share: leave out batch or secret")
	case t.Batch > 0 && bytes.IndexByte(payload, '\n') >= 0:
		return field("payload", "has more than one line, and jobs that share a call have one each: leave out the newlines, or batch")
	}
	return first(
		func() error { return checkURL("task.http.url", t.URL) },
		func() error { return optional("task.http.secret", t.Secret) },
	)
}

// headerName reports whether v is a token of HTTP.
func headerName(v string) bool {
	for _, r := range v {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return v != ""
}

func headerValue(v string) bool {
	return strings.IndexFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

func checkExec(t *haulier.ExecTask) error {
	if t == nil {
		return nil
	}
	if len(t.Argv) == 0 || t.Argv[0] == "" {
		return field("task.exec.argv", "is empty: name the program to run")
	}
	if err := checkArguments("task.exec", "argv", t.Argv, t.Env, len(t.Dir)); err != nil {
		return err
	}
	switch {
	case strings.IndexByte(t.Dir, 0) >= 0:
		return field("task.exec.dir", "has a NUL byte in it")
	case t.Grace < 0 || time.Duration(t.Grace) > 24*time.Hour:
		return field("task.exec.grace", "must lie between 0 and 24h")
	}
	return checkLimits("task.exec.limits", t.Limits)
}

func checkLimits(name string, l *haulier.Limits) error {
	if l == nil {
		return nil
	}
	for _, n := range []struct {
		name       string
		v, low, up int64
	}{
		{"memory", l.Memory, 1 << 20, 1 << 50}, {"cpu", int64(l.CPU), int64(time.Second), int64(maxTimeSpan)},
		{"processes", l.Processes, 1, 1 << 22}, {"file_size", l.FileSize, 1, 1 << 60}, {"open_files", l.OpenFiles, 8, 1 << 30},
	} {
		if n.v != 0 && (n.v < n.low || n.v > n.up) {
			return field(name+"."+n.name, fmt.Sprintf("is %d: it goes from %d to %d, or 0 for no limit", n.v, n.low, n.up))
		}
	}
	if time.Duration(l.CPU)%time.Second != 0 {
		return field(name+".cpu", "must be of whole seconds")
	}
	return nil
}

// checkArguments checks what a program gets on its start; size is what counts besides.
func checkArguments(task, list string, args []string, env map[string]string, size int) error {
	for _, a := range args {
		size += len(a)
		if strings.IndexByte(a, 0) >= 0 {
			return field(task+"."+list, "has a NUL byte in it, which no argument can hold")
		}
	}
	for k, v := range env {
		size += len(k) + len(v)
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return field(task+".env", fmt.Sprintf("%.40q is no name of a variable, or its value has a NUL byte", k))
		}
	}
	if len(args) > maxArgs || size > maxArgBytes {
		return &haulier.FieldError{Field: task, Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf(
			"has %d arguments, %d bytes: at most %d and %d; send long input as the payload, it is the standard input", len(args), size, maxArgs, maxArgBytes)}
	}
	return nil
}

func field(name, msg string) error { return &haulier.FieldError{Field: name, Msg: msg} }

// inJob puts the job's place in the request in front of a field's path.
func inJob(i int, err error) error {
	var f *haulier.FieldError
	if errors.As(err, &f) {
		return &haulier.FieldError{Field: fmt.Sprintf("jobs[%d].%s", i, f.Field), Msg: f.Msg, Kind: f.Kind}
	}
	return fmt.Errorf("jobs[%d]: %w", i, err)
}

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
)

// DefaultGrace is the time from TERM to KILL of a task that does not say.
const DefaultGrace = 10 * time.Second

const shell = "/bin/sh"

// workFolder is the working folder of a job that names none, in the attempt's own.
const workFolder = "work"

func (x *Executor) folder(r haulier.Ref) string {
	return filepath.Join(x.dir, jobsFolder, refName(r))
}

// Prepare implements executor.Executor. The attempt gets a folder
//
//	jobs/JOB.ATTEMPT/work     working folder, when the task names none
//	                /result   $HAULIER_RESULT
//	                /stdin    a payload that does not fit a pipe
func (x *Executor) Prepare(_ context.Context, job *haulier.Job, payload []byte) (executor.Attempt, error) {
	a := &attempt{x: x, ref: haulier.Ref{Job: job.ID, Attempt: job.Attempt}, done: make(chan struct{})}
	task := job.Task.Exec
	if task == nil || len(task.Argv) == 0 {
		return a.refuse("the task has no command: name one in argv"), nil
	}
	folder := x.folder(a.ref)
	spec := &message{
		Kind: msgStart, Ref: a.ref, Argv: task.Argv, Env: jobEnv(job, folder), Dir: task.Dir, Folder: folder,
		Result: filepath.Join(folder, "result"), Timeout: max(time.Duration(job.Timeout), 0),
		Grace: time.Duration(task.Grace), Head: x.cfg.Head, Tail: x.cfg.Tail,
	}
	if spec.Grace <= 0 {
		spec.Grace = DefaultGrace
	}
	if task.Shell {
		spec.Path, spec.Argv = shell, append([]string{"sh", "-c"}, task.Argv...)
	}
	if task.Limits != nil {
		spec.Limits = *task.Limits
	}
	x.jail.dress(spec)
	if err := x.furnish(spec, payload); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	if n := len(appendMessage(nil, spec)); n > maxFrame {
		return a.refuse(fmt.Sprintf("argv and environment of %d bytes are too large: at most %d", n, maxFrame)), os.RemoveAll(folder)
	}
	a.spec = spec
	x.mu.Lock()
	x.attempts[a.ref] = a
	x.mu.Unlock()
	return a, nil
}

// refuse makes an attempt that ends failed without having run.
func (a *attempt) refuse(why string) *attempt {
	a.refused = &executor.Result{Outcome: haulier.OutcomeFailed, Code: -1, Error: why}
	return a
}

// furnish makes the attempt's folder and its standard input.
func (x *Executor) furnish(spec *message, payload []byte) error {
	if err := os.Mkdir(spec.Folder, 0o700); err != nil {
		return fmt.Errorf("folder of the job: %w", err)
	}
	if spec.Dir == "" {
		spec.Dir = filepath.Join(spec.Folder, workFolder)
		if err := os.Mkdir(spec.Dir, 0o700); err != nil {
			return fmt.Errorf("folder of the job: %w", err)
		}
	}
	if err := x.jail.furnish(spec); err != nil {
		return fmt.Errorf("folder of the job: %w", err)
	}
	if len(payload) <= maxInlineStdin {
		spec.Stdin = payload
		return nil
	}
	spec.StdinFile = filepath.Join(spec.Folder, "stdin")
	if err := os.WriteFile(spec.StdinFile, payload, 0o600); err != nil {
		return fmt.Errorf("standard input of the job: %w", err)
	}
	return nil
}

// resolve makes folder and program absolute, or says why they can't be.
func (x *Executor) resolve(spec *message) (why string) {
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return "folder " + spec.Dir + ": " + err.Error()
	}
	spec.Dir = dir
	if st, err := os.Stat(dir); err != nil {
		return "folder not usable: " + err.Error()
	} else if !st.IsDir() {
		return "folder not usable: " + dir + " is no folder"
	}
	for _, v := range spec.Env {
		if v == "" || v[0] == '=' {
			return "a variable of the environment has no name"
		}
	}
	for _, s := range slices.Concat(spec.Argv, spec.Env) {
		if strings.IndexByte(s, 0) >= 0 {
			return fmt.Sprintf("%.40q holds a zero byte, which no command can be given", s)
		}
	}
	if spec.Path == "" {
		path := x.path
		if p := lookEnv(spec.Env, "PATH"); p != "" {
			path = p
		}
		spec.Path, why = findProgram(spec.Argv[0], dir, path)
	}
	return why
}

// findProgram looks for a program as a shell does: a name with a slash is a path from the working folder.
func findProgram(name, dir, path string) (found, why string) {
	if name == "" {
		return "", "the name of the program is empty"
	}
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := runnable(name); err != nil {
			return "", fmt.Sprintf("program %s: %v", name, err)
		}
		return name, ""
	}
	denied := ""
	for _, d := range filepath.SplitList(path) {
		if d == "" || !filepath.IsAbs(d) {
			continue // the working folder is the job's: nothing is taken from it unasked
		}
		p := filepath.Join(d, name)
		switch err := runnable(p); {
		case err == nil:
			return p, ""
		case errors.Is(err, os.ErrPermission):
			denied = p
		}
	}
	if denied != "" {
		return "", fmt.Sprintf("program %s is not executable by this worker", denied)
	}
	return "", fmt.Sprintf("program %q not found in PATH %s of this worker: install it there, or give its full path", name, path)
}

func runnable(path string) error {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case st.IsDir():
		return fmt.Errorf("%w: it is a folder", os.ErrPermission)
	case st.Mode()&0o111 == 0:
		return fmt.Errorf("%w: it is not executable", os.ErrPermission)
	}
	return nil
}

// jobEnv is what the command's environment has beyond the worker's, in a fixed order.
func jobEnv(job *haulier.Job, folder string) []string {
	env := make([]string, 0, len(job.Task.Exec.Env)+6)
	for k, v := range job.Task.Exec.Env {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	env = append(env, executor.Variables(job)...)
	return append(env, "HAULIER_RESULT="+filepath.Join(folder, "result"))
}

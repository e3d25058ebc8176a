package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
)

const runLong = `Enqueue a command, follow its output, and exit with its exit code.

What it writes to standard output and standard error comes out here, each on its own. It
runs once, unless --max-attempts says otherwise; when its worker is lost, that counts.

With --container it runs in a container of that image, as the image's own command unless one is given.

Ctrl-C cancels the job and waits until it has ended; another Ctrl-C leaves it to that.
When this program ends otherwise, the job goes on.`

type runFlags struct {
	specFlags
	execFlags
	container containerFlags
	stdin     bool
	detach    bool
}

func (p *program) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARGUMENT…]", Short: "Run a command as a job, and follow it", Long: runLong,
		Example: `  haulier run -- echo hello
  haulier run --timeout 10m --queue nightly -- ./backup.sh /srv
  haulier run --shell --stdin -- 'sort | uniq -c' < words.txt
  haulier run --container debian:13 -- cat /etc/os-release
  haulier run --detach -- make world          # prints the job's id`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !f.container.asked() {
				return usagef("run needs a command, as in: haulier run -- echo hello")
			}
			return nil
		},
	}
	f.specFlags.register(cmd.Flags(), 1)
	f.registerTimes(cmd.Flags())
	f.execFlags.register(cmd.Flags())
	f.container.register(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&f.stdin, "stdin", false, "send this program's standard input along, as the command's")
	cmd.Flags().BoolVar(&f.detach, "detach", false, "print the job's id and do not wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.runJob(cmd.Context(), &f, args) }
	return cmd
}

func (p *program) runJob(ctx context.Context, f *runFlags, argv []string) error {
	spec, err := f.spec(&p.settings, time.Now())
	if err != nil {
		return err
	}
	spec.Type = f.Type
	if spec.Task, err = f.work(argv, &spec, &p.settings); err != nil {
		return err
	}
	if f.stdin {
		if spec.Payload, err = readPayload(p.in); err != nil {
			return err
		}
	}
	q, err := p.connect(ctx, patient)
	if err != nil {
		return err
	}
	defer q.Close()
	ids, err := p.enqueueBatch(ctx, q, []haulier.Spec{spec}, "")
	if err != nil {
		return err
	}
	if f.detach {
		return p.printIDs(ids)
	}
	if len(ids) == 0 {
		return nil
	}
	return p.attend(ctx, q, ids[0])
}

// work is the container, if one is asked for, or else the command.
func (f *runFlags) work(argv []string, spec *haulier.Spec, s *settings) (t haulier.Task, err error) {
	if !f.container.asked() {
		if t.Exec, err = f.task(argv, spec, s); err != nil {
			return t, err
		}
	}
	cmd := argv
	if f.Shell && len(argv) > 0 {
		cmd = append([]string{"sh", "-c"}, argv...)
	}
	t.Container, err = f.container.task(containerRun{cmd: cmd, env: f.Env, dir: f.Dir, grace: f.Grace})
	return t, err
}

// attend follows a job to its end, and passes its exit code on. The first
// interrupt cancels the job, the second leaves it.
func (p *program) attend(ctx context.Context, q haulier.Operator, id haulier.ID) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	stop := p.eachSignal(func(n int) {
		if n > 1 {
			leave(errInterrupted)
			return
		}
		p.say("haulier: cancelling job %v; another Ctrl-C leaves it to end by itself", id)
		if _, err := q.Cancel(ctx, haulier.Selection{Tenant: p.settings.Tenant, IDs: []haulier.ID{id}}, "", "interrupted at haulier run"); err != nil {
			p.say("haulier: not cancelled: %s", p.explain(err))
		}
	})
	defer stop()
	req := haulier.LogRequest{Tenant: p.settings.Tenant, Job: id, Wait: true}
	job, err := p.follow(ctx, q, req, &logWriter{out: p.out, errs: p.errs}, true)
	if context.Cause(ctx) == errInterrupted { //nolint:errorlint // it is this very value
		p.say("haulier: left; see what becomes of it with: haulier jobs get %v", id)
		return errInterrupted
	}
	if err != nil {
		return fmt.Errorf("%w; the job goes on: haulier jobs get %v", err, id)
	}
	return p.passOn(job)
}

// passOn makes the end of a job that of this program.
func (p *program) passOn(j *haulier.Job) error {
	if j.State == haulier.Succeeded {
		return nil
	}
	if j.State == haulier.Cancelled {
		p.say("haulier: job %v was cancelled", j.ID)
		return exit(exitInterrupted)
	}
	if j.Outcome == haulier.OutcomeOK || j.Code < 1 || j.Code > 255 {
		p.say("haulier: job %v %v: %s", j.ID, j.State, oneLine(reasonOf(j)))
		return exit(exitFailed)
	}
	if j.Reason != "" && j.Error != "" && !isExitCode(j) {
		p.say("haulier: job %v %v: %s", j.ID, j.State, oneLine(reasonOf(j)))
	}
	return exit(j.Code)
}

// isExitCode reports whether all there is to say of the job's end is its exit code.
func isExitCode(j *haulier.Job) bool { return j.Error == fmt.Sprintf("exit status %d", j.Code) }

func reasonOf(j *haulier.Job) string {
	for _, s := range []string{j.Reason, j.Error} {
		if s != "" {
			return s
		}
	}
	return "no reason is known"
}

// readPayload reads all there is, up to the largest payload.
func readPayload(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, haulier.MaxBlobPayload+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if len(b) > haulier.MaxBlobPayload {
		return nil, fmt.Errorf("%w: standard input has more than %d MiB; put it where the job can read it, and pass the place", haulier.ErrTooLarge, haulier.MaxBlobPayload>>20)
	}
	return b, nil
}

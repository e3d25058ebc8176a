package main

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/joblog"
)

const logsLong = `Write the output of a job's newest attempt, or of another one: what it wrote to standard
output goes to standard output, and what it wrote to standard error to standard error.

With --follow it goes on, attempt after attempt, until the job has ended.`

type logsFlags struct {
	follow  bool
	tail    int
	attempt int
	times   bool
}

func (p *program) logsCommand() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Show the output of a job", Aliases: []string{"log"}, Long: logsLong, Args: cobra.ExactArgs(1),
		Example: `  haulier jobs logs -f 0199c3f0-7d3a-7000-8000-1b2c3d4e5f60
  haulier jobs logs --tail 20 --attempt 1 0199c3f0-7d3a-7000-8000-1b2c3d4e5f60`,
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on until the job has ended")
	cmd.Flags().IntVar(&f.tail, "tail", -1, "only the last `N` lines of what is there already")
	cmd.Flags().IntVar(&f.attempt, "attempt", 0, "`N` of the attempt; the newest unless said")
	cmd.Flags().BoolVarP(&f.times, "times", "t", false, "begin each line with the time at which it was read")
	cmd.MarkFlagsMutuallyExclusive("follow", "attempt")
	cmd.RunE = func(c *cobra.Command, args []string) error {
		how := impatient
		if f.follow {
			how = patient
		}
		return p.asking(how, func(ctx context.Context, q haulier.Queue, args []string) error { return p.logs(ctx, q, &f, args[0]) })(c, args)
	}
	return cmd
}

func (p *program) logs(ctx context.Context, q haulier.Operator, f *logsFlags, arg string) error {
	ids, err := parseIDs([]string{arg})
	if err != nil {
		return err
	}
	w := &logWriter{out: p.out, errs: p.errs, times: f.times}
	req := haulier.LogRequest{Tenant: p.settings.Tenant, Job: ids[0], Attempt: f.attempt}
	if req, err = p.writeKept(ctx, q, req, w, f.tail); err != nil || !f.follow {
		return err
	}
	req.Wait = true
	_, err = p.follow(ctx, q, req, w, false)
	return err
}

// writeKept writes what there is of an attempt's output, or its last lines, and returns the request for what follows.
func (p *program) writeKept(ctx context.Context, q haulier.Operator, req haulier.LogRequest, w *logWriter, tail int) (haulier.LogRequest, error) {
	var kept []joblog.Frame
	for {
		chunk, err := q.Log(ctx, req)
		if err != nil {
			return req, err
		}
		req.Attempt, req.From = chunk.Attempt, chunk.Next
		if len(chunk.Frames) == 0 {
			break
		}
		if tail < 0 {
			if err := w.write(chunk.Frames); err != nil {
				return req, err
			}
		} else if err := joblog.Each(chunk.Frames, func(f joblog.Frame) error { kept = append(kept, f); return nil }); err != nil {
			return req, err
		}
		if chunk.End {
			break
		}
	}
	for _, f := range lastLines(kept, tail) {
		if err := w.frame(f); err != nil {
			return req, err
		}
	}
	return req, nil
}

// lastLines cuts frames to the last n lines of all streams together.
func lastLines(frames []joblog.Frame, n int) []joblog.Frame {
	for i := len(frames) - 1; i >= 0; i-- {
		data := frames[i].Data
		end := len(data)
		if i == len(frames)-1 {
			end = len(bytes.TrimSuffix(data, []byte("\n")))
		}
		for n > 0 && end >= 0 {
			at := bytes.LastIndexByte(data[:end], '\n')
			if at < 0 {
				break
			}
			if n--; n == 0 {
				out := append([]joblog.Frame{frames[i]}, frames[i+1:]...)
				out[0].Data = data[at+1:]
				return out
			}
			end = at
		}
	}
	if n <= 0 {
		return nil
	}
	return frames
}

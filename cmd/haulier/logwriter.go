package main

import (
	"bytes"
	"io"

	"github.com/haulier/haulier/joblog"
)

// logWriter writes the output of a job, its streams apart.
type logWriter struct {
	out, errs io.Writer
	times     bool
	within    map[joblog.Stream]bool // the stream is within a line
}

func (w *logWriter) write(frames []byte) error { return joblog.Each(frames, w.frame) }

func (w *logWriter) frame(f joblog.Frame) error {
	to := w.out
	if f.Stream != joblog.Stdout {
		to = w.errs
	}
	data := f.Data
	if f.Stream == joblog.Note && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(bytes.Clone(data), '\n')
	}
	if w.times {
		data = w.stamped(f, data)
	}
	_, err := to.Write(data)
	return err
}

// stamped puts the time in front of each line that begins in the frame.
func (w *logWriter) stamped(f joblog.Frame, data []byte) []byte {
	if w.within == nil {
		w.within = map[joblog.Stream]bool{}
	}
	at := f.At.Local().Format("2006-01-02T15:04:05.000Z07:00 ")
	var out []byte
	for line := range bytes.Lines(data) {
		if !w.within[f.Stream] {
			out = append(out, at...)
		}
		out = append(out, line...)
		w.within[f.Stream] = !bytes.HasSuffix(line, []byte("\n"))
	}
	return out
}

package wasi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/joblog"
)

// stdout keeps what a module writes to its standard output: in memory what fits the result of a job, and otherwise in a file.
type stdout struct {
	path string
	full context.CancelCauseFunc // ends the module that wrote too much
	mem  []byte
	file *os.File // nil: all is in memory
	sum  hash.Hash
	size int64
}

// Write implements io.Writer.
func (s *stdout) Write(b []byte) (int, error) {
	if s.size+int64(len(b)) > maxStdout {
		err := fmt.Errorf("%w: it wrote more than %d bytes to its standard output: write such as files to its folder, and keep them as outputs", haulier.ErrTooLarge, maxStdout)
		s.full(err)
		return 0, err
	}
	if s.sum == nil {
		s.sum = sha256.New()
	}
	if s.file == nil && s.size+int64(len(b)) > haulier.MaxResult {
		if err := s.spill(); err != nil {
			s.full(fmt.Errorf("its standard output can't be kept: %w", err))
			return 0, err
		}
	}
	if s.file == nil {
		s.mem = append(s.mem, b...)
	} else if _, err := s.file.Write(b); err != nil {
		s.full(fmt.Errorf("its standard output can't be kept: %w", err))
		return 0, err
	}
	s.sum.Write(b)
	s.size += int64(len(b))
	return len(b), nil
}

// spill moves what there is into a file.
func (s *stdout) spill() (err error) {
	if err = os.MkdirAll(filepath.Dir(s.path), 0o700); err == nil {
		s.file, err = os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err == nil {
		_, err = s.file.Write(s.mem)
		s.mem = nil
	}
	return err
}

func (s *stdout) address() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// reader reads all of it from the beginning.
func (s *stdout) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.mem), nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return io.LimitReader(s.file, s.size), err
}

// head is its first bytes, at most n.
func (s *stdout) head(n int) ([]byte, error) {
	r, err := s.reader()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, int64(n)))
}

func (s *stdout) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// logWriter makes the output of the job of what a module writes to its standard error. What is beyond maxLog is counted.
type logWriter struct {
	ctx  context.Context //nolint:containedctx // of the attempt, for a writer has none
	out  executor.Sink
	at   int64 // offset
	size int64
	cut  int64
}

var errLogEnded = errors.New("the attempt has ended")

// Write implements io.Writer.
func (l *logWriter) Write(b []byte) (int, error) {
	kept := b[:min(int64(len(b)), maxLog-l.size)]
	l.size += int64(len(kept))
	l.cut += int64(len(b) - len(kept))
	if !l.frames(joblog.Stderr, kept) {
		return 0, errLogEnded
	}
	return len(b), nil
}

func (l *logWriter) frames(stream joblog.Stream, b []byte) bool {
	for len(b) > 0 {
		part := b[:min(len(b), joblog.MaxFrame)]
		b = b[len(part):]
		frame := joblog.Append(nil, stream, time.Now(), part)
		if l.out.Log(l.ctx, l.at, frame) != nil {
			return false
		}
		l.at += int64(len(frame))
	}
	return true
}

// end tells how much was left out.
func (l *logWriter) end() {
	if l.cut > 0 {
		l.frames(joblog.Note, fmt.Appendf(nil, "%d more bytes of standard error were left out\n", l.cut))
	}
}

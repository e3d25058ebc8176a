package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/haulier/haulier"
)

// lines reads the lines of a text that are not empty.
type lines struct {
	in      *bufio.Reader
	remarks bool // lines that begin with # are left out
	eager   bool // a batch does not wait until it is full
	n       int  // lines read
	first   int  // number of the first line of the newest batch
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// batch returns up to n lines, and none at the end. An eager one returns what is
// there, and waits only for the first.
func (l *lines) batch(n int) ([]string, error) {
	var out []string
	for size := 0; len(out) < n && size < 4<<20 && (!l.eager || len(out) == 0 || l.ready()); {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		l.n++
		if line == "" || l.remarks && strings.HasPrefix(line, "#") {
			continue
		}
		if len(out) == 0 {
			l.first = l.n
		}
		out = append(out, line)
		size += len(line)
	}
	return out, nil
}

// ready reports whether a whole line was received already.
func (l *lines) ready() bool {
	b, _ := l.in.Peek(l.in.Buffered())
	return bytes.IndexByte(b, '\n') >= 0
}

// next returns a line without its end, and io.EOF after the last one.
func (l *lines) next() (string, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > haulier.MaxBlobPayload:
			return "", fmt.Errorf("line %d: %w: it has more than %d bytes", l.n+1, haulier.ErrTooLarge, haulier.MaxBlobPayload)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		case err != nil:
			return "", err
		}
		return string(bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))), nil
	}
}

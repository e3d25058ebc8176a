package main

import (
	"bufio"
	"io"
	"strings"

	"github.com/haulier/haulier"
)

// lines reads the lines of a text that are not empty.
type lines struct {
	in      *bufio.Scanner
	remarks bool // lines that begin with # are left out
	n       int  // lines read
	first   int  // number of the first line of the newest batch
}

func newLines(r io.Reader, remarks bool) *lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), haulier.MaxBlobPayload+2)
	return &lines{in: s, remarks: remarks}
}

// batch returns up to n lines, fewer when they are long; none at the end.
func (l *lines) batch(n int) ([]string, error) {
	var out []string
	for size := 0; len(out) < n && size < 4<<20 && l.in.Scan(); {
		l.n++
		line := l.in.Text()
		if line == "" || l.remarks && strings.HasPrefix(line, "#") {
			continue
		}
		if len(out) == 0 {
			l.first = l.n
		}
		out = append(out, line)
		size += len(line)
	}
	return out, l.in.Err()
}

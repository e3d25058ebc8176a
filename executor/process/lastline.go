package process

import "bytes"

// lastLine finds the last line of a stream that is not blank. It keeps at most max bytes of a line.
type lastLine struct {
	max  int
	line []byte // the newest line, as far as it was written
	last []byte // the last whole line that is not blank
}

// write takes the next bytes of the stream.
func (l *lastLine) write(b []byte) {
	end := bytes.LastIndexByte(b, '\n')
	if end < 0 {
		l.grow(b)
		return
	}
	whole, rest := b[:end], b[end+1:]
	for {
		at := bytes.LastIndexByte(whole, '\n')
		if at < 0 {
			l.grow(whole) // it ends the line that was begun before
			l.keep(l.line)
			break
		}
		if l.keep(whole[at+1:]) {
			break
		}
		whole = whole[:at]
	}
	l.line = l.line[:0]
	l.grow(rest)
}

func (l *lastLine) grow(b []byte) {
	l.line = append(l.line, b[:min(len(b), l.max-len(l.line))]...)
}

func (l *lastLine) keep(line []byte) bool {
	if len(bytes.TrimSpace(line)) == 0 {
		return false
	}
	l.last = append(l.last[:0], line[:min(len(line), l.max)]...)
	return true
}

// text is the line, without the spaces at its end.
func (l *lastLine) text() []byte {
	l.keep(l.line)
	return bytes.TrimRight(l.last, " \t\r")
}

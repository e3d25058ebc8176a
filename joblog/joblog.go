// Package joblog is the format of a job's output: a sequence of frames, each a
// piece of one stream with the time at which it was read.
//
//	frame = stream (1 byte) | time (uvarint, Unix microseconds) | length (uvarint) | bytes
//
// Offsets into an attempt's output count encoded bytes and lie between frames.
package joblog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/haulier/haulier"
)

// Stream is where a piece of output came from.
type Stream byte

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
	Note   Stream = 3 // a remark of Haulier's own, such as that the middle was cut
)

// MaxFrame is the most bytes of data in a frame.
const MaxFrame = 32 << 10

// overhead bounds what a frame is longer than its data.
const overhead = 1 + 2*binary.MaxVarintLen64

// Frame is one piece of output.
type Frame struct {
	Stream Stream
	At     time.Time
	Data   []byte // shares the memory it was parsed from
}

// Append appends data as frames of at most MaxFrame bytes each.
func Append(b []byte, s Stream, at time.Time, data []byte) []byte {
	for len(data) > 0 {
		n := min(len(data), MaxFrame)
		b = append(b, byte(s))
		b = binary.AppendUvarint(b, uint64(max(at.UnixMicro(), 0)))
		b = binary.AppendUvarint(b, uint64(n))
		b = append(b, data[:n]...)
		data = data[n:]
	}
	return b
}

// Next reads the first frame of b and returns how many bytes it took.
// io.ErrUnexpectedEOF: b ends within the frame. ErrCorrupt: it is no frame.
func Next(b []byte) (Frame, int, error) {
	if len(b) == 0 {
		return Frame{}, 0, io.ErrUnexpectedEOF
	}
	f := Frame{Stream: Stream(b[0])}
	if f.Stream < Stdout || f.Stream > Note {
		return Frame{}, 0, fmt.Errorf("log frame: %w: stream %d", haulier.ErrCorrupt, b[0])
	}
	at, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return Frame{}, 0, short(n, b)
	}
	pos := 1 + n
	size, n := binary.Uvarint(b[pos:])
	if n <= 0 {
		return Frame{}, 0, short(n, b)
	}
	pos += n
	if size > MaxFrame || at > 1<<62 {
		return Frame{}, 0, fmt.Errorf("log frame: %w: %d bytes at time %d", haulier.ErrCorrupt, size, at)
	}
	if uint64(len(b)-pos) < size {
		return Frame{}, 0, io.ErrUnexpectedEOF
	}
	f.At = time.UnixMicro(int64(at)).UTC()
	f.Data = b[pos : pos+int(size)]
	return f, pos + int(size), nil
}

func short(n int, b []byte) error {
	if n < 0 || len(b) > overhead {
		return fmt.Errorf("log frame: %w: number too long", haulier.ErrCorrupt)
	}
	return io.ErrUnexpectedEOF
}

// Whole returns the length of the longest prefix of b that consists of whole frames.
func Whole(b []byte) (int, error) {
	pos := 0
	for pos < len(b) {
		_, n, err := Next(b[pos:])
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return pos, nil
		}
		if err != nil {
			return pos, err
		}
		pos += n
	}
	return pos, nil
}

// Each calls f for each frame of b, which must consist of whole frames.
func Each(b []byte, f func(Frame) error) error {
	for len(b) > 0 {
		fr, n, err := Next(b)
		if err != nil {
			return err
		}
		if err := f(fr); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Text returns the data of b's frames, of all streams or of those given, one after the other.
func Text(b []byte, streams ...Stream) ([]byte, error) {
	var out []byte
	err := Each(b, func(f Frame) error {
		for _, s := range streams {
			if f.Stream == s {
				out = append(out, f.Data...)
			}
		}
		if len(streams) == 0 {
			out = append(out, f.Data...)
		}
		return nil
	})
	return out, err
}

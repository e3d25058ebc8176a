package script

import (
	"context"
	"os"
	"sync"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor"
	"github.com/haulier/haulier/joblog"
)

// ReadDone reads a line that tells how the job at a place ended.
func ReadDone(line []byte, place int) (executor.Result, error) {
	words, err := readLine(line, "done", 6)
	if err != nil {
		return executor.Result{}, err
	}
	return parseDone(words, place)
}

// MaxLine bounds a line from a context.
const MaxLine = maxLine

// Lines reads all lines of a file.
func Lines(f *os.File) (all []string, err error) {
	l := lines{f: f}
	for {
		line, err := l.next(func() {})
		if err != nil {
			return all, err
		}
		all = append(all, string(line))
	}
}

// Split hands pieces of output to n jobs, and returns what each got.
func Split(mark string, n int, pieces [][]byte) []string {
	s := newStreams([]byte(mark))
	kept := make([]keeper, n)
	var jobs []*attempt
	for i := range kept {
		a := newAttempt(&Executor{over: context.Background()}, &haulier.Job{}, nil)
		a.sink = &kept[i]
		jobs = append(jobs, a)
	}
	s.begin(jobs)
	var rest []byte
	for _, p := range pieces {
		rest = append([]byte{}, s.split(0, append(rest, p...))...)
	}
	s.write(0, rest)
	out := make([]string, n)
	for i := range kept {
		out[i] = kept[i].text
		jobs[i].cancel()
	}
	return out
}

// keeper is a sink that keeps standard output.
type keeper struct {
	mu   sync.Mutex
	text string
}

func (k *keeper) Log(_ context.Context, _ int64, frames []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(frames) > 0 {
		f, n, err := joblog.Next(frames)
		if err != nil {
			return err
		}
		k.text += string(f.Data)
		frames = frames[n:]
	}
	return nil
}

func (*keeper) Progress(float64, string) {}

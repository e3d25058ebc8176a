package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
)

// limitFlags bound what a command may take.
type limitFlags struct {
	Memory, FileSize     byteSize
	CPU                  time.Duration
	Processes, OpenFiles int64
}

func (f *limitFlags) register(fs *pflag.FlagSet, whose string) {
	fs.Var(&f.Memory, "max-memory", "`SIZE` of memory "+whose)
	fs.DurationVar(&f.CPU, "max-cpu", 0, "`TIME` on a processor, in whole seconds, of each process "+whose)
	fs.Int64Var(&f.Processes, "max-processes", 0, "`N` processes and threads at once "+whose)
	fs.Var(&f.FileSize, "max-file-size", "`SIZE` of each file that is written "+whose)
	fs.Int64Var(&f.OpenFiles, "max-open-files", 0, "`N` open files of each process "+whose)
}

func (f *limitFlags) limits() haulier.Limits {
	return haulier.Limits{Memory: int64(f.Memory), CPU: haulier.Duration(f.CPU), Processes: f.Processes, FileSize: int64(f.FileSize), OpenFiles: f.OpenFiles}
}

// limitWords are the limits that are set.
func limitWords(l *haulier.Limits) string {
	var parts []string
	for _, x := range []struct {
		name string
		set  bool
		v    any
	}{
		{"memory", l.Memory > 0, size(l.Memory)}, {"cpu", l.CPU > 0, l.CPU}, {"processes", l.Processes > 0, l.Processes},
		{"file size", l.FileSize > 0, size(l.FileSize)}, {"open files", l.OpenFiles > 0, l.OpenFiles},
	} {
		if x.set {
			parts = append(parts, fmt.Sprintf("%s %v", x.name, x.v))
		}
	}
	return strings.Join(parts, ", ")
}

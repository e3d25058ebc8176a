package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier/executor/script"
)

// scriptFlags say in which processes handlers run.
type scriptFlags struct {
	Languages []string
	Processes int
	Jobs      int
	Age       time.Duration
	Memory    byteSize

	commands map[string][]string
}

func (f *scriptFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.Languages, "language", nil, "`NAME=COMMAND` that runs handlers of a language beside, or in place of, node, python and sh; may be repeated")
	fs.IntVar(&f.Processes, "contexts", 0, "`N` warm processes for handlers at once; one a processor unless said")
	fs.IntVar(&f.Jobs, "context-jobs", script.DefaultJobs, "`N` jobs after which such a process is replaced")
	fs.DurationVar(&f.Age, "context-age", script.DefaultAge, "`TIME` after which it is replaced")
	f.Memory = script.DefaultMemory
	fs.Var(&f.Memory, "context-memory", "`SIZE` of memory at which it is replaced; at twice this it is ended at once")
}

// check reads the languages.
func (f *scriptFlags) check() error {
	f.commands = map[string][]string{}
	for _, item := range f.Languages {
		name, command, ok := strings.Cut(item, "=")
		words := strings.Fields(command)
		if !ok || name == "" || len(words) == 0 {
			return usagef("--language: %q is not of the form NAME=COMMAND, as in 'php=php /etc/haulier/driver.php'", item)
		}
		f.commands[name] = words
	}
	return nil
}

func (f *workerFlags) scripts() *script.Executor {
	s := &f.Script
	return script.New(script.Config{Source: f.source, Languages: s.commands, Processes: s.Processes, Jobs: s.Jobs, Age: s.Age, Memory: int64(s.Memory)})
}

package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
)

// fileFlags are what a job finds in its working folder, and what stays of it.
type fileFlags struct {
	Inputs []string
	Save   string
	SaveOn string
}

func (f *fileFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.Inputs, "input", nil, "`FILESET` that the command finds in its working folder: NAME, NAME@VERSION, or NAME=FOLDER for a folder within; may be repeated")
	fs.StringVar(&f.Save, "save", "", "`FILESET` whose next version is what the command leaves in its working folder; NAME=GLOB,GLOB for a part of it")
	fs.StringVar(&f.SaveOn, "save-on", "", "`END` after which --save is done: succeeded, failed or finished; succeeded unless said")
}

// files are what the flags ask for; nil: nothing.
func (f *fileFlags) files() (*haulier.Files, error) {
	var out haulier.Files
	for _, item := range f.Inputs {
		name, to, _ := strings.Cut(item, "=")
		out.Inputs = append(out.Inputs, haulier.Input{Fileset: name, To: to})
	}
	if f.Save != "" {
		name, globs, some := strings.Cut(f.Save, "=")
		out.Outputs = &haulier.Output{Fileset: name, On: haulier.Condition(f.SaveOn)}
		if some {
			out.Outputs.Patterns = strings.Split(globs, ",")
		}
	} else if f.SaveOn != "" {
		return nil, usagef("--save-on goes with --save: name the fileset")
	}
	return haulier.FilesOf(out.Inputs, out.Outputs), nil
}

// byteSize is a flag of bytes, such as 10GiB.
type byteSize int64

var byteUnits = []struct {
	name string
	size int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}}

// Set implements pflag.Value.
func (b *byteSize) Set(s string) error {
	number, unit := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/unit {
		return usagef("%q is no number of bytes, such as 500MiB or 10GiB", s)
	}
	*b = byteSize(n * unit)
	return nil
}

// String implements pflag.Value.
func (b *byteSize) String() string {
	for _, u := range byteUnits[:4] {
		if n := int64(*b) / u.size; n > 0 && n < 1024 && int64(*b)%u.size == 0 {
			return strconv.FormatInt(n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "SIZE" }

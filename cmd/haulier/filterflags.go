package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
)

// filterFlags select jobs.
type filterFlags struct {
	States []string
	Queue  string
	Type   string
	Group  string
	Labels []string
}

func (f *filterFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.States, "state", nil, "`STATES`, any of them: "+stateNames())
	fs.StringVar(&f.Queue, "queue", "", "`NAME` of the queue")
	fs.StringVar(&f.Type, "type", "", "`NAME` of the type")
	fs.StringVar(&f.Group, "group", "", "`NAME` of the group, such as that of a map")
	fs.StringArrayVar(&f.Labels, "label", nil, "`KEY=VALUE`; may be repeated, all must fit")
}

func stateNames() string {
	var names []string
	for _, s := range haulier.States {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

// any reports whether something is selected at all.
func (f *filterFlags) any() bool {
	return len(f.States)+len(f.Labels) > 0 || f.Queue != "" || f.Type != "" || f.Group != ""
}

func (f *filterFlags) filter(tenant string) (haulier.Filter, error) {
	out := haulier.Filter{Tenant: tenant, Queue: f.Queue, Type: f.Type, Group: f.Group}
	for _, name := range f.States {
		var s haulier.State
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return out, usagef("--state: %q is none of %s", name, stateNames())
		}
		out.States = append(out.States, s)
	}
	var err error
	out.Labels, err = parseLabels("label", f.Labels)
	return out, err
}

// words say what is selected.
func (f *filterFlags) words() string {
	var parts []string
	for _, p := range []struct{ name, v string }{
		{"state", strings.Join(f.States, " or ")}, {"queue", f.Queue}, {"type", f.Type}, {"group", f.Group}, {"label", strings.Join(f.Labels, " and ")},
	} {
		if p.v != "" {
			parts = append(parts, p.name+" "+p.v)
		}
	}
	if len(parts) == 0 {
		return "all jobs"
	}
	return "all jobs of " + strings.Join(parts, ", ")
}

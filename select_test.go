package haulier_test

import (
	"testing"

	"github.com/haulier/haulier"
)

func TestFilterSelects(t *testing.T) {
	s := &haulier.Spec{Tenant: "t", Queue: "q", Type: "x", Group: "g", Labels: map[string]string{"a": "1", "b": "2", "empty": ""}}
	cases := map[string]struct {
		f    haulier.Filter
		want bool
	}{
		"everything":           {haulier.Filter{}, true},
		"tenant":               {haulier.Filter{Tenant: "t"}, true},
		"other tenant":         {haulier.Filter{Tenant: "T"}, false},
		"queue":                {haulier.Filter{Queue: "q"}, true},
		"other queue":          {haulier.Filter{Queue: "qq"}, false},
		"type":                 {haulier.Filter{Type: "x"}, true},
		"other type":           {haulier.Filter{Type: "y"}, false},
		"group":                {haulier.Filter{Group: "g"}, true},
		"other group":          {haulier.Filter{Group: "h"}, false},
		"state":                {haulier.Filter{States: []haulier.State{haulier.Failed, haulier.Running}}, true},
		"other state":          {haulier.Filter{States: []haulier.State{haulier.Failed}}, false},
		"label":                {haulier.Filter{Labels: map[string]string{"a": "1"}}, true},
		"both labels":          {haulier.Filter{Labels: map[string]string{"a": "1", "b": "2"}}, true},
		"one label wrong":      {haulier.Filter{Labels: map[string]string{"a": "1", "b": "1"}}, false},
		"a label it has not":   {haulier.Filter{Labels: map[string]string{"c": "1"}}, false},
		"an empty label":       {haulier.Filter{Labels: map[string]string{"empty": ""}}, true},
		"no such empty label":  {haulier.Filter{Labels: map[string]string{"c": ""}}, false},
		"all of it":            {haulier.Filter{Tenant: "t", Queue: "q", Type: "x", Group: "g", States: []haulier.State{haulier.Running}, Labels: map[string]string{"a": "1"}}, true},
		"all of it but one":    {haulier.Filter{Tenant: "t", Queue: "q", Type: "x", Group: "g", States: []haulier.State{haulier.Running}, Labels: map[string]string{"a": "2"}}, false},
		"everything but state": {haulier.Filter{Tenant: "t", States: []haulier.State{haulier.Pending}}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.f.Selects(s, haulier.Running); got != c.want {
				t.Errorf("selected: %v, want %v", got, c.want)
			}
		})
	}
}

func TestSessionRuns(t *testing.T) {
	both := haulier.Session{
		Tenants: []string{"t", "u"}, Kinds: []haulier.Kind{haulier.KindExec, haulier.KindGo},
		Queues: map[string]int{"fast": 10, "*": 2}, Types: []string{"mail", "scan"},
	}
	exec := both
	exec.Kinds, exec.Types = []haulier.Kind{haulier.KindExec}, nil
	named := both
	named.Queues = map[string]int{"fast": 10}
	open := both
	open.Types = nil
	lane := func(tenant, queue, typ string, k haulier.Kind) haulier.Lane {
		return haulier.Lane{Tenant: tenant, Queue: queue, Type: typ, Kind: k}
	}
	for name, c := range map[string]struct {
		s      haulier.Session
		l      haulier.Lane
		weight int
	}{
		"its own queue":                     {both, lane("t", "fast", "mail", haulier.KindGo), 10},
		"any other queue":                   {both, lane("u", "slow", "scan", haulier.KindExec), 2},
		"a type it has not":                 {both, lane("t", "fast", "other", haulier.KindExec), 0},
		"a tenant it has not":               {both, lane("v", "fast", "mail", haulier.KindGo), 0},
		"a kind it has not":                 {exec, lane("t", "fast", "mail", haulier.KindGo), 0},
		"any type of a command":             {exec, lane("t", "slow", "whatever", haulier.KindExec), 2},
		"a queue that is not named":         {named, lane("t", "slow", "mail", haulier.KindGo), 0},
		"functions must be named by type":   {open, lane("t", "fast", "mail", haulier.KindGo), 0},
		"commands need not be named":        {open, lane("t", "fast", "mail", haulier.KindExec), 10},
		"the star is no name of a queue":    {named, lane("t", "*", "mail", haulier.KindGo), 0},
		"a session of nothing runs nothing": {haulier.Session{}, lane("t", "q", "mail", haulier.KindExec), 0},
	} {
		t.Run(name, func(t *testing.T) {
			weight, ok := c.s.Runs(c.l)
			if weight != c.weight || ok != (c.weight > 0) {
				t.Errorf("weight %d, %v: want %d", weight, ok, c.weight)
			}
		})
	}
}

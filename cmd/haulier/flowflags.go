package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/haulier/haulier"
)

// flowFlags are what ties a job to others.
type flowFlags struct {
	Needs, Holds, YieldsTo, Alone, Limits     []string
	Windows, Notify                           []string
	NotifySecret                              string
	Force, Chain                              bool
	Batch                                     string
	Memo                                      time.Duration
	NoMemo                                    bool
	Unique, Duplicate, Collapse, Then, Signal string
}

func (f *flowFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.Needs, "needs", nil, "`IDS` of jobs that must succeed first; ID:failed and ID:finished ask for another end")
	fs.StringSliceVar(&f.Alone, "alone", nil, "`KEYS` of which one job runs at a time: it holds and yields to them")
	fs.StringSliceVar(&f.Holds, "holds", nil, "`KEYS` that the job holds while it runs")
	fs.StringSliceVar(&f.YieldsTo, "yields-to", nil, "`KEYS` for which it waits while they are held; KEY:3 while three or more hold it")
	fs.StringSliceVar(&f.Limits, "limit", nil, "`KEYS` whose limits hold for the job; see haulier limits")
	fs.StringVar(&f.Unique, "unique", "", "`KEY` that is taken while the job has not ended; a second job is not added")
	fs.StringVar(&f.Duplicate, "duplicate", "", "`WHAT` becomes of a second job of --unique: existing (its id is answered), reject or replace")
	fs.StringVar(&f.Collapse, "collapse", "", "`KEY`: this job replaces older ones of the key that still wait")
	fs.StringSliceVar(&f.Windows, "window", nil, "`NAMES` of windows that the job keeps to; see haulier windows")
	fs.BoolVar(&f.Force, "force", false, "start in spite of windows")
	fs.BoolVar(&f.Chain, "chain", false, "make a job of each line of its output that begins with \"J: \" and goes on with TYPE|PAYLOAD")
	fs.DurationVar(&f.Memo, "memo", 0, "`TIME`: take the result of a job with the same type, command and payload that succeeded with --memo no longer ago, and do not run")
	fs.BoolVar(&f.NoMemo, "no-memo", false, "run in spite of --memo, and let later jobs take the result")
	fs.StringVar(&f.Batch, "batch", "", "`ID` of the batch that the job is one of; see haulier batches")
	fs.StringVar(&f.Then, "then", "", "`TYPE` of the job that follows, with the result as its payload, when this one succeeds")
	fs.StringArrayVar(&f.Notify, "notify", nil, "`URL` that is told when the job has ended; succeeded=URL and failed=URL of that end only; may be repeated")
	fs.StringVar(&f.NotifySecret, "notify-secret", "", "`NAME` of the secret that signs notifications; see haulier secrets")
	fs.StringVar(&f.Signal, "signal", "", "`EVENT` that is posted when the job succeeds, and starts the workflows that wait for it")
}

// flow is what the flags ask for; nil: nothing.
func (f *flowFlags) flow() (*haulier.Flow, error) {
	w := haulier.Flow{Holds: append(f.Holds, f.Alone...), Limits: f.Limits, Collapse: f.Collapse, Then: f.Then, Signal: f.Signal, Windows: f.Windows, Force: f.Force, Chain: f.Chain}
	if f.Batch != "" {
		var err error
		if w.Batch, err = haulier.ParseID(f.Batch); err != nil {
			return nil, usagef("--batch: %v", err)
		}
	}
	for _, item := range f.Needs {
		id, on, _ := strings.Cut(item, ":")
		job, err := haulier.ParseID(id)
		if err != nil {
			return nil, usagef("--needs: %v", err)
		}
		w.Needs = append(w.Needs, haulier.Need{Job: job, On: haulier.Condition(on)})
	}
	for _, item := range f.YieldsTo {
		y := haulier.Yield{Key: item}
		if at := strings.LastIndex(item, ":"); at > 0 {
			if n, err := strconv.Atoi(item[at+1:]); err == nil && n > 0 {
				y = haulier.Yield{Key: item[:at], Below: n}
			}
		}
		w.YieldsTo = append(w.YieldsTo, y)
	}
	for _, item := range f.Notify {
		n := haulier.Notify{URL: item, Secret: f.NotifySecret}
		if on, u, ok := strings.Cut(item, "="); ok && on != "" && haulier.Condition(on).Valid() {
			n.On, n.URL = haulier.Condition(on), u
		}
		w.Notify = append(w.Notify, n)
	}
	if f.NotifySecret != "" && len(f.Notify) == 0 {
		return nil, usagef("--notify-secret goes with --notify: give the URL")
	}
	switch {
	case f.Memo < 0:
		return nil, usagef("--memo is negative: give the greatest age of the result, such as 24h")
	case f.Memo > 0 || f.NoMemo:
		w.Memo = &haulier.Memo{MaxAge: haulier.Duration(f.Memo), Fresh: f.NoMemo}
	}
	for _, key := range f.Alone {
		w.YieldsTo = append(w.YieldsTo, haulier.Yield{Key: key})
	}
	switch {
	case f.Unique != "":
		w.Unique = &haulier.Unique{Key: f.Unique, Scope: haulier.UniqueActive, Duplicate: haulier.Duplicate(f.Duplicate)}
	case f.Duplicate != "":
		return nil, usagef("--duplicate goes with --unique: give the key")
	}
	if fmt.Sprint(w) == fmt.Sprint(haulier.Flow{}) {
		return nil, nil
	}
	return &w, nil
}

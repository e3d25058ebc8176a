package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// checkFlow checks what a job asks for beside its time, and leaves out a flow that asks for nothing.
func checkFlow(s *haulier.Spec) error {
	none := s.Task.None != nil
	if none && s.Flow == nil {
		s.Flow = &haulier.Flow{} // it is looked at when it is added
	}
	w := s.Flow
	if w == nil {
		return nil
	}
	if !none && w.Ref == "" && len(w.Needs)+len(w.Holds)+len(w.YieldsTo)+len(w.Limits) == 0 &&
		w.Unique == nil && w.Collapse == "" && w.Then == "" && w.Signal == "" && len(w.Windows)+len(w.Notify) == 0 && !w.Force && !w.Chain && w.Memo == nil && w.Batch.IsNil() {
		s.Flow = nil
		return nil
	}
	if none && (len(w.Holds)+len(w.YieldsTo)+len(w.Limits)+len(w.Windows) > 0) {
		return field("task.none", "can't be combined with keys and windows: there is nothing to run")
	}
	return first(
		func() error { return checkNeeds(w.Needs) },
		func() error { return checkKeys("holds", w.Holds) },
		func() error { return checkYields(w.YieldsTo) },
		func() error { return checkKeys("limits", w.Limits) },
		func() error { return checkKeys("windows", w.Windows) },
		func() error { return checkUnique(w.Unique) },
		func() error { return checkMemo(s) },
		func() error {
			if !w.Batch.IsNil() && s.Group == "" {
				s.Group = w.Batch.String()
			}
			return optional("ref", w.Ref)
		},
		func() error { return optional("collapse", w.Collapse) },
		func() error { return optional("then", w.Then) },
		func() error { return optional("signal", w.Signal) },
		func() error { return checkNotify(w.Notify) },
	)
}

func optional(name, v string) error {
	if v == "" {
		return nil
	}
	return checkName(name, v)
}

func checkNeeds(needs []haulier.Need) error {
	if len(needs) > haulier.MaxNeeds {
		return &haulier.FieldError{Field: "needs", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("names %d jobs: at most %d", len(needs), haulier.MaxNeeds)}
	}
	for i := range needs {
		n := &needs[i]
		switch {
		case n.Job.IsNil() == (n.Ref == ""):
			return field(fmt.Sprintf("needs[%d]", i), "must have either job, an id, or ref, the name of a job in the same request")
		case !n.On.Valid():
			return field(fmt.Sprintf("needs[%d].on", i), fmt.Sprintf("%.20q is none of succeeded, failed, finished", n.On))
		}
	}
	return nil
}

func checkKeys(name string, keys []string) error {
	if len(keys) > haulier.MaxKeys {
		return field(name, fmt.Sprintf("has %d keys: at most %d", len(keys), haulier.MaxKeys))
	}
	for i, k := range keys {
		if err := checkName(fmt.Sprintf("%s[%d]", name, i), k); err != nil {
			return err
		}
		if slices.Contains(keys[:i], k) {
			return field(fmt.Sprintf("%s[%d]", name, i), "names a key for the second time")
		}
	}
	return nil
}

func checkYields(yields []haulier.Yield) error {
	if len(yields) > haulier.MaxKeys {
		return field("yields_to", fmt.Sprintf("has %d keys: at most %d", len(yields), haulier.MaxKeys))
	}
	for i := range yields {
		y := &yields[i]
		if err := checkName(fmt.Sprintf("yields_to[%d].key", i), y.Key); err != nil {
			return err
		}
		if y.Below < 0 {
			return field(fmt.Sprintf("yields_to[%d].below", i), "is negative: leave it out for 1")
		}
		if y.For < 0 || time.Duration(y.For) > haulier.MaxYieldFor {
			return field(fmt.Sprintf("yields_to[%d].for", i), "must be positive and at most a year; leave it out to wait for ever")
		}
	}
	return nil
}

func checkUnique(u *haulier.Unique) error {
	if u == nil {
		return nil
	}
	if len(u.Fields) > haulier.MaxKeys {
		return field("unique.fields", fmt.Sprintf("has %d names: at most %d", len(u.Fields), haulier.MaxKeys))
	}
	if u.Key != "" && len(u.Fields) > 0 {
		return field("unique", "has both a key and fields: give one of them")
	}
	if err := optional("unique.key", u.Key); err != nil {
		return err
	}
	switch u.Scope {
	case "", haulier.UniquePending, haulier.UniqueActive, haulier.UniqueForever:
		if u.For != 0 {
			return field("unique.for", "goes with the scope period only")
		}
	case haulier.UniquePeriod:
		if u.For <= 0 || time.Duration(u.For) > maxTimeSpan {
			return field("unique.for", "must be positive: say for how long the key is taken")
		}
	default:
		return field("unique.scope", fmt.Sprintf("%.20q is none of pending, active, period, forever", u.Scope))
	}
	switch u.Duplicate {
	case "", haulier.DuplicateExisting, haulier.DuplicateReject, haulier.DuplicateReplace:
		return nil
	}
	return field("unique.duplicate", fmt.Sprintf("%.20q is none of existing, reject, replace", u.Duplicate))
}

func checkNotify(list []haulier.Notify) error {
	if len(list) > haulier.MaxNotify {
		return field("notify", fmt.Sprintf("has %d addresses: at most %d", len(list), haulier.MaxNotify))
	}
	for i := range list {
		n := &list[i]
		at := fmt.Sprintf("notify[%d]", i)
		if err := checkURL(at+".url", n.URL); err != nil {
			return err
		}
		if !n.On.Valid() {
			return field(at+".on", fmt.Sprintf("%.20q is none of succeeded, failed, finished", n.On))
		}
		if err := optional(at+".secret", n.Secret); err != nil {
			return err
		}
	}
	return nil
}

func checkURL(name, u string) error {
	if len(u) > haulier.MaxURL {
		return field(name, fmt.Sprintf("is longer than %d bytes", haulier.MaxURL))
	}
	if err := webhook.CheckURL(u); err != nil {
		return field(name, err.Error())
	}
	return nil
}

// checkMemo refuses what an earlier result can't stand for.
func checkMemo(s *haulier.Spec) error {
	switch {
	case s.Memo == nil:
		return nil
	case s.Memo.MaxAge < 0 || time.Duration(s.Memo.MaxAge) > maxTimeSpan:
		return field("memo.max_age", "must not be negative, nor more than ten years; leave it out for any")
	case s.Files != nil && (len(s.Inputs) > 0 || s.Outputs != nil) || len(s.Needs) > 0 || s.Chain || s.Task.None != nil:
		return field("memo", "is for jobs that run, without inputs, outputs, needs and chain: leave it out")
	}
	return nil
}

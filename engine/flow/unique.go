package flow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/haulier/haulier"
)

// kept is the document of a key that one job has.
type kept struct {
	Job haulier.ID `json:"job"`
}

// UniqueKey is the key by which a job is unique: the one that is given, or a digest of its type and payload.
func UniqueKey(s *haulier.Spec) (string, error) {
	u := s.Unique
	if u.Key != "" {
		return u.Key, nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %s\n", len(s.Type), s.Type)
	if len(u.Fields) == 0 {
		fmt.Fprintf(h, "%s %s", s.Blob, s.Payload)
		return "~" + hex.EncodeToString(h.Sum(nil)[:16]), nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(s.Payload, &all); err != nil {
		return "", field("unique.fields", "need a payload that is a JSON object")
	}
	for _, name := range u.Fields {
		v, ok := all[name]
		if !ok {
			v = json.RawMessage("-")
		}
		fmt.Fprintf(h, "%q %s\n", name, compact(v))
	}
	return "~" + hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// compact is a JSON value in the one form that values of the same meaning share.
func compact(v json.RawMessage) []byte {
	var x any
	if json.Unmarshal(v, &x) != nil {
		return v
	}
	b, err := json.Marshal(x)
	if err != nil {
		return v
	}
	return b
}

// claim takes the job's unique key, or returns the job that has it.
func (t *Tx) claim(ctx context.Context, j *haulier.Job) (other haulier.ID, err error) {
	old, name, err := t.taken(ctx, j)
	if err != nil {
		return haulier.NilID, err
	}
	if old != nil {
		if free, err := t.duplicate(ctx, j, old, name); err != nil || !free {
			return old.ID, err
		}
	}
	t.put(DocUnique, name, encode(kept{j.ID}))
	return haulier.NilID, nil
}

// keeps reports whether a job still keeps others of its key out.
func (t *Tx) keeps(old *haulier.Job) bool {
	if old.Flow == nil || old.Unique == nil {
		return false
	}
	if old.State == haulier.Cancelled || old.State == haulier.Collapsed {
		return false
	}
	switch old.Unique.Scope {
	case haulier.UniqueForever:
		return true
	case haulier.UniquePeriod:
		return t.now.Before(old.CreatedAt.Add(time.Duration(old.Unique.For)))
	case haulier.UniqueActive:
		return !old.State.Terminal()
	}
	return old.State.Waits()
}

// duplicate decides what becomes of j, of whose key old is. free: the key is j's now.
func (t *Tx) duplicate(ctx context.Context, j, old *haulier.Job, name string) (free bool, err error) {
	switch j.Unique.Duplicate {
	case haulier.DuplicateReject:
		return false, fmt.Errorf("unique: %w: job %v has the key %q and is %v", haulier.ErrConflict, old.ID, name[len(j.Tenant)+1:], old.State)
	case haulier.DuplicateReplace:
		if !old.State.Waits() || t.jobs[old.ID].rev == 0 {
			return false, nil // it runs, or is of the same request
		}
		err := t.change(ctx, old, haulier.Event{Kind: haulier.EventCancel, By: "server", Error: "replaced by " + j.ID.String()})
		return true, err
	}
	return false, nil
}

// taken is the other job that has j's unique key, nil when there is none, and the name of the key's document.
func (t *Tx) taken(ctx context.Context, j *haulier.Job) (other *haulier.Job, name string, err error) {
	key, err := UniqueKey(&j.Spec)
	if err != nil {
		return nil, "", err
	}
	name = lockKey(j.Tenant, key)
	v, err := t.get(ctx, DocUnique, name)
	if err != nil || v == nil {
		return nil, name, err
	}
	var k kept
	if err := decode(DocUnique, name, v, &k); err != nil || k.Job == j.ID {
		return nil, name, err
	}
	other, err = t.Job(ctx, k.Job)
	if other != nil && !t.keeps(other) {
		other = nil
	}
	return other, name, err
}

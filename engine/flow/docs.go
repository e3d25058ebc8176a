package flow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/haulier/haulier"
)

// merge puts two lists in order of their keys. When more may follow the first, what lies beyond its end is left out.
func merge(a, b []haulier.Doc, open bool) []haulier.Doc {
	if open && len(a) > 0 {
		end := a[len(a)-1].Key
		b = slices.DeleteFunc(b, func(d haulier.Doc) bool { return d.Key > end })
	}
	a = append(a, b...)
	slices.SortFunc(a, func(x, y haulier.Doc) int { return cmp.Compare(x.Key, y.Key) })
	return a
}

// decode reads a document of JSON; none leaves v as it is.
func decode(kind haulier.DocKind, key string, b []byte, v any) error {
	if b == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s %s: %w: %w", kind, key, haulier.ErrCorrupt, err)
	}
	return nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings, numbers and times
	}
	return b
}

// try lets f change the transaction; when it fails, all is as before.
func (t *Tx) try(f func() error) error {
	saved := *t
	saved.jobs, saved.docs, saved.locks = copied(t.jobs), copied(t.docs), copied(t.locks)
	for _, l := range saved.locks {
		l.Holders, l.Called = slices.Clone(l.Holders), slices.Clone(l.Called)
	}
	saved.under, saved.coming = maps.Clone(t.under), maps.Clone(t.coming)
	err := f()
	if err != nil {
		*t = saved
	}
	return err
}

// copied is a copy of a map and of what its values point to.
func copied[K comparable, V any](m map[K]*V) map[K]*V {
	out := make(map[K]*V, len(m))
	for k, v := range m {
		c := *v
		out[k] = &c
	}
	return out
}

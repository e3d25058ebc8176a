package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// A document's record is rev (uvarint), lease (uvarint, nanoseconds) and value.

type docFacts struct {
	rev   uint64 // zero: there is none
	lease time.Duration
}

func appendDoc(b []byte, f docFacts, value []byte) []byte {
	b = binary.AppendUvarint(b, f.rev)
	b = binary.AppendUvarint(b, uint64(f.lease))
	return append(b, value...)
}

// parseDoc returns the value as a part of b.
func parseDoc(b []byte) (f docFacts, value []byte, err error) {
	rev, n := binary.Uvarint(b)
	if n <= 0 || rev == 0 {
		return f, nil, fmt.Errorf("document: %w", haulier.ErrCorrupt)
	}
	b = b[n:]
	lease, n := binary.Uvarint(b)
	if n <= 0 || lease > 1<<62 {
		return f, nil, fmt.Errorf("document: %w", haulier.ErrCorrupt)
	}
	return docFacts{rev, time.Duration(lease)}, b[n:], nil
}

// checkDocs makes sure of the expected revisions and returns those that are.
func (s *Store) checkDocs(writes []haulier.DocWrite, g *group) ([]docFacts, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	facts := make([]docFacts, len(writes))
	for i := range writes {
		w := &writes[i]
		key := docKey(w.Kind, w.Key)
		f, known := g.docs[string(key)]
		if !known {
			_, err := s.get(key, func(v []byte) (err error) {
				f, _, err = parseDoc(v)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		if w.Expect != haulier.AnyRev && w.Expect != f.rev {
			return nil, fmt.Errorf("document %s %s: %w: it is not at revision %d", w.Kind, w.Key, haulier.ErrConflict, w.Expect)
		}
		facts[i] = f
	}
	return facts, nil
}

// writeDocs carries the writes out, given what was there before.
func (s *Store) writeDocs(writes []haulier.DocWrite, before []docFacts, g *group) {
	for i := range writes {
		w := &writes[i]
		key := docKey(w.Kind, w.Key)
		var f docFacts
		if w.Value != nil {
			f = docFacts{before[i].rev + 1, max(w.Lease, 0)}
			g.ops.set(key, appendDoc(nil, f, w.Value))
		} else if before[i].rev > 0 {
			g.ops.remove(key)
		}
		g.docs[string(key)] = f
		if w.Kind != haulier.DocSession {
			continue
		}
		session, _ := haulier.ParseID(w.Key)
		if w.Value == nil {
			s.leases.drop(session)
		} else {
			s.leases.set(session, s.now().Add(f.lease))
		}
	}
}

// Doc implements haulier.Store.
func (s *Store) Doc(_ context.Context, kind haulier.DocKind, key string) (haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return haulier.Doc{}, err
	}
	defer s.leave()
	defer s.shown()
	d := haulier.Doc{Kind: kind, Key: key}
	found, err := s.get(docKey(kind, key), func(v []byte) error {
		f, value, err := parseDoc(v)
		d.Rev, d.Value = f.rev, append([]byte{}, value...)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("document %s %s: %w", kind, key, haulier.ErrNotFound)
	}
	return d, err
}

// Docs implements haulier.Store.
func (s *Store) Docs(_ context.Context, kind haulier.DocKind, prefix, from string, limit int) ([]haulier.Doc, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	defer s.shown()
	all := docKey(kind, "")
	low := docKey(kind, prefix)
	if next := append(docKey(kind, from), 0); from != "" && bytes.Compare(next, low) > 0 {
		low = next
	}
	it, err := s.db.NewIter(&pdb.IterOptions{LowerBound: low, UpperBound: after(docKey(kind, prefix))})
	if err != nil {
		return nil, corrupt(err)
	}
	defer it.Close()
	var docs []haulier.Doc
	for ok := it.First(); ok && len(docs) < limit; ok = it.Next() {
		f, value, err := parseDoc(it.Value())
		if err != nil {
			return nil, named(it.Key(), err)
		}
		docs = append(docs, haulier.Doc{Kind: kind, Key: string(it.Key()[len(all):]), Rev: f.rev, Value: append([]byte{}, value...)})
	}
	return docs, corrupt(it.Error())
}

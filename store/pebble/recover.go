package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"

	pdb "github.com/cockroachdb/pebble/v2"

	"github.com/haulier/haulier"
)

// The facts about the store, under spaceMeta: "boot", the machine's run in which it
// was opened last, and "clean", 1 when it was closed since.
var (
	metaBoot  = []byte{spaceMeta, 'b', 'o', 'o', 't'}
	metaClean = []byte{spaceMeta, 'c', 'l', 'e', 'a', 'n'}
)

// recover fills the memory from the disk: lanes, counters, who owns what, sessions.
// It writes nothing.
func (s *Store) recover() error {
	steps := []struct {
		space byte
		read  func(key, value []byte) error
	}{
		{spaceLane, s.recoverLane}, {spaceCount, s.recoverCount}, {spaceBand, s.recoverBand}, {spaceOwned, s.recoverOwned},
	}
	for _, step := range steps {
		if err := s.each([]byte{step.space}, step.read); err != nil {
			return err
		}
	}
	sessions := docKey(haulier.DocSession, "")
	return s.each(sessions, func(key, value []byte) error {
		id, err := haulier.ParseID(string(key[len(sessions):]))
		if err != nil {
			return fmt.Errorf("%w: %w", haulier.ErrCorrupt, err)
		}
		f, _, err := parseDoc(value)
		s.leases.set(id, s.now().Add(f.lease))
		return err
	})
}

// each calls f with every record whose key has the prefix.
func (s *Store) each(prefix []byte, f func(key, value []byte) error) error {
	it, err := s.db.NewIter(&pdb.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return corrupt(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return named(it.Key(), err)
		}
	}
	return corrupt(it.Error())
}

func (s *Store) recoverLane(key, value []byte) error {
	if len(key) != 5 {
		return haulier.ErrCorrupt
	}
	name, err := parseLane(value)
	if err != nil {
		return err
	}
	s.lanes.add(binary.BigEndian.Uint32(key[1:]), name).saved = true
	return nil
}

// counted reads a counter's record: its lane, the byte that follows it, and the number.
func (s *Store) counted(key, value []byte) (*lane, byte, int64, error) {
	if len(key) != 6 {
		return nil, 0, 0, haulier.ErrCorrupt
	}
	l := s.lanes.byID[binary.BigEndian.Uint32(key[1:])]
	n, size := binary.Uvarint(value)
	if l == nil || size <= 0 || n > 1<<62 {
		return nil, 0, 0, haulier.ErrCorrupt
	}
	return l, key[5], int64(n), nil
}

func (s *Store) recoverCount(key, value []byte) error {
	l, state, n, err := s.counted(key, value)
	if err == nil && !haulier.State(state).Valid() {
		err = haulier.ErrCorrupt
	}
	if err == nil {
		l.counts[state] = n
		s.idle(key, n)
	}
	return err
}

// idle remembers the counters that are zero.
func (s *Store) idle(key []byte, n int64) {
	if n == 0 {
		s.idleKeys = append(s.idleKeys, bytes.Clone(key))
	}
}

func (s *Store) recoverBand(key, value []byte) error {
	l, rank, n, err := s.counted(key, value)
	if err == nil {
		s.idle(key, n)
	}
	if err == nil && n > 0 {
		l.bands[rank] = &band{lane: l, rank: rank, sizes: &s.windows, n: n, bound: firstMark}
	}
	return err
}

func (s *Store) recoverOwned(key, _ []byte) error {
	if len(key) != 33 {
		return haulier.ErrCorrupt
	}
	s.owned[haulier.ID(key[17:])] = haulier.ID(key[1:17])
	return nil
}

// begin notes that the store is open, and finds out how it was left.
func (s *Store) begin() error {
	clean, sameBoot := true, true // of a store that was just made
	if s.folder.made {
		clean = false
		_, err := s.get(metaClean, func(v []byte) error { clean = bytes.Equal(v, []byte{1}); return nil })
		if err != nil {
			return err
		}
		_, err = s.get(metaBoot, func(v []byte) error { sameBoot = s.bootID != "" && string(v) == s.bootID; return nil })
		if err != nil {
			return err
		}
	}
	s.opening.ClaimsLost = !clean && !sameBoot
	if err := s.writeMeta(false, s.sweep()); err != nil {
		return err
	}
	if s.folder.made {
		return nil
	}
	s.folder.made = true
	return s.folder.mark("ready")
}

// sweep forgets the lanes without jobs and the counters that are zero: names that were
// used once should not stay for ever.
func (s *Store) sweep() *ops {
	var o ops
	for _, key := range s.idleKeys {
		o.remove(key)
	}
	s.idleKeys = nil
	for _, l := range s.lanes.byID {
		if l.empty() {
			s.lanes.drop(l)
			o.remove(binary.BigEndian.AppendUint32([]byte{spaceLane}, l.id))
		}
	}
	return &o
}

// writeMeta writes the facts about the store beside what else is given, and syncs all that was ever written.
func (s *Store) writeMeta(clean bool, o *ops) error {
	o.set(metaBoot, []byte(s.bootID))
	flag := []byte{0}
	if clean {
		flag[0] = 1
	}
	o.set(metaClean, flag)
	b, err := o.batch(s.db)
	if err == nil {
		err = s.db.Apply(b, pdb.Sync)
	}
	if err == nil {
		err = s.wal.sync()
	}
	if err != nil {
		s.fault.fail(err)
	}
	return s.fault.check()
}

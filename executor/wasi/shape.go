package wasi

import (
	"encoding/binary"
	"fmt"

	"github.com/haulier/haulier"
)

// shape is how much a module wants at its start.
type shape struct {
	memory uint64 // pages
}

const (
	pageSize = 64 << 10
	// maxTable is how many entries a table may have. The runtime bounds memory, and not tables, of which each entry takes 8 bytes.
	maxTable  = 1 << 20
	maxTables = 16
)

// admits tells whether a module fits its memory.
func (s *shape) admits(limit int64) error {
	if need := s.memory * pageSize; need > uint64(limit) {
		return fmt.Errorf("%w: it needs %d bytes of memory from its start, and may have %d: let it have more, by the task's memory and the worker's --wasi-memory", haulier.ErrInvalid, need, limit)
	}
	return nil
}

// inspect reads the sections of a module that say what it wants, and returns the module with an upper bound for each of
// its tables. The sections are those of the binary format of WebAssembly, version 1; what does not follow it is left for the compiler to refuse.
//
//	header    \0asm 1 0 0 0
//	section   id, size, content
//	4 tables  count, each: type, limits
//	5 memory  count, each: limits
//	limits    flags (bit 0: there is a maximum), minimum [, maximum]
func inspect(code []byte) (out []byte, s shape, err error) {
	const header = 8
	if len(code) < header || string(code[:header]) != "\x00asm\x01\x00\x00\x00" {
		return nil, s, fmt.Errorf("%w: it is no WebAssembly module: it does not begin as one of version 1", haulier.ErrInvalid)
	}
	out = append(make([]byte, 0, len(code)+64), code[:header]...)
	for rest := code[header:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, s, fmt.Errorf("%w: its section %d does not end within it", haulier.ErrInvalid, id)
		}
		content := rest[1+n : 1+n+int(size)]
		rest = rest[1+n+int(size):]
		switch id {
		case 4:
			if content, err = boundTables(content); err != nil {
				return nil, s, err
			}
		case 5:
			r := reader{b: content}
			if count := r.number(); count > 0 {
				s.memory, _, _ = r.limits()
			}
			if r.bad {
				return nil, s, fmt.Errorf("%w: its memory section is damaged", haulier.ErrInvalid)
			}
		}
		out = append(binary.AppendUvarint(append(out, id), uint64(len(content))), content...)
	}
	return out, s, nil
}

// boundTables gives each table a maximum.
func boundTables(content []byte) ([]byte, error) {
	r := reader{b: content}
	count := r.number()
	if count > maxTables {
		return nil, fmt.Errorf("%w: it has %d tables: at most %d", haulier.ErrTooLarge, count, maxTables)
	}
	out := binary.AppendUvarint(nil, count)
	for range count {
		kind := r.byte()
		least, most, bounded := r.limits()
		if least > maxTable {
			return nil, fmt.Errorf("%w: it has a table of %d entries: at most %d", haulier.ErrTooLarge, least, maxTable)
		}
		if !bounded || most > maxTable {
			most = maxTable
		}
		out = binary.AppendUvarint(binary.AppendUvarint(append(out, kind, 1), least), most)
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: its table section is damaged", haulier.ErrInvalid)
	}
	return out, nil
}

// reader reads numbers; bad tells that there were none.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) limits() (least, most uint64, bounded bool) {
	flags := r.byte()
	if flags > 1 { // shared, or of 64 bits
		r.bad = true
	}
	least = r.number()
	if bounded = flags&1 != 0; bounded {
		most = r.number()
	}
	return least, most, bounded
}

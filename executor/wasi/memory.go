package wasi

import "github.com/tetratelabs/wazero/experimental"

// allocator gives modules memory up to a limit, in bytes, beyond which a module can't grow.
func allocator(limit int64) experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory { return &memory{limit: uint64(limit)} })
}

// memory is that of one module.
type memory struct {
	limit uint64
	b     []byte
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	switch {
	case size > m.limit:
		return nil
	case size > uint64(cap(m.b)):
		room := size
		if len(m.b) > 0 { // it is likely to grow again
			room = min(size+size/4, m.limit)
		}
		b := make([]byte, size, room)
		copy(b, m.b)
		m.b = b
	default:
		m.b = m.b[:size]
	}
	return m.b
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() { m.b = nil }

// Package wire is the compact binary form of jobs, sessions and what workers,
// clients and servers tell each other: the bytes in the embedded store and in
// the bodies of the fast HTTP endpoints.
//
// The encoding is tag and value as Protocol Buffers have it: fields carry
// numbers, zero values are left out and unknown fields are skipped, so that
// old and new programs understand each other. A number is never given a second
// meaning. The Append functions are deterministic: equal values give equal bytes.
//
//	time      signed microseconds since 1970 in UTC, or relative to another time where said
//	duration  signed nanoseconds
//	int       zigzag varint
//	bool      varint 1
//	float     fixed 64 bits
//	map       entries of key (1) and value (2), sorted by key
//	ID        16 bytes
//
// The Parse functions return an error that wraps haulier.ErrCorrupt for bytes
// that are not what they should be. What they return shares memory with their
// input where it is bytes; strings are copies. All functions are safe for concurrent use.
package wire

import "github.com/haulier/haulier"

// ContentType of bodies in this encoding.
const ContentType = "application/vnd.haulier.v1"

// MaxJobs is the most jobs in one message, over all its requests or reports.
// Messages with more are refused with ErrTooLarge.
const MaxJobs = 10 * haulier.MaxBatch

// maxItems bounds the lists that are not of jobs, and maxHistory a history:
// a few bytes from outside must not become much memory.
const (
	maxItems   = 200_000
	maxHistory = 1024
)

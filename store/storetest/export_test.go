package storetest

import (
	"github.com/anishathalye/porcupine"

	"github.com/haulier/haulier"
)

// Explainable judges a history of one cell, whose operations are made by the functions below.
func Explainable(history ...porcupine.Operation) bool {
	return porcupine.CheckOperations(cellModel, history)
}

func operation(from, to int64, in input, out output) porcupine.Operation {
	return porcupine.Operation{Input: in, Call: from, Output: out, Return: to}
}

// Write is a commit that makes record k have what tag names, between two instants.
func Write(from, to int64, k int, expect uint64, tag string, v verdict) porcupine.Operation {
	return operation(from, to, input{does: commits, writes: []cellWrite{change(k, expect, tag)}}, output{verdict: v})
}

// WriteBoth is one of records k and l.
func WriteBoth(from, to int64, k, l int, tag string) porcupine.Operation {
	writes := []cellWrite{change(k, haulier.AnyRev, tag), change(l, haulier.AnyRev, tag)}
	return operation(from, to, input{does: commits, writes: writes}, output{})
}

func change(k int, expect uint64, tag string) cellWrite {
	w := cellWrite{key: k, expect: expect, to: record{rev: expect + 1, tag: tag}}
	if k < cellJobs {
		w.to.state = haulier.Pending
	}
	return w
}

// Read sees record k at a revision, 0 for none.
func Read(from, to int64, k int, rev uint64, tag string) porcupine.Operation {
	r := record{rev: rev, tag: tag}
	if k < cellJobs && rev > 0 {
		r.state = haulier.Pending
	}
	a := saw(k, anyState, r)
	return operation(from, to, a.in, a.out)
}

// Claimed is a claim that got job k, then at a revision.
func Claimed(from, to int64, k int, rev uint64, tag string) porcupine.Operation {
	var out output
	out.seen[k] = record{rev, haulier.Claimed, tag}
	return operation(from, to, input{does: claims, tag: tag}, out)
}

// Records of a cell, what writes are told, and the end of a call without an answer.
const (
	Job     = 0
	Doc     = cellJobs
	Doc2    = cellJobs + 1
	Session = cellSession

	Done     = done
	Conflict = conflict
	NoAnswer = unknown

	Never = int64(never)
)

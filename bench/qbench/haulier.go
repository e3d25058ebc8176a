//go:build qbench

// Haulier in the comparison: bench/run.sh builds this file together with the comparison's own.
package main

import (
	"context"

	"github.com/haulier/haulier/bench"
)

func init() {
	for _, durability := range []string{"", "process"} {
		s := bench.Haulier{Dir: baseDir, Binary: envOr("HAULIER_BIN", "haulier"), Durable: durability}
		registry[s.Name()] = func() System { fresh := s; return haulierSys{&fresh} }
	}
}

// haulierSys gives Work the comparison's own type of handler.
type haulierSys struct{ *bench.Haulier }

func (s haulierSys) Work(ctx context.Context, concurrency int, h Handler) (func(), error) {
	return s.Haulier.Work(ctx, concurrency, h)
}

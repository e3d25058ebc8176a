//go:build !linux

package e2e_test

import (
	"testing"

	"github.com/haulier/haulier/store/services"
)

// lab is for Linux.
type lab struct{ machines []*machine }

type machine struct {
	services.Place
	services.Link
}

type way struct {
	a, b *machine
	services.Link
}

func newLab(*testing.T, int) *lab { return nil }

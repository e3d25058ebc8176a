package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/engine"
)

// declared finds the constants of DocKind in the sources.
var declared = regexp.MustCompile(`(?m)^(?:const)?\s*Doc\w+ +(?:haulier\.)?DocKind += +"([^"]+)"`)

func TestDocKindsMissesNone(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			found++
			if kind := haulier.DocKind(m[1]); !slices.Contains(engine.DocKinds, kind) {
				t.Errorf("%s has documents of kind %q, which engine.DocKinds lacks: a copy of a store would lose them", path, kind)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := slices.Clone(engine.DocKinds)
	slices.Sort(kinds)
	if n := len(slices.Compact(kinds)); n != found || n != len(engine.DocKinds) {
		t.Errorf("the sources declare %d kinds, engine.DocKinds has %d, %d of them different", found, len(engine.DocKinds), n)
	}
}

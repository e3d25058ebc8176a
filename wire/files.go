package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/haulier/haulier"
)

// An input is its fileset (1), the job that it comes from (2), patterns (3) and folder (4); an output its
// fileset (1), patterns (3), condition (5) and number of versions that stay (6).
func appendFiles(b []byte, w *haulier.Files) []byte {
	for i := range w.Inputs {
		in := &w.Inputs[i]
		var mark int
		b, mark = open(b, specInput)
		b = putText(putText(b, 1, in.Fileset), 2, in.From)
		b = shut(putText(putItems(b, 3, in.Patterns), 4, in.To), mark)
	}
	if o := w.Outputs; o != nil {
		var mark int
		b, mark = open(b, specOutputs)
		b = putItems(putText(b, 1, o.Fileset), 3, o.Patterns)
		b = shut(putInt(putText(b, 5, o.On), 6, o.Keep), mark)
	}
	return b
}

func putItems(b []byte, num protowire.Number, items []string) []byte {
	for _, v := range items {
		b = putItem(b, num, v)
	}
	return b
}

// filesOf makes room for the files of a spec that has some.
func filesOf(s *haulier.Spec) *haulier.Files {
	if s.Files == nil {
		s.Files = new(haulier.Files)
	}
	return s.Files
}

func (f *fields) input() (in haulier.Input) {
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			in.Fileset = e.text()
		case 2:
			in.From = e.text()
		case 3:
			in.Patterns = more(&e, in.Patterns, e.text(), maxItems)
		case 4:
			in.To = e.text()
		}
	}
	f.take(e.bad)
	return in
}

func (f *fields) outputs() *haulier.Output {
	o := new(haulier.Output)
	e := fields{rest: f.bytes()}
	for e.next() {
		switch e.num {
		case 1:
			o.Fileset = e.text()
		case 3:
			o.Patterns = more(&e, o.Patterns, e.text(), maxItems)
		case 5:
			o.On = haulier.Condition(e.name())
		case 6:
			o.Keep = e.int()
		}
	}
	f.take(e.bad)
	return o
}

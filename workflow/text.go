package workflow

import (
	"encoding/json"
	"strings"
	"unicode"

	yaml "go.yaml.in/yaml/v4"
)

// text is a string in which the values of a matrix take the place of ${{ matrix.axis }}.
// There is no other expression, and no way to compute; $${{ stands for ${{ itself.
type text struct {
	parts []part
	tail  []byte // of what was read, the literal that is not among parts yet
	at    position
}

// part is a piece of a text as it is written, or the value of an axis.
type part struct {
	literal string
	axis    int  // index into the job's axes; -1: literal
	quoted  bool // the value stands within a JSON string
}

const open, end = "${{", "}}"

// text reads a scalar. axes are those of the job's matrix.
func (r *reader) text(n *yaml.Node, what string, axes []string) *text {
	v, ok := r.word(n, what)
	if !ok {
		return nil
	}
	t := &text{at: position{n.Line, n.Column}}
	r.expand(t, n, v, axes, false)
	t.close()
	return t
}

// expand appends v to the text, and notes expressions that are none.
func (r *reader) expand(t *text, n *yaml.Node, v string, axes []string, quoted bool) {
	for {
		i := strings.Index(v, open)
		if i < 0 {
			t.literal(v, quoted)
			return
		}
		if i > 0 && v[i-1] == '$' {
			t.literal(v[:i-1]+open, quoted)
			v = v[i+len(open):]
			continue
		}
		t.literal(v[:i], quoted)
		expr, rest, closed := strings.Cut(v[i+len(open):], end)
		if !closed {
			r.fail(n, "%.40q is not closed: write ${{ matrix.axis }}, or $${{ for the characters themselves", v[i:])
			return
		}
		if axis := r.axis(n, strings.TrimSpace(expr), axes); axis >= 0 {
			t.value(axis, quoted)
		}
		v = rest
	}
}

// axis finds what an expression names, or -1.
func (r *reader) axis(n *yaml.Node, expr string, axes []string) int {
	name, ok := strings.CutPrefix(expr, "matrix.")
	for i, a := range axes {
		if ok && a == name {
			return i
		}
	}
	switch {
	case !ok:
		r.fail(n, "${{ %.40s }} is not known: there is only ${{ matrix.axis }}; write $${{ for the characters themselves", expr)
	case len(axes) == 0:
		r.fail(n, "${{ %.40s }} is used in a job without a matrix: add the matrix or remove it", expr)
	default:
		r.fail(n, "${{ %.40s }} names no axis of the matrix: use one of %s", expr, strings.Join(axes, ", "))
	}
	return -1
}

func (t *text) literal(v string, quoted bool) {
	if quoted {
		v = quote(v)
	}
	t.tail = append(t.tail, v...)
}

// value appends the value of an axis.
func (t *text) value(axis int, quoted bool) {
	t.close()
	t.parts = append(t.parts, part{axis: axis, quoted: quoted})
}

// close ends the literal that was read last.
func (t *text) close() {
	if len(t.tail) > 0 {
		t.parts = append(t.parts, part{literal: string(t.tail), axis: -1})
		t.tail = nil
	}
}

// quote is v as it stands within the quotes of a JSON string.
func quote(v string) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b[1 : len(b)-1])
}

// render puts the values of a permutation in.
func (t *text) render(values []string) string {
	if t == nil || len(t.parts) == 0 {
		return ""
	}
	if len(t.parts) == 1 && t.parts[0].axis < 0 {
		return t.parts[0].literal
	}
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.axis < 0:
			b.WriteString(p.literal)
		case p.quoted:
			b.WriteString(quote(values[p.axis]))
		default:
			b.WriteString(values[p.axis])
		}
	}
	return b.String()
}

// size bounds the length of what render returns, whatever the permutation.
func (t *text) size(m *matrix) int {
	if t == nil {
		return 0
	}
	n := 0
	for _, p := range t.parts {
		switch {
		case p.axis < 0:
			n += len(p.literal)
		case p.quoted:
			n += 6 * m.longest[p.axis] // as \u001f
		default:
			n += m.longest[p.axis]
		}
	}
	return n
}

// fixed reports whether the text is the same in all permutations.
func (t *text) fixed() bool {
	return t == nil || len(t.parts) == 0 || len(t.parts) == 1 && t.parts[0].axis < 0
}

// inLabel reports whether a character may stand in the name of a queue, type or key.
func inLabel(c rune) bool {
	return !strings.ContainsRune("/*|,=", c) && !unicode.IsSpace(c) && unicode.IsPrint(c) && c != unicode.ReplacementChar
}

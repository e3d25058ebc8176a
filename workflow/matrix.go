package workflow

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// matrix is what a job is multiplied by. A job without one has a matrix of one permutation and no axes.
type matrix struct {
	axes    []string
	perms   [][]string // values by axis
	longest []int      // bytes of an axis' longest value
}

const (
	maxAxes      = 8
	maxAxisValue = 100 // bytes
)

// axis of a matrix, as read.
type axis struct {
	name   string
	values []string
}

// matrix reads the axes, takes out what exclude names and adds what include names.
func (r *reader) matrix(n *yaml.Node) *matrix {
	var axes []axis
	var include, exclude *yaml.Node
	before := len(r.errs)
	for _, p := range r.pairs(n, "matrix") {
		switch {
		case p.key == "include":
			include = p.value
		case p.key == "exclude":
			exclude = p.value
		case !axisName(p.key):
			r.fail(p.node, "axis %.40q must be letters, digits and _, and begin with a letter: rename it", p.key)
		case len(axes) == maxAxes:
			r.fail(p.node, "the matrix has more than %d axes: join some", maxAxes)
			return &matrix{}
		default:
			axes = append(axes, axis{p.key, r.axisValues(p.value, "axis "+p.key)})
		}
	}
	m := &matrix{}
	if len(axes) == 0 && include != nil {
		axes = r.axesOf(include)
	} else if !r.product(m, n, axes) {
		return m
	}
	for _, a := range axes {
		m.axes = append(m.axes, a.name)
	}
	r.envClash(n, m.axes)
	if exclude != nil {
		r.exclude(m, exclude)
	}
	if include != nil {
		r.include(m, include)
	}
	if len(m.perms) == 0 && len(r.errs) == before {
		r.fail(n, "the matrix is empty: give it axes with values, and do not exclude all of them")
	}
	m.measure()
	return m
}

func axisName(v string) bool {
	for i, c := range []byte(v) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return v != "" && len(v) <= MaxName
}

// envClash refuses axes that would have the same name as variables.
func (r *reader) envClash(n *yaml.Node, axes []string) {
	for i, a := range axes {
		for _, b := range axes[:i] {
			if strings.EqualFold(a, b) {
				r.fail(n, "axes %s and %s differ in case only: rename one", b, a)
			}
		}
	}
}

func (r *reader) axisValues(n *yaml.Node, what string) []string {
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.fail(n, "the matrix is empty: %s has no values; give it one or remove it", what)
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s must be a list of values, and is %s", what, kind(n))
		return nil
	}
	var out []string
	for _, c := range r.words(n, what, MaxJobs) {
		if r.axisValue(c, what) {
			out = append(out, c.Value)
		}
	}
	return out
}

// axisValue checks a value, which becomes part of names and labels.
func (r *reader) axisValue(n *yaml.Node, what string) bool {
	if len(n.Value) > maxAxisValue {
		r.fail(n, "a value of %s is longer than %d bytes: shorten it", what, maxAxisValue)
		return false
	}
	if i := strings.IndexFunc(n.Value, func(c rune) bool { return c < ' ' || c == 0x7f }); i >= 0 {
		r.fail(n, "a value of %s has a control character in it: remove it", what)
		return false
	}
	return true
}

// product makes all combinations, the last axis running fastest.
func (r *reader) product(m *matrix, n *yaml.Node, axes []axis) bool {
	total := 1
	for _, a := range axes {
		if total *= len(a.values); total > MaxJobs {
			r.fail(n, "the matrix has more than %d permutations: take values out", MaxJobs)
			return false
		}
	}
	if len(axes) == 0 {
		return true
	}
	for i := range total {
		perm := make([]string, len(axes))
		for k := len(axes) - 1; k >= 0; k-- {
			v := axes[k].values
			perm[k] = v[i%len(v)]
			i /= len(v)
		}
		m.perms = append(m.perms, perm)
	}
	return true
}

// axesOf takes the axes from the first entry of include.
func (r *reader) axesOf(include *yaml.Node) []axis {
	var axes []axis
	if include.Kind != yaml.SequenceNode || len(include.Content) == 0 || include.Content[0].Kind != yaml.MappingNode {
		return nil // told when it is read
	}
	for _, p := range r.pairs(include.Content[0], "include") {
		if !axisName(p.key) || len(axes) == maxAxes {
			r.fail(p.node, "axis %.40q must be letters, digits and _, and one of at most %d: rename or remove it", p.key, maxAxes)
			continue
		}
		axes = append(axes, axis{name: p.key})
	}
	return axes
}

// entry reads one entry of include or exclude: a value by axis, "" for those that it leaves out.
func (r *reader) entry(m *matrix, n *yaml.Node, what string) (perm []string, ok bool) {
	perm, ok = make([]string, len(m.axes)), true
	for _, p := range r.pairs(n, "an entry of "+what) {
		k := slices.Index(m.axes, p.key)
		if k < 0 {
			r.fail(p.node, "%s: %.40q is no axis of the matrix: use one of %s", what, p.key, strings.Join(m.axes, ", "))
			ok = false
			continue
		}
		v, read := r.word(p.value, p.key)
		if !read || v == "" || !r.axisValue(p.value, p.key) {
			if read && v == "" {
				r.fail(p.value, "%s: the value of %s is empty: give one", what, p.key)
			}
			ok = false
			continue
		}
		perm[k] = v
	}
	return perm, ok && n.Kind == yaml.MappingNode && len(n.Content) > 0
}

// maxEntries bounds include and exclude each.
const maxEntries = 500

func (r *reader) entries(n *yaml.Node, what string) []*yaml.Node {
	all := r.list(n, what)
	if len(all) > maxEntries {
		r.fail(n, "%s has more than %d entries: leave some out", what, maxEntries)
		return nil
	}
	return all
}

func (r *reader) exclude(m *matrix, n *yaml.Node) {
	for _, e := range r.entries(n, "exclude") {
		not, ok := r.entry(m, e, "exclude")
		if !ok {
			continue
		}
		before := len(m.perms)
		m.perms = slices.DeleteFunc(m.perms, func(perm []string) bool {
			for i, v := range not {
				if v != "" && v != perm[i] {
					return false
				}
			}
			return true
		})
		if len(m.perms) == before {
			r.fail(e, "exclude: no permutation is like this, or an entry before took it out: mend or remove it")
		}
	}
}

func (r *reader) include(m *matrix, n *yaml.Node) {
	for _, e := range r.entries(n, "include") {
		perm, ok := r.entry(m, e, "include")
		if !ok {
			continue
		}
		switch {
		case slices.Contains(perm, ""):
			r.fail(e, "include: an entry must have a value for each axis: %s", strings.Join(m.axes, ", "))
		case slices.ContainsFunc(m.perms, func(p []string) bool { return slices.Equal(p, perm) }):
			r.fail(e, "include: the matrix has this permutation already: remove it")
		default:
			m.perms = append(m.perms, perm)
		}
	}
}

func (m *matrix) measure() {
	m.longest = make([]int, len(m.axes))
	for _, p := range m.perms {
		for i, v := range p {
			m.longest[i] = max(m.longest[i], len(v))
		}
	}
}

// single is the matrix of a job that has none.
func single() *matrix { return &matrix{perms: [][]string{nil}} }

// shown is a permutation for people: go=1.26,os=linux. Empty without a matrix.
func (m *matrix) shown(perm []string) string {
	var b strings.Builder
	for i, v := range perm {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(m.axes[i] + "=" + v)
	}
	return b.String()
}

// suffix tells permutations apart in refs and keys, in which = and , can't stand:
// [go:1.26;os:linux]. Other characters are written as %XX, long ones as a hash.
func (m *matrix) suffix(perm []string) string {
	if len(perm) == 0 {
		return ""
	}
	var b strings.Builder
	for i, v := range perm {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(m.axes[i] + ":")
		for _, c := range v {
			if plain(c) || c == '.' || c == '+' || c == '@' {
				b.WriteRune(c)
				continue
			}
			for _, x := range []byte(string(c)) {
				fmt.Fprintf(&b, "%%%02X", x)
			}
		}
	}
	if b.Len() > MaxName {
		sum := sha256.Sum256([]byte(b.String()))
		return fmt.Sprintf("[%x]", sum[:12])
	}
	return "[" + b.String() + "]"
}

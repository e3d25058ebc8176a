package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v4"

	"github.com/haulier/haulier"
)

// reader goes through a tree of YAML and collects what is wrong with it.
// Its methods return zero values for what they could not read.
type reader struct {
	errs Errors
}

// fail notes a fault. What follows fifty others is dropped.
func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.failAt(position{n.Line, n.Column}, format, args...)
}

// position in the text.
type position struct{ line, column int }

func (r *reader) failAt(p position, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &Error{Line: max(p.line, 1), Column: max(p.column, 1), Msg: fmt.Sprintf(format, args...)})
	}
}

// plainTree refuses what the readers below don't expect: references, which can make
// much of little, and types of one's own.
func (r *reader) plainTree(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		r.fail(n, "*%.40s refers to another place: references aren't read, write it out", n.Value)
		return
	case n.Anchor != "":
		r.fail(n, "&%.40s marks a place to refer to: references aren't read, remove it", n.Anchor)
	case n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.ShortTag(), "!!"):
		r.fail(n, "%.40s is a type of its own: remove it", n.Tag)
	}
	for _, c := range n.Content {
		r.plainTree(c)
	}
}

// kind names what stands at a node, for errors.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return fmt.Sprintf("%.40q", n.Value)
}

// pair is a key of a mapping and what it leads to.
type pair struct {
	key   string
	node  *yaml.Node // of the key
	value *yaml.Node
}

// pairs lists a mapping in the order of the text, each key once.
func (r *reader) pairs(n *yaml.Node, what string) []pair {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s must be a mapping of names to values, and is %s", what, kind(n))
		return nil
	}
	seen := make(map[string]int, len(n.Content)/2)
	out := make([]pair, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			r.fail(k, "a key of %s must be a name, and is %s", what, kind(k))
			continue
		}
		if line, ok := seen[k.Value]; ok {
			r.fail(k, "%.80q stands in %s for the second time, after line %d: remove one of them", k.Value, what, line)
			continue
		}
		seen[k.Value] = k.Line
		out = append(out, pair{k.Value, k, v})
	}
	return out
}

// fields reads a mapping whose keys are known; each is read by its function, in the order of the text.
func (r *reader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	for _, p := range r.pairs(n, what) {
		read, ok := known[p.key]
		if !ok {
			r.fail(p.node, "%.80q is not known in %s: use one of %s", p.key, what, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		read(p.value)
	}
}

// list returns the members of a list that must have some.
func (r *reader) list(n *yaml.Node, what string) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s must be a list, and is %s", what, kind(n))
		return nil
	}
	if len(n.Content) == 0 {
		r.fail(n, "%s is an empty list: name at least one, or leave it out", what)
	}
	return n.Content
}

// word reads a scalar that is text. Numbers are text as they are written.
func (r *reader) word(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.fail(n, "%s must be text, and is %s", what, kind(n))
		return "", false
	}
	if strings.IndexByte(n.Value, 0) >= 0 {
		r.fail(n, "%s has a NUL byte in it: remove it", what)
		return "", false
	}
	return n.Value, true
}

// words reads a list of texts, each at most once, or one text alone.
func (r *reader) words(n *yaml.Node, what string, limit int) (out []*yaml.Node) {
	all := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		all = r.list(n, what)
	}
	seen := map[string]bool{}
	for _, c := range all {
		v, ok := r.word(c, what)
		switch {
		case !ok:
		case v == "":
			r.fail(c, "%s has an empty entry: remove it", what)
		case seen[v]:
			r.fail(c, "%s names %.80q for the second time: remove one of them", what, v)
		case len(seen) == limit:
			r.fail(c, "%s has more than %d entries: leave some out", what, limit)
			return out
		default:
			seen[v] = true
			out = append(out, c)
		}
	}
	return out
}

func texts(nodes []*yaml.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Value)
	}
	return out
}

func (r *reader) flag(n *yaml.Node, what string) bool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		return strings.EqualFold(n.Value, "true")
	}
	r.fail(n, "%s must be true or false, and is %s", what, kind(n))
	return false
}

func (r *reader) number(n *yaml.Node, what string, low, high int) int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || v < low || v > high {
		r.fail(n, "%s must be a number from %d to %d, and is %s", what, low, high, kind(n))
		return low
	}
	return v
}

func (r *reader) duration(n *yaml.Node, what string) haulier.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d <= 0 || d > maxSpan {
		r.fail(n, "%s must be a time such as 90s, 15m or 1h30m, at most %v, and is %s", what, maxSpan, kind(n))
		return 0
	}
	return haulier.Duration(d)
}

// maxSpan is the longest time that a text may name: a year.
const maxSpan = 365 * 24 * time.Hour

package workflow

import (
	"encoding/json"
	"math"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// payload reads a payload: a string is sent as it is, anything else as JSON.
func (r *reader) payload(n *yaml.Node, axes []string) *text {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		return r.text(n, "payload", axes)
	}
	t := &text{at: position{n.Line, n.Column}}
	r.json(t, n, axes)
	t.close()
	return t
}

// json writes a tree as JSON, in which texts may name values of the matrix.
func (r *reader) json(t *text, n *yaml.Node, axes []string) {
	switch n.Kind {
	case yaml.MappingNode:
		t.literal("{", false)
		for i, p := range r.pairs(n, "payload") {
			if i > 0 {
				t.literal(",", false)
			}
			t.literal(`"`+quote(p.key)+`":`, false)
			r.json(t, p.value, axes)
		}
		t.literal("}", false)
	case yaml.SequenceNode:
		t.literal("[", false)
		for i, c := range n.Content {
			if i > 0 {
				t.literal(",", false)
			}
			r.json(t, c, axes)
		}
		t.literal("]", false)
	default:
		r.jsonScalar(t, n, axes)
	}
}

func (r *reader) jsonScalar(t *text, n *yaml.Node, axes []string) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		t.literal(`"`, false)
		r.expand(t, n, n.Value, axes, true)
		t.literal(`"`, false)
		return
	case "!!bool":
		t.literal(strings.ToLower(n.Value), false)
		return
	case "!!null":
		t.literal("null", false)
		return
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.fail(n, "%.40q is no number: put it in quotes", n.Value)
		return
	}
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		r.fail(n, "JSON has no %s: put it in quotes", n.Value)
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		r.fail(n, "%s can't be written as JSON: put it in quotes", kind(n))
		return
	}
	t.literal(string(b), false)
}

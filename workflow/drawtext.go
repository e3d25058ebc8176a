package workflow

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/haulier/haulier"
)

// maxColumns is how wide a drawing in text may be; wider graphs are listed.
const maxColumns = 120

// Text is the graph for a terminal: drawn from left to right where that is readable in 120
// columns, else as a list by level. With state, marks say how the jobs stand.
func (g *Graph) Text(state StateOf) string {
	out, ok := g.drawn(state)
	if !ok {
		out = g.listed(state)
	}
	return out + g.legend(state)
}

// legend explains the marks that were used.
func (g *Graph) legend(state StateOf) string {
	if state == nil {
		return ""
	}
	used := map[haulier.State]bool{}
	for i := range g.Nodes {
		used[state(g.Nodes[i].Ref)] = true
	}
	var out []string
	for _, s := range haulier.States {
		if used[s] {
			out = append(out, marks[s]+" "+s.String())
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "\n" + strings.Join(out, "  ") + "\n"
}

// maxNamed is how many of the jobs before it a listed job names.
const maxNamed = 6

// listed is the graph as levels, in which each job names those before it.
func (g *Graph) listed(state StateOf) string {
	before := make([][]string, len(g.Nodes))
	more := make([]int, len(g.Nodes))
	levels := map[int][]int{}
	width := 0
	for i := range g.Nodes {
		levels[g.Nodes[i].Layer] = append(levels[g.Nodes[i].Layer], i)
		width = max(width, utf8.RuneCountInString(g.line(i, state)))
	}
	for _, e := range g.Edges {
		if len(before[e.To]) == maxNamed {
			more[e.To]++
			continue
		}
		before[e.To] = append(before[e.To], g.Nodes[e.From].Name)
	}
	var b strings.Builder
	for level := range len(levels) {
		for k, i := range levels[level] {
			number := ""
			if k == 0 {
				number = fmt.Sprint(level + 1)
			}
			line := fmt.Sprintf("%4s  %s", number, g.line(i, state))
			if len(before[i]) > 0 {
				pad := min(width, 60) - utf8.RuneCountInString(g.line(i, state))
				line += strings.Repeat(" ", max(pad, 0)) + "  ◄ " + strings.Join(before[i], ", ")
			}
			if more[i] > 0 {
				line += fmt.Sprintf(" and %d more", more[i])
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// line is a node in the list, where a meeting point has its name: others refer to it.
func (g *Graph) line(i int, state StateOf) string {
	n := g.Nodes[i]
	if n.Job == "" {
		n.Job = n.Name
	}
	return n.label(state) + n.remark()
}

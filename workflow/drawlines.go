package workflow

import (
	"math"
	"strings"
	"unicode/utf8"
)

// canvas is a drawing in characters.
type canvas [][]rune

func (c *canvas) set(x, y int, r rune) {
	for len(*c) <= y {
		*c = append(*c, nil)
	}
	for len((*c)[y]) <= x {
		(*c)[y] = append((*c)[y], ' ')
	}
	(*c)[y][x] = r
}

func (c *canvas) text(x, y int, s string) {
	for _, r := range s {
		c.set(x, y, r)
		x++
	}
}

func (c *canvas) dashes(from, to, y int) {
	for x := from; x < to; x++ {
		c.set(x, y, '─')
	}
}

func (c canvas) width() (w int) {
	for _, row := range c {
		w = max(w, len(row))
	}
	return w
}

func (c canvas) String() string {
	var b strings.Builder
	for _, row := range c {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}

// sketch is a graph on its way to a canvas.
type sketch struct {
	canvas
	l      *layout
	rows   []int    // of the cells
	labels []string // of the nodes
}

// maxDrawn is how many cells a drawing in text may have.
const maxDrawn = 400

// drawn draws the graph; ok is false when it would be too large or too tangled to be read.
func (g *Graph) drawn(state StateOf) (out string, ok bool) {
	if g.span() > maxDrawn || len(g.Nodes) == 0 {
		return "", false
	}
	l := newLayout(g)
	var labels []string
	for i := range g.Nodes {
		labels = append(labels, g.Nodes[i].label(state)+g.Nodes[i].remark())
	}
	for scale := 1; scale <= 2 && !ok; scale++ { // with room between rows less is tangled
		s := &sketch{l: l, rows: l.rows(scale), labels: labels}
		ok = s.draw() && s.width() <= maxColumns
		out = s.String()
	}
	return out, ok
}

// draw draws all layers. It is false when the lines between two of them are tangled.
func (s *sketch) draw() bool {
	x := 0
	for layer := range s.l.layers {
		width := s.column(layer, x)
		gap, fits := gutterOf(s.l, layer, s.rows)
		if !fits {
			return false
		}
		s.gutter(gap, x, x+width)
		x += width + gap.width()
	}
	return true
}

// column draws the nodes of a layer and the lines through it, and returns its width.
func (s *sketch) column(layer, x int) (width int) {
	cells := s.l.layers[layer]
	for _, i := range cells {
		width = max(width, s.long(i))
	}
	for _, i := range cells {
		if n := s.l.cells[i].node; n >= 0 {
			s.text(x, s.rows[i], s.labels[n])
		} else {
			s.dashes(x, x+width, s.rows[i])
		}
	}
	return width
}

// long is the length of what is written in a cell.
func (s *sketch) long(i int) int {
	if n := s.l.cells[i].node; n >= 0 {
		return utf8.RuneCountInString(s.labels[n])
	}
	return 0
}

// rows are the cells' places in whole rows, neighbours at least scale apart.
func (l *layout) rows(scale int) []int {
	out := make([]int, len(l.cells))
	for _, layer := range l.layers {
		last := -scale
		for _, i := range layer {
			out[i] = max(int(math.Floor(l.cells[i].y*float64(scale)+0.5)), last+scale)
			last = out[i]
		}
	}
	return out
}

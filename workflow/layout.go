package workflow

import (
	"cmp"
	"slices"
)

// maxCells is up to how many places of a drawing edges are led around the nodes in their way.
const maxCells = 3000

// cell is a place in a drawing: a node, or a point through which an edge passes a layer.
type cell struct {
	node    int // -1: a point
	layer   int
	y       float64 // in rows; cells of a layer are at least one apart
	in, out []int
}

// layout says where the nodes of a graph stand.
type layout struct {
	cells  []cell // the first ones are the nodes
	layers [][]int
	direct bool // edges go straight to their ends, whatever stands between
}

// newLayout arranges a graph in layers, with few crossings and short lines.
func newLayout(g *Graph) *layout {
	l := &layout{}
	for i := range g.Nodes {
		l.add(i, g.Nodes[i].Layer)
	}
	l.direct = g.span() > maxCells
	points := map[[2]int]int{} // by source and layer: all edges of a source share them
	for _, e := range g.Edges {
		at := e.From
		for layer := g.Nodes[e.From].Layer + 1; layer < g.Nodes[e.To].Layer && !l.direct; layer++ {
			next, ok := points[[2]int{e.From, layer}]
			if !ok {
				next = l.add(-1, layer)
				points[[2]int{e.From, layer}] = next
				l.tie(at, next)
			}
			at = next
		}
		l.tie(at, e.To)
	}
	for pass := range 8 {
		l.sortLayers(pass%2 == 0)
	}
	for pass := range 9 { // forward at last: lines run straight as far as they can
		l.place(pass%2 == 0)
	}
	l.raise()
	return l
}

// span bounds how many cells the graph needs.
func (g *Graph) span() int {
	far := make([]int, len(g.Nodes)) // layers that the edges of a node pass
	n := len(g.Nodes)
	for _, e := range g.Edges {
		if d := g.Nodes[e.To].Layer - g.Nodes[e.From].Layer - 1; d > far[e.From] {
			n += d - far[e.From]
			far[e.From] = d
		}
	}
	return n
}

func (l *layout) add(node, layer int) int {
	for len(l.layers) <= layer {
		l.layers = append(l.layers, nil)
	}
	i := len(l.cells)
	l.cells = append(l.cells, cell{node: node, layer: layer, y: float64(len(l.layers[layer]))})
	l.layers[layer] = append(l.layers[layer], i)
	return i
}

func (l *layout) tie(from, to int) {
	l.cells[from].out = append(l.cells[from].out, to)
	l.cells[to].in = append(l.cells[to].in, from)
}

// beside are the neighbours of a cell in the layers before it, or after it.
func (l *layout) beside(i int, before bool) []int {
	if before {
		return l.cells[i].in
	}
	return l.cells[i].out
}

// mean is the middle of a cell's neighbours, or where it stands when it has none.
func (l *layout) mean(i int, before bool) float64 {
	all := l.beside(i, before)
	if len(all) == 0 {
		return l.cells[i].y
	}
	sum := 0.0
	for _, n := range all {
		sum += l.cells[n].y
	}
	return sum / float64(len(all))
}

// weight is how much a cell insists on its place: long lines should be straight.
func (l *layout) weight(i int) float64 {
	if l.cells[i].node < 0 {
		return 10_000
	}
	return 1
}

// each goes through the layers, forward or back.
func (l *layout) each(forward bool, do func(layer []int)) {
	for i := range l.layers {
		if !forward {
			i = len(l.layers) - 1 - i
		}
		do(l.layers[i])
	}
}

// sortLayers puts the cells of each layer into the order of their neighbours.
func (l *layout) sortLayers(forward bool) {
	l.each(forward, func(layer []int) {
		means := map[int]float64{}
		for _, i := range layer {
			means[i] = l.mean(i, forward)
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(means[a], means[b]) })
		for y, i := range layer {
			l.cells[i].y = float64(y)
		}
	})
}

// place moves the cells of each layer towards their neighbours, in their order and at least one
// apart: neighbours that would come too close share the middle of where they want to be.
func (l *layout) place(forward bool) {
	type block struct {
		at, weight float64 // where it wants its first cell to be, if that were the layer's first
		first, n   int
	}
	l.each(forward, func(layer []int) {
		var blocks []block
		for k, i := range layer {
			blocks = append(blocks, block{l.mean(i, forward) - float64(k), l.weight(i), k, 1})
			for n := len(blocks); n > 1; n-- {
				a, b := &blocks[n-2], blocks[n-1]
				if a.at < b.at {
					break
				}
				sum := a.weight + b.weight
				a.at, a.weight, a.n = (a.at*a.weight+b.at*b.weight)/sum, sum, a.n+b.n
				blocks = blocks[:n-1]
			}
		}
		for _, b := range blocks {
			for k := b.first; k < b.first+b.n; k++ {
				l.cells[layer[k]].y = b.at + float64(k)
			}
		}
	})
}

// raise lets the highest cell stand in row 0.
func (l *layout) raise() {
	if len(l.cells) == 0 {
		return
	}
	top := l.cells[0].y
	for i := range l.cells {
		top = min(top, l.cells[i].y)
	}
	for i := range l.cells {
		l.cells[i].y -= top
	}
}

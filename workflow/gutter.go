package workflow

import (
	"cmp"
	"fmt"
	"slices"
)

// bundle is lines from cells of one layer to cells of the next, each from all to all: they
// meet in one upright.
//
//	a ─┬─► c
//	b ─┘
type bundle struct {
	from, to []int // cells
	track    int   // which upright, from the left; -1: none, it is one straight line
}

// gutter is the space between two layers.
type gutter struct {
	bundles []*bundle
	tracks  int
}

// width in characters, with arrows.
func (g *gutter) width() int { return 6 + 2*max(g.tracks-1, 0) }

// column of an upright.
func (g *gutter) column(track int) int { return 2 + 2*track }

// gutterOf bundles the lines after a layer. fits is false when their order can't be told apart in the drawing.
func gutterOf(l *layout, layer int, rows []int) (g *gutter, fits bool) {
	g = &gutter{}
	same := map[string]*bundle{}
	for _, i := range l.layers[layer] {
		to := slices.Clone(l.cells[i].out)
		if len(to) == 0 {
			continue
		}
		slices.SortFunc(to, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
		key := fmt.Sprint(to)
		if same[key] == nil {
			same[key] = &bundle{to: to}
			g.bundles = append(g.bundles, same[key])
		}
		same[key].from = append(same[key].from, i)
	}
	return g, g.arrange(rows)
}

// arrange gives each bundle its upright, so that who follows a line comes to its ends and to no others.
func (g *gutter) arrange(rows []int) bool {
	var todo []*bundle
	for _, b := range g.bundles {
		if b.track = 0; len(b.from) == 1 && len(b.to) == 1 && rows[b.from[0]] == rows[b.to[0]] {
			b.track = -1
			continue
		}
		todo = append(todo, b)
	}
	for _, b := range g.bundles {
		for _, o := range g.bundles {
			if o != b && o.tangled(b) {
				return false
			}
		}
	}
	for len(todo) > 0 {
		i := slices.IndexFunc(todo, func(b *bundle) bool {
			return !slices.ContainsFunc(todo, func(o *bundle) bool { return o != b && o.before(b, rows) })
		})
		if i < 0 {
			return false
		}
		todo[i].track = g.tracks
		g.tracks++
		todo = slices.Delete(todo, i, i+1)
	}
	return true
}

// shared counts the cells to which lines of both go.
func (b *bundle) shared(o *bundle) (n int) {
	for _, i := range b.to {
		if slices.Contains(o.to, i) {
			n++
		}
	}
	return n
}

// tangled reports whether lines of both go to a cell in such a way that one seems to go on to where only the other goes.
func (b *bundle) tangled(o *bundle) bool {
	n := b.shared(o)
	return n > 0 && (n < min(len(b.to), len(o.to)) || b.track < 0 || o.track < 0)
}

// before reports whether the upright of b must stand left of that of o: since a line of b comes from a row into which one
// of o goes, which begins where the other has ended; or since lines of b go through joints of o, to all of whose cells they go.
func (b *bundle) before(o *bundle, rows []int) bool {
	for _, x := range b.from {
		for _, y := range o.to {
			if rows[x] == rows[y] {
				return true
			}
		}
	}
	return len(b.to) > len(o.to) && b.shared(o) > 0
}

// gutter draws the lines between a layer that stands from x to left, and the next.
func (s *sketch) gutter(g *gutter, x, left int) {
	right := left + g.width()
	for _, b := range g.bundles {
		up := right - 1
		if b.track >= 0 {
			up = left + g.column(b.track)
		}
		for _, i := range b.from {
			start := left
			if n := s.long(i); n > 0 {
				start = x + n + 1
			}
			s.dashes(start, up, s.rows[i])
		}
		for _, i := range b.to {
			s.dashes(up, right, s.rows[i])
			if s.l.cells[i].node >= 0 {
				s.text(right-2, s.rows[i], "► ")
			}
		}
	}
	for _, b := range g.bundles {
		if b.track >= 0 {
			s.upright(b, s.rows, left+g.column(b.track), g.passing(b, s.rows))
		}
	}
}

// passing are the rows in which lines of other bundles come from the left and go where lines of b go.
func (g *gutter) passing(b *bundle, rows []int) map[int]bool {
	out := map[int]bool{}
	for _, o := range g.bundles {
		for _, i := range o.to {
			if o != b && o.track < b.track && slices.Contains(b.to, i) {
				out[rows[i]] = true
			}
		}
	}
	return out
}

// upright draws the line in which a bundle's lines meet, over others that cross it. left
// are rows in which lines come from the left, beside those of the bundle.
func (c *canvas) upright(b *bundle, rows []int, x int, left map[int]bool) {
	right := map[int]bool{}
	top, bottom := rows[b.from[0]], rows[b.from[0]]
	note := func(cells []int, in map[int]bool) {
		for _, i := range cells {
			in[rows[i]] = true
			top, bottom = min(top, rows[i]), max(bottom, rows[i])
		}
	}
	note(b.from, left)
	note(b.to, right)
	for y := top; y <= bottom; y++ {
		c.set(x, y, joint(left[y], right[y], y > top, y < bottom))
	}
}

// joint is the character at which lines from the left, right, above and below meet.
func joint(left, right, above, below bool) rune {
	n := 0
	for i, set := range []bool{left, right, above, below} {
		if set {
			n |= 1 << i
		}
	}
	return []rune(" ╴╶─╵┘└┴╷┐┌┬│┤├┼")[n]
}

package workflow

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/haulier/haulier"
)

// Measures of the drawing, in pixels.
const (
	svgBox     = 30.0 // height of a box
	svgRow     = 46.0 // from row to row
	svgGap     = 56.0 // between layers
	svgMargin  = 20.0
	svgLetter  = 7.4 // width of a letter, about: boxes are a little too wide rather than too narrow
	svgPad     = 24.0
	svgPoint   = 5.0 // radius of a meeting point
	svgLetters = 44  // letters of a name that are shown; all of it is in the tooltip
	svgLegend  = 30.0
)

// colours of a box.
type colours struct{ fill, line, text string }

var stateColours = map[haulier.State]colours{
	0:                 {"#f6f8fa", "#8c959f", "#24292f"},
	haulier.Blocked:   {"#f6f8fa", "#8c959f", "#57606a"},
	haulier.Scheduled: {"#fff8e1", "#c69a1d", "#6b5205"},
	haulier.Pending:   {"#fff8e1", "#c69a1d", "#6b5205"},
	haulier.Claimed:   {"#ddf0ff", "#2f81d7", "#0a4a8a"},
	haulier.Running:   {"#b9deff", "#0b69c7", "#063970"},
	haulier.Succeeded: {"#d9f5df", "#2b9348", "#155c2c"},
	haulier.Failed:    {"#ffdcd9", "#cf2a21", "#8a1410"},
	haulier.Cancelled: {"#eaeef2", "#6e7781", "#57606a"},
	haulier.Collapsed: {"#f1e7fb", "#8250df", "#55309a"},
}

// SVG is the graph as a picture that needs nothing else: no script, style sheet or font of its own. With
// state, colours and marks say how the jobs stand.
func (g *Graph) SVG(state StateOf) string {
	if state == nil {
		state = func(string) haulier.State { return 0 }
	}
	p := &picture{g: g, l: newLayout(g), state: state}
	p.measure()
	p.b.WriteString(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="13">`,
		p.width, p.height, p.width, p.height) + "\n")
	p.line(`<title>%s</title>`, escaped("workflow "+g.Name))
	p.line(`<defs><marker id="haulier-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0.8 7.5 4 0 7.2z" fill="#6e7781"/></marker></defs>`)
	p.line(`<rect width="%.0f" height="%.0f" rx="8" fill="#ffffff"/>`, p.width, p.height)
	p.line(`<g fill="none" stroke="#6e7781" stroke-width="1.4">`)
	p.edges()
	p.line(`</g>`)
	for i := range g.Nodes {
		p.node(i)
	}
	p.legend()
	p.line(`</svg>`)
	return p.b.String()
}

// picture is an SVG in the making.
type picture struct {
	g             *Graph
	l             *layout
	state         StateOf
	b             strings.Builder
	x, w          []float64 // left side and width of each layer
	width, height float64
	used          []haulier.State
}

func (p *picture) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// escaped is a text as it may stand in an element or attribute.
func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes all
	return b.String()
}

// caption is what stands in a node's box.
func (p *picture) caption(i int) string {
	n := &p.g.Nodes[i]
	s := n.label(p.state)
	if utf8.RuneCountInString(s) > svgLetters {
		s = string([]rune(s)[:svgLetters-1]) + "…"
	}
	return s
}

// measure sets the places of the layers and the size of all.
func (p *picture) measure() {
	x := svgMargin
	bottom := 0.0
	for _, layer := range p.l.layers {
		w := 2 * svgPoint
		for _, i := range layer {
			bottom = max(bottom, p.l.cells[i].y)
			if n := p.l.cells[i].node; n >= 0 && p.g.Nodes[n].Job != "" {
				w = max(w, svgPad+svgLetter*float64(utf8.RuneCountInString(p.caption(n))))
			}
		}
		p.x, p.w = append(p.x, x), append(p.w, w)
		x += w + svgGap
	}
	p.width, p.height = max(x-svgGap, svgMargin)+svgMargin, bottom*svgRow+svgBox+2*svgMargin
	for i := range p.g.Nodes {
		if s := p.state(p.g.Nodes[i].Ref); s.Valid() && !slices.Contains(p.used, s) {
			p.used = append(p.used, s)
		}
	}
	if len(p.used) > 0 {
		slices.Sort(p.used)
		p.height += svgLegend
		p.width = max(p.width, 2*svgMargin+p.legendWidth())
	}
}

// middle is the height at which lines reach a cell.
func (p *picture) middle(i int) float64 {
	return svgMargin + p.l.cells[i].y*svgRow + svgBox/2
}

// sides are the ends of a cell, at which lines come in and go out.
func (p *picture) sides(i int) (left, right float64) {
	c := &p.l.cells[i]
	left, right = p.x[c.layer], p.x[c.layer]+p.w[c.layer]
	if c.node >= 0 && p.g.Nodes[c.node].Job == "" {
		mid := (left + right) / 2
		return mid - svgPoint, mid + svgPoint
	}
	return left, right
}

func (p *picture) edges() {
	for i := range p.l.cells {
		c := &p.l.cells[i]
		left, right := p.sides(i)
		y := p.middle(i)
		if c.node < 0 {
			p.line(`<path d="M%.1f %.1fH%.1f"/>`, left, y, right)
		}
		seen := map[int]bool{}
		for _, to := range c.out {
			if !seen[to] {
				seen[to] = true
				p.edge(right, y, to, p.dashes(to))
			}
		}
	}
}

// dashes mark the lines to a job that runs when others have not succeeded.
func (p *picture) dashes(to int) string {
	n := p.l.cells[to].node
	if n < 0 {
		return ""
	}
	switch p.g.Nodes[n].When {
	case haulier.OnFailed:
		return ` stroke-dasharray="5 4" stroke="#cf2a21"`
	case haulier.OnFinished:
		return ` stroke-dasharray="5 4"`
	}
	return ""
}

// edge draws a line from a place to a cell.
func (p *picture) edge(x, y float64, to int, style string) {
	end, _ := p.sides(to)
	y2 := p.middle(to)
	if p.l.cells[to].node >= 0 {
		style += ` marker-end="url(#haulier-arrow)"`
	}
	if math.Abs(y-y2) < 1 {
		p.line(`<path d="M%.1f %.1fH%.1f"%s/>`, x, y, end, style)
		return
	}
	// The curve keeps to the gap before its end, so that it does not run behind boxes.
	begin := max(x, p.x[p.l.cells[to].layer]-svgGap)
	bend := (end - begin) / 2
	p.line(`<path d="M%.1f %.1fH%.1fC%.1f %.1f %.1f %.1f %.1f %.1f"%s/>`, x, y, begin, begin+bend, y, end-bend, y2, end, y2, style)
}

func (p *picture) node(i int) {
	n := &p.g.Nodes[i]
	s := p.state(n.Ref)
	c := stateColours[0]
	tip := n.Name
	if s.Valid() {
		c, tip = stateColours[s], tip+": "+s.String()
	}
	left, _ := p.sides(i)
	y := p.middle(i)
	p.line(`<g><title>%s</title>`, escaped(tip+n.remark()))
	if n.Job == "" {
		p.line(`<circle cx="%.1f" cy="%.1f" r="%.0f" fill="%s" stroke="%s"/></g>`, left+svgPoint, y, svgPoint, c.fill, c.line)
		return
	}
	w := p.w[n.Layer]
	border := ""
	if n.Detached {
		border = ` stroke-dasharray="4 3"`
	}
	p.line(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" rx="6" fill="%s" stroke="%s" stroke-width="1.4"%s/>`,
		left, y-svgBox/2, w, svgBox, c.fill, c.line, border)
	p.line(`<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s">%s</text></g>`, left+w/2, y+4.5, c.text, escaped(p.caption(i)))
}

// legendWidth is the room that the legend takes.
func (p *picture) legendWidth() (w float64) {
	for _, s := range p.used {
		w += p.entryWidth(s)
	}
	return w
}

func (p *picture) entryWidth(s haulier.State) float64 {
	return 30 + svgLetter*float64(len(s.String())+2)
}

// legend explains the colours that were used.
func (p *picture) legend() {
	x, y := svgMargin, p.height-svgMargin-2
	for _, s := range p.used {
		c := stateColours[s]
		p.line(`<rect x="%.1f" y="%.1f" width="12" height="12" rx="3" fill="%s" stroke="%s"/>`, x, y-10, c.fill, c.line)
		p.line(`<text x="%.1f" y="%.1f" font-size="12" fill="#57606a">%s %s</text>`, x+18, y, marks[s], s)
		x += p.entryWidth(s)
	}
}

package workflow_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/workflow"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file of testdata/graph.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "graph", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s\nrun go test ./workflow -update, if that is meant", name, got, want)
	}
}

// The drawings of all texts in testdata/graph are as they were looked at.
func TestDrawings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "graph", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			g := parse(t, string(text)).Graph()
			all := haulier.States
			states := map[string]haulier.State{}
			for i, n := range g.Nodes {
				states[n.Ref] = all[(i+5)%len(all)]
			}
			state := func(ref string) haulier.State { return states[ref] }
			golden(t, name+".txt", g.Text(nil)+"\n"+g.Text(state))
			golden(t, name+".svg", g.SVG(state))
		})
	}
}

// A picture is well-formed, needs nothing from elsewhere, and no name breaks out of it.
func TestSVG(t *testing.T) {
	w := parse(t, "workflow: [A, B]\njobs:\n  A: {matrix: {x: ['<script>alert(1)</script>', '\"&amp;', \"'\"]}}\n")
	w.Name = `"><script>`
	for _, state := range []workflow.StateOf{nil, func(string) haulier.State { return haulier.Running }} {
		svg := w.Graph().SVG(state)
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			tok, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
			el, ok := tok.(xml.StartElement)
			if !ok {
				continue
			}
			if name := el.Name.Local; name == "script" || name == "style" || name == "image" || name == "use" {
				t.Errorf("there is a <%s>", name)
			}
			for _, a := range el.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "href" {
					t.Errorf("<%s> has %s", el.Name.Local, a.Name.Local)
				}
			}
		}
	}
}

// A large graph is drawn too, without taking long.
func TestLargeGraphs(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "- j%d\n", i)
	}
	for name, text := range map[string]string{
		"a long chain":        "workflow:\n" + b.String() + "jobs:\n  j4999: {requires: [j0, j1, j2]}\n",
		"a wide matrix":       "workflow: [A, B]\njobs:\n  A: {matrix: {x: [" + strings.Join(strings.Fields(b.String())[1:], ",") + "]}}\n",
		"many jobs beside it": "workflow:\n- parallel:\n" + strings.ReplaceAll(b.String(), "- ", "  - ") + "- B\n",
	} {
		if name == "a wide matrix" {
			text = strings.ReplaceAll(text, "-,", "")
		}
		t.Run(name, func(t *testing.T) {
			g := parse(t, text).Graph()
			if len(g.Text(nil)) == 0 || len(g.SVG(nil)) == 0 {
				t.Error("nothing was drawn")
			}
		})
	}
}

// Who follows the lines of a drawing in text comes from each job to those that need it, and to no others.
func TestDrawingsMeanWhatTheySay(t *testing.T) {
	drawn := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "jobs")
		root := &tree{steps: []*tree{drawTree(t, 0, n)}}
		text := "workflow: " + root.yaml() + "\njobs:\n"
		for i := range n {
			text += fmt.Sprintf("  j%d: {", i)
			if rapid.IntRange(0, 3).Draw(t, "multiply") == 0 {
				text += "matrix: {x: [1, 2, 3]}, "
			}
			if other := rapid.IntRange(0, n*2).Draw(t, "requires"); other < i {
				text += fmt.Sprintf("requires: j%d", other)
			}
			text += "}\n"
		}
		w, err := workflow.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		g := w.Graph()
		out := g.Text(nil)
		if strings.HasPrefix(out, "   1  ") {
			return // it is a list
		}
		drawn++
		want := map[string]bool{}
		for _, e := range g.Edges {
			want[g.Nodes[e.From].Name+" to "+g.Nodes[e.To].Name] = true
		}
		got := follow(out)
		for e := range got {
			if !want[e] {
				t.Fatalf("a line leads from %s in\n%s\n%s", e, out, text)
			}
		}
		for e := range want {
			if !got[e] {
				t.Fatalf("no line leads from %s in\n%s\n%s", e, out, text)
			}
		}
	})
	if drawn < 20 {
		t.Errorf("only %d graphs were drawn, the others listed", drawn)
	}
}

var label = regexp.MustCompile(`j\d+(\[[^\]]*\])?|•`)

// steps are the ways out of a place, besides those to the left.
type way struct{ x, y, dx, dy int }

// follow reads a drawing as a person does: along the lines, to the right, and straight on where two cross.
func follow(out string) map[string]bool {
	var grid [][]rune
	for line := range strings.Lines(out) {
		grid = append(grid, []rune(strings.TrimRight(line, "\n")))
	}
	at := func(x, y int) rune {
		if y < 0 || y >= len(grid) || x < 0 || x >= len(grid[y]) {
			return ' '
		}
		return grid[y][x]
	}
	joints := []rune(" ╴╶─╵┘└┴╷┐┌┬│┤├┼") // 1 left, 2 right, 4 above, 8 below
	edges := map[string]bool{}
	for y, row := range grid {
		for _, m := range label.FindAllStringIndex(string(row), -1) {
			name := string(row)[m[0]:m[1]]
			todo := []way{{len([]rune(string(row)[:m[1]])) + 1, y, 1, 0}}
			seen := map[way]bool{}
			for len(todo) > 0 {
				p := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				c := at(p.x, p.y)
				if seen[p] || c == ' ' {
					continue
				}
				seen[p] = true
				if c == '►' {
					edges[name+" to "+label.FindString(string(grid[p.y][p.x:]))] = true
					continue
				}
				if c == '│' {
					todo = append(todo, way{p.x + p.dx, p.y + p.dy, p.dx, p.dy})
					continue
				}
				n := strings.IndexRune(string(joints), c)
				n = len([]rune(string(joints)[:max(n, 0)]))
				for _, w := range []struct{ bit, dx, dy int }{{2, 1, 0}, {4, 0, -1}, {8, 0, 1}} {
					if n&w.bit != 0 && (w.dx != -p.dx || w.dx == 0) && (w.dy != -p.dy || w.dy == 0) {
						todo = append(todo, way{p.x + w.dx, p.y + w.dy, w.dx, w.dy})
					}
				}
			}
		}
	}
	return edges
}

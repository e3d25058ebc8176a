package workflow

import (
	"github.com/haulier/haulier"
)

// Graph is a workflow as it is drawn: all its jobs, with matrices multiplied out.
type Graph struct {
	Name  string
	Nodes []Node // each after those that it needs
	Edges []Edge
}

// Node is a job, or a point at which jobs meet.
type Node struct {
	Ref      string            // Flow.Ref of the job in each run
	Name     string            // for people: test[go=1.26,os=linux]
	Job      string            // name in the text; empty: a meeting point
	Layer    int               // from 0: one more than the largest of those it needs
	Detached bool              // it is started by itself only
	When     haulier.Condition // how those it needs must have ended
}

// Edge leads from a node to one that needs it. The numbers are places in Graph.Nodes.
type Edge struct {
	From, To int
	On       haulier.Condition
}

// StateOf tells the state of the job of a run that has the ref; zero: it is not known, or not part of
// the run. It may be nil.
type StateOf func(ref string) haulier.State

// Graph of the whole workflow.
func (w *Workflow) Graph() *Graph {
	g := &Graph{Name: w.Name}
	for i, n := range w.plan(func(*job) bool { return true }) {
		v := Node{Ref: n.ref, Name: n.name, When: haulier.OnSucceeded}
		if n.job != nil {
			v.Job, v.Detached, v.When = n.job.name, n.job.detached, n.job.when
		}
		for _, x := range n.needs {
			v.Layer = max(v.Layer, g.Nodes[x.node].Layer+1)
			g.Edges = append(g.Edges, Edge{x.node, i, x.on})
		}
		g.Nodes = append(g.Nodes, v)
	}
	return g
}

// marks stand for states in front of names.
var marks = map[haulier.State]string{
	haulier.Blocked: "·", haulier.Scheduled: "◌", haulier.Pending: "○", haulier.Claimed: "◐", haulier.Running: "●",
	haulier.Succeeded: "✓", haulier.Failed: "✗", haulier.Cancelled: "–", haulier.Collapsed: "≡",
}

// label is a node's name with the mark of its state.
func (n *Node) label(state StateOf) string {
	name := n.Name
	if n.Job == "" {
		name = "•"
	}
	if state != nil {
		if m := marks[state(n.Ref)]; m != "" {
			name = m + " " + name
		}
	}
	return name
}

// remark is what is unusual about a node.
func (n *Node) remark() string {
	out := ""
	if n.Detached {
		out += " (detached)"
	}
	if n.Job != "" && n.When != haulier.OnSucceeded {
		out += " (when " + string(n.When) + ")"
	}
	return out
}

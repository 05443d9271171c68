package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Verdict is the result of a visit in one word. It selects the edge.
type Verdict string

// Done is the verdict of nodes that have only one.
const Done Verdict = "done"

// Where edges lead when the run is over.
const (
	End       = "end"     // the state holds the answer
	IDontKnow = "unknown" // no answer passed the checks
)

// Node performs one step on a state and returns a verdict.
type Node[S any] struct {
	Does     string    // short description for readers of the graph
	Verdicts []Verdict // all that Visit may return; nil is Done alone
	Visit    func(ctx context.Context, state S, v *Visit) (Verdict, error)
}

// Edge leads from a node to the next one if the verdict is On. An edge with Retry set counts against Budget.Retries.
type Edge struct {
	From  string
	On    Verdict
	To    string
	Retry bool
}

// Graph is a checked graph. It is immutable and safe for concurrent use.
type Graph[S any] struct {
	name, does, start string
	nodes             map[string]Node[S]
	edges             []Edge
}

// The errors of this package.
var (
	ErrGraph   = errors.New("flow: bad graph")
	ErrVerdict = errors.New("flow: a node gave a verdict that it had not announced")
)

// New checks and returns a graph. The error for an invalid graph is ErrGraph.
func New[S any](name, does, start string, nodes map[string]Node[S], edges ...Edge) (*Graph[S], error) {
	g := &Graph[S]{name: name, does: does, start: start, nodes: maps.Clone(nodes), edges: slices.Clone(edges)}
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrGraph, name, err)
	}
	return g, nil
}

// With returns a graph under another name with nodes added or replaced, and edges added or, for the same node and
// verdict, replaced. Edges for verdicts that a replacing node does not return are dropped.
func (g *Graph[S]) With(name string, nodes map[string]Node[S], edges ...Edge) (*Graph[S], error) {
	all := maps.Clone(g.nodes)
	maps.Copy(all, nodes)
	kept := slices.DeleteFunc(slices.Clone(g.edges), func(old Edge) bool {
		n, replaced := nodes[old.From]
		return replaced && !slices.Contains(n.verdicts(), old.On) ||
			slices.ContainsFunc(edges, func(e Edge) bool { return e.From == old.From && e.On == old.On })
	})
	return New(name, g.does, g.start, all, append(kept, edges...)...)
}

// Name returns the name of the graph.
func (g *Graph[S]) Name() string { return g.name }

// Does says in a sentence what the graph is for.
func (g *Graph[S]) Does() string { return g.does }

// Edges returns a copy of the edges in their order.
func (g *Graph[S]) Edges() []Edge { return slices.Clone(g.edges) }

// Nodes returns the names of the nodes: the start node, then in the order of the edges.
func (g *Graph[S]) Nodes() []string {
	names := []string{g.start}
	for _, e := range g.edges {
		for _, n := range []string{e.From, e.To} {
			if _, ok := g.nodes[n]; ok && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names
}

// Node returns the node with a name.
func (g *Graph[S]) Node(name string) (Node[S], bool) {
	n, ok := g.nodes[name]
	return n, ok
}

// edge returns the edge for a verdict of a node.
func (g *Graph[S]) edge(from string, on Verdict) (Edge, bool) {
	i := slices.IndexFunc(g.edges, func(e Edge) bool { return e.From == from && e.On == on })
	if i < 0 {
		return Edge{}, false
	}
	return g.edges[i], true
}

// last reports whether every edge of a node ends the run.
func (g *Graph[S]) last(node string) bool {
	return !slices.ContainsFunc(g.edges, func(e Edge) bool { return e.From == node && !terminal(e.To) })
}

func terminal(node string) bool { return node == End || node == IDontKnow }

// verdicts returns the verdicts that a node may return; Done alone if it lists none.
func (n Node[S]) verdicts() []Verdict {
	if len(n.Verdicts) == 0 {
		return []Verdict{Done}
	}
	return n.Verdicts
}

func (g *Graph[S]) check() error {
	if _, ok := g.nodes[g.start]; !ok {
		return fmt.Errorf("it starts at %q, which is no node", g.start)
	}
	if err := g.checkEdges(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		if terminal(name) || name == "" {
			return fmt.Errorf("%q is no name for a node", name)
		}
		n := g.nodes[name]
		if n.Visit == nil {
			return fmt.Errorf("node %q does nothing", name)
		}
		for _, v := range n.verdicts() {
			if _, ok := g.edge(name, v); !ok {
				return fmt.Errorf("no edge leads from node %q when it says %q", name, v)
			}
		}
	}
	return g.checkPaths()
}

// checkEdges checks that each edge starts at a node, is the only one for one of its verdicts, and leads to a node or
// ends the run.
func (g *Graph[S]) checkEdges() error {
	for i, e := range g.edges {
		n, ok := g.nodes[e.From]
		_, leads := g.nodes[e.To]
		switch {
		case !ok:
			return fmt.Errorf("an edge comes from %q, which is no node", e.From)
		case !slices.Contains(n.verdicts(), e.On):
			return fmt.Errorf("an edge goes by the verdict %q of node %q, which says %v", e.On, e.From, n.verdicts())
		case !leads && !terminal(e.To):
			return fmt.Errorf("the edge of node %q for %q leads to %q, which is no node", e.From, e.On, e.To)
		case slices.ContainsFunc(g.edges[:i], func(o Edge) bool { return o.From == e.From && o.On == e.On }):
			return fmt.Errorf("node %q has two edges for %q", e.From, e.On)
		}
	}
	return nil
}

// checkPaths checks that every node is reachable, that the end is reachable, and that every cycle contains a retry
// edge.
func (g *Graph[S]) checkPaths() error {
	reached := map[string]bool{}
	var reach func(node string)
	reach = func(node string) {
		if reached[node] {
			return
		}
		reached[node] = true
		for _, e := range g.edges {
			if e.From == node {
				reach(e.To)
			}
		}
	}
	reach(g.start)
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		if !reached[name] {
			return fmt.Errorf("nothing leads to node %q", name)
		}
	}
	if !reached[End] {
		return fmt.Errorf("nothing leads to the %s", End)
	}
	open, closed := map[string]bool{}, map[string]bool{}
	var visit func(node string) error
	visit = func(node string) error {
		if open[node] {
			return fmt.Errorf("a cycle through node %q has no edge that counts as a retry", node)
		}
		if closed[node] {
			return nil
		}
		open[node] = true
		for _, e := range g.edges {
			if e.From == node && !e.Retry {
				if err := visit(e.To); err != nil {
					return err
				}
			}
		}
		open[node], closed[node] = false, true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		if err := visit(name); err != nil {
			return err
		}
	}
	return nil
}

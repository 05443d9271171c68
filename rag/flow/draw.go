package flow

import (
	"fmt"
	"strings"
)

// Mermaid draws the graph as a Mermaid flowchart: retries are dotted.
func (g *Graph[S]) Mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "flowchart TD\n")
	for _, n := range g.drawn() {
		shape := "[%s]"
		if terminal(n) {
			shape = "([%s])"
		}
		fmt.Fprintf(&b, "    %s"+shape+"\n", "n_"+identifier(n), fmt.Sprintf("%q", plain(label(n))))
	}
	for _, e := range g.edges {
		arrow := "-->"
		if e.Retry {
			arrow = "-.->"
		}
		text := ""
		if e.On != Done {
			text = fmt.Sprintf("|%q|", plain(string(e.On)))
		}
		fmt.Fprintf(&b, "    n_%s %s%s n_%s\n", identifier(e.From), arrow, text, identifier(e.To))
	}
	return b.String()
}

// DOT draws the graph in the language of Graphviz: retries are dashed.
func (g *Graph[S]) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n    node [shape=box]\n", plain(g.name))
	for _, n := range g.drawn() {
		shape := ""
		if terminal(n) {
			shape = ", shape=oval"
		}
		fmt.Fprintf(&b, "    %q [label=%q%s]\n", plain(n), plain(label(n)), shape)
	}
	for _, e := range g.edges {
		var attributes []string
		if e.On != Done {
			attributes = append(attributes, fmt.Sprintf("label=%q", plain(string(e.On))))
		}
		if e.Retry {
			attributes = append(attributes, "style=dashed")
		}
		fmt.Fprintf(&b, "    %q -> %q", plain(e.From), plain(e.To))
		if len(attributes) > 0 {
			fmt.Fprintf(&b, " [%s]", strings.Join(attributes, ", "))
		}
		b.WriteString("\n")
	}
	return b.String() + "}\n"
}

// drawn returns the nodes and the ends that edges lead to.
func (g *Graph[S]) drawn() []string {
	names := g.Nodes()
	for _, end := range []string{End, IDontKnow} {
		for _, e := range g.edges {
			if e.To == end || end == IDontKnow && e.Retry { // where the retries end
				names = append(names, end)
				break
			}
		}
	}
	return names
}

func label(node string) string {
	switch node {
	case End:
		return "the answer"
	case IDontKnow:
		return "I don't know, once the retries are spent"
	}
	return node
}

// identifier returns a name that Mermaid takes for a node.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}

// plain returns a text without what both languages take for their own marks.
func plain(text string) string {
	return strings.NewReplacer(`"`, "'", `\`, "/", "\n", " ").Replace(text)
}

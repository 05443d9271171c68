package grammar

import (
	"slices"
	"strings"
)

const (
	// maxLeft and maxPaths bound llama.cpp's work between two characters. It looks for left recursion by following
	// every path of leftmost references recursively, without a memory, and keeps one stack per path while it generates.
	maxLeft  = 4000    // references along one path
	maxPaths = 1 << 15 // of one rule
	maxSteps = 1 << 26 // symbols looked at on all paths

	neverEnds     = "it never ends"
	leftRecursion = "left recursion"
)

// Check reads a grammar in GBNF of at most 1 MiB and reports the first reason why llama.cpp could not follow it. Errors
// are *SyntaxError, which unwraps to ErrGrammar.
func Check(source string) error {
	_, err := check(source)
	return err
}

// check also returns the rules, "root" among them.
func check(source string) (*parser, error) {
	p, err := parse(source)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(p.rules, func(r *rule) bool { return !r.defined }); at >= 0 {
		return nil, p.errorAt(p.rules[at].at, p.rules[at].name, "the rule is used here but not defined")
	}
	root, ok := p.ids["root"]
	if !ok {
		return nil, p.errorAt(len(p.src), "", "there is no rule \"root\"")
	}
	if err := p.finite(root); err != nil {
		return nil, err
	}
	return p, p.leftRecursion()
}

// finite refuses rules that root needs and no finite text satisfies.
func (p *parser) finite(root int32) error {
	finite := p.derivable(false)
	seen := make([]bool, len(p.rules))
	todo := []int32{root}
	seen[root] = true
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !finite[id] {
			r := p.rules[p.endless(id, finite)]
			return p.errorAt(r.at, r.name, neverEnds+": every alternative comes back to the rule")
		}
		for _, alt := range p.rules[id].alts {
			for _, s := range alt {
				if s.ref >= 0 && !seen[s.ref] {
					seen[s.ref] = true
					todo = append(todo, s.ref)
				}
			}
		}
	}
	return nil
}

// endless follows a rule that is not finite to the first one that comes back to itself.
func (p *parser) endless(id int32, finite []bool) int32 {
	seen := map[int32]bool{}
	for !seen[id] {
		seen[id] = true
		for _, s := range p.rules[id].alts[0] { // each alternative has a rule that is not finite
			if s.ref >= 0 && !finite[s.ref] {
				id = s.ref
				break
			}
		}
	}
	return id
}

// derivable reports for each rule whether it derives a finite text, or with empty, whether it derives the empty text.
func (p *parser) derivable(empty bool) []bool {
	type place struct{ rule, alt int32 }
	uses := make([][]place, len(p.rules))
	missing := make([][]int, len(p.rules)) // references of an alternative that are not known to be derivable yet
	done := make([]bool, len(p.rules))
	var todo []int32
	finish := func(id int32) {
		if !done[id] {
			done[id] = true
			todo = append(todo, id)
		}
	}
	for id, r := range p.rules {
		missing[id] = make([]int, len(r.alts))
		for a, alt := range r.alts {
			if empty && slices.ContainsFunc(alt, func(s symbol) bool { return s.ref < 0 }) {
				missing[id][a] = -1
				continue
			}
			for _, s := range alt {
				if s.ref >= 0 {
					missing[id][a]++
					uses[s.ref] = append(uses[s.ref], place{int32(id), int32(a)})
				}
			}
			if missing[id][a] == 0 {
				finish(int32(id))
			}
		}
	}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, u := range uses[id] {
			if missing[u.rule][u.alt]--; missing[u.rule][u.alt] == 0 {
				finish(u.rule)
			}
		}
	}
	return done
}

// edge leads from a rule to one that a text of it can begin with.
type edge struct {
	to   int32
	tail bool // nothing follows it in its alternative
}

// edges returns a rule's leftmost references, passing over those that may be empty.
func (p *parser) edges(id int32, empty []bool) []edge {
	var out []edge
	for _, alt := range p.rules[id].alts {
		for i, s := range alt {
			if s.ref < 0 {
				break
			}
			out = append(out, edge{to: s.ref, tail: i == len(alt)-1})
			if !empty[s.ref] {
				break
			}
		}
	}
	return out
}

// leftRecursion refuses what llama.cpp refuses, for which only a rule with an empty alternative may be empty, and also
// what would grow its stacks for ever: a rule that comes back to itself before the first character with symbols left.
func (p *parser) leftRecursion() error {
	direct := make([]bool, len(p.rules))
	for id, r := range p.rules {
		direct[id] = slices.ContainsFunc(r.alts, func(alt []symbol) bool { return len(alt) == 0 })
	}
	nullable := p.derivable(true)
	for _, as := range []struct {
		empty []bool
		bad   func(edge) bool
	}{
		{direct, func(edge) bool { return true }},
		{nullable, func(e edge) bool { return !e.tail }},
	} {
		w := p.walk(as.empty)
		for id := range p.rules {
			for _, e := range w.edges[id] {
				if w.component[id] == w.component[e.to] && as.bad(e) {
					return p.recursionError(w, int32(id), e.to)
				}
			}
		}
		if err := p.effort(w); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) recursionError(w *walk, from, to int32) error {
	names := []string{p.rules[from].name}
	for _, id := range w.path(to, from) {
		if name := p.rules[id].name; name != names[len(names)-1] {
			names = append(names, name)
		}
	}
	if len(names) == 1 || names[len(names)-1] != names[0] {
		names = append(names, names[0])
	}
	r := p.rules[from]
	return p.errorAt(r.at, r.name, leftRecursion+": %s", strings.Join(names, " → "))
}

// effort bounds what following the leftmost references costs llama.cpp.
func (p *parser) effort(w *walk) error {
	depth := make([]int, len(p.rules))
	paths := make([]int, len(p.rules))
	steps := make([]int, len(p.rules))
	total := 0
	for _, id := range w.order { // what a rule leads to comes before it
		r := p.rules[id]
		for _, alt := range r.alts {
			steps[id] += len(alt) + 1
			paths[id]++
		}
		for _, e := range w.edges[id] {
			if w.component[e.to] != w.component[id] {
				depth[id] = max(depth[id], depth[e.to]+1)
				paths[id] = min(paths[id]+paths[e.to], maxPaths+1)
				steps[id] = min(steps[id]+steps[e.to], maxSteps+1)
			}
		}
		total += steps[id]
		for _, limit := range []struct {
			is, max int
			what    string
		}{
			{depth[id], maxLeft, "rules begin with one another"},
			{paths[id], maxPaths, "ways to begin the rule"},
			{total, maxSteps, "steps to look for left recursion"},
		} {
			if limit.is > limit.max {
				return p.errorAt(r.at, r.name, "it is too involved: more than %d %s", limit.max, limit.what)
			}
		}
	}
	return nil
}

// walk finds the strongly connected components of the leftmost references (Tarjan's algorithm).
type walk struct {
	edges     [][]edge
	component []int32 // of each rule; rules of one component can begin with each other
	order     []int32 // every rule after the components that it leads to
	low       []int32
	index     []int32
	stack     []int32
	next      int32
}

func (p *parser) walk(empty []bool) *walk {
	n := len(p.rules)
	w := &walk{component: slices.Repeat([]int32{-1}, n), low: make([]int32, n), index: make([]int32, n)}
	for id := range n {
		w.edges = append(w.edges, p.edges(int32(id), empty))
	}
	for id := range n {
		if w.index[id] == 0 {
			w.visit(int32(id))
		}
	}
	return w
}

func (w *walk) visit(id int32) {
	w.next++
	w.index[id], w.low[id] = w.next, w.next
	w.stack = append(w.stack, id)
	for _, e := range w.edges[id] {
		switch {
		case w.index[e.to] == 0:
			w.visit(e.to)
			w.low[id] = min(w.low[id], w.low[e.to])
		case w.component[e.to] < 0:
			w.low[id] = min(w.low[id], w.index[e.to])
		}
	}
	if w.low[id] != w.index[id] {
		return
	}
	for {
		top := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		w.component[top] = id
		w.order = append(w.order, top)
		if top == id {
			return
		}
	}
}

// path returns the rules on a path within a component, both ends included.
func (w *walk) path(from, to int32) []int32 {
	before := map[int32]int32{from: -1}
	for todo := []int32{from}; len(todo) > 0; todo = todo[1:] {
		if todo[0] == to {
			break
		}
		for _, e := range w.edges[todo[0]] {
			if _, seen := before[e.to]; !seen && w.component[e.to] == w.component[from] {
				before[e.to] = todo[0]
				todo = append(todo, e.to)
			}
		}
	}
	var way []int32
	for id := to; id >= 0; id = before[id] {
		way = append(way, id)
	}
	slices.Reverse(way)
	return way
}

package grammar

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// matcher runs the rules that check returns: it tells which texts they have and makes some up.
type matcher struct {
	rules    []*rule
	root     int32
	shortest []int // symbols of the shortest derivation of each rule
}

func newMatcher(source string) (*matcher, error) {
	p, err := check(source)
	if err != nil {
		return nil, err
	}
	m := &matcher{rules: p.rules, root: p.ids["root"], shortest: make([]int, len(p.rules))}
	const far = 1 << 40
	for i := range m.shortest {
		m.shortest[i] = far
	}
	for changed := true; changed; {
		changed = false
		for id, r := range m.rules {
			for _, alt := range r.alts {
				if n := m.cost(alt); n < m.shortest[id] {
					m.shortest[id], changed = n, true
				}
			}
		}
	}
	return m, nil
}

func (m *matcher) cost(alt []symbol) int {
	n := 1
	for _, s := range alt {
		if s.ref >= 0 {
			n += m.shortest[s.ref]
		} else {
			n++
		}
	}
	return n
}

// match reports whether the whole text can be derived from root. It follows all derivations at once, as sets of places
// where a rule can end.
func (m *matcher) match(text string) bool {
	runes := []rune(text)
	type key struct {
		rule int32
		at   int
	}
	memo := map[key]map[int]bool{}
	var ends func(id int32, at int) map[int]bool
	ends = func(id int32, at int) map[int]bool {
		k := key{id, at}
		if got, ok := memo[k]; ok {
			return got
		}
		memo[k] = map[int]bool{} // no left recursion: what comes back here adds nothing
		out := map[int]bool{}
		for _, alt := range m.rules[id].alts {
			now := map[int]bool{at: true}
			for _, s := range alt {
				next := map[int]bool{}
				for i := range now {
					switch {
					case s.ref >= 0:
						for e := range ends(s.ref, i) {
							next[e] = true
						}
					case i < len(runes) && s.has(runes[i]):
						next[i+1] = true
					}
				}
				now = next
			}
			for i := range now {
				out[i] = true
			}
		}
		memo[k] = out
		return out
	}
	return ends(m.root, 0)[len(runes)]
}

// derive makes up a text. After budget rules it takes the shortest way out; before that it takes a rule's first
// alternative more often in some texts than in others, which makes repetitions long.
func (m *matcher) derive(rnd *rand.Rand, budget int) string {
	var b strings.Builder
	first := rnd.Float64()
	todo := []symbol{{ref: m.root}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.ref < 0 {
			b.WriteRune(pick(rnd, s))
			continue
		}
		budget--
		alts := m.rules[s.ref].alts
		best := alts[rnd.IntN(len(alts))]
		if rnd.Float64() < first {
			best = alts[0]
		}
		if budget < 0 {
			for _, alt := range alts {
				if m.cost(alt) < m.cost(best) {
					best = alt
				}
			}
		}
		for i := len(best) - 1; i >= 0; i-- {
			todo = append(todo, best[i])
		}
	}
	return b.String()
}

// pick returns a character that a symbol matches, among them often those at the ends of its ranges.
func pick(rnd *rand.Rand, s symbol) rune {
	r := s.chars[rnd.IntN(len(s.chars))]
	switch rnd.IntN(4) {
	case 0:
		return r[0]
	case 1:
		return r[1]
	}
	return r[0] + rnd.Int32N(r[1]-r[0]+1)
}

// newRand is seeded by a text.
func newRand(text string) *rand.Rand { return rand.New(rand.NewPCG(uint64(len(text)), 7)) }

// has reports whether the character symbol matches r.
func (s symbol) has(r rune) bool {
	return slices.ContainsFunc(s.chars, func(p [2]rune) bool { return p[0] <= r && r <= p[1] })
}

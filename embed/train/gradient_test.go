package train

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
)

var small = shape{Hidden: 12, Layers: 3, Heads: 3, Intermediate: 20, Vocab: 30, Positions: 9, Epsilon: 1e-12}

// texts are ragged: one of one token, one of the longest.
var texts = [][]int32{{3, 5, 7, 1}, {2}, {9, 29, 4, 4, 0, 11, 12, 13, 8}, {6, 1}}

// TestGradients compares every kind of parameter of every layer with central differences in float64.
func TestGradients(t *testing.T) {
	race.Skip(t)
	single := []target{{1}, {0}, {3}, {1}}
	several := []target{{1, 3}, {}, {0, 1, 2, 3}, {2}}
	for name, c := range map[string]struct {
		from    int
		o       objective
		targets []target
		dropout float64
	}{
		"all layers":  {0, objective{labels: 4}, single, 0},
		"last two":    {1, objective{labels: 4, weights: []float64{1, .5, 2, 3}}, single, 0},
		"last":        {2, objective{labels: 4}, single, 0},
		"head":        {3, objective{labels: 4}, single, 0},
		"multi-label": {1, objective{labels: 4, multi: true}, several, 0},
		"weighted":    {2, objective{labels: 4, multi: true, weights: []float64{1, .5, 2, 3}}, several, 0},
		"dropout":     {1, objective{labels: 4}, single, .3},
	} {
		t.Run(name, func(t *testing.T) {
			n := random[float64](plain[float64]{}, small, 4, c.from)
			n.dropout = dropout{rate: c.dropout, seed: 5, step: 3}
			b := newBatch(texts)
			run := func() (float64, *pass[float64], []float64) {
				n.arena.reset()
				x, err := n.features(b)
				if err != nil {
					t.Fatal(err)
				}
				p, err := n.decide(x, b)
				if err != nil {
					t.Fatal(err)
				}
				l, d := loss(&c.o, p.logits, c.targets)
				return l, p, d
			}
			_, p, d := run()
			if err := n.gradients(p, d); err != nil {
				t.Fatal(err)
			}
			compare(t, n, func() float64 { l, _, _ := run(); return l })
		})
	}
}

// compare checks the gradients of n against central differences of value.
func compare(t *testing.T, n *network[float64], value func() float64) {
	t.Helper()
	const step = 1e-5
	for k, p := range n.params() {
		var worst, length float64
		for i := 0; i < len(p.data); i += 1 + len(p.data)/40 {
			x := p.data[i]
			p.data[i] = x + step
			up := value()
			p.data[i] = x - step
			down := value()
			p.data[i] = x
			numeric := (up - down) / (2 * step)
			worst = max(worst, math.Abs(numeric-p.grad[i]))
			length = max(length, math.Abs(numeric))
		}
		if !(worst < 1e-8+1e-6*length) {
			t.Errorf("%s: off by %.3g, largest %.3g", fmt.Sprintf("%d %s", k, p.name), worst, length)
		}
	}
}

// TestSpanGradients compares the gradients of a reader with token types, or with MPNet's bias by distance.
func TestSpanGradients(t *testing.T) {
	race.Skip(t)
	windows := []window{{start: 1, end: 2}, {}, {start: 8, end: 8}, {start: 0, end: 0}}
	for name, c := range map[string]struct {
		from    int
		dropout float64
		biased  bool
	}{"all layers": {0, 0, false}, "last": {2, 0, false}, "head": {3, 0, false}, "dropout": {1, .3, false},
		"by distance": {0, 0, true}} {
		t.Run(name, func(t *testing.T) {
			n := random[float64](plain[float64]{}, small, 4, c.from)
			n.first = false
			n.addSpanHead(9)
			for i := range 2 * n.Hidden {
				n.types = append(n.types, math.Sin(float64(i)))
			}
			for i := range n.Heads * 19 {
				if c.biased {
					n.bias = append(n.bias, 3*math.Cos(float64(i)))
				}
			}
			n.dropout = dropout{rate: c.dropout, seed: 5, step: 3}
			b := newBatch(texts)
			for i := range b.ids {
				b.types = append(b.types, uint8(i%2))
			}
			run := func() (float64, *pass[float64], []float64) {
				n.arena.reset()
				x, err := n.features(b)
				if err != nil {
					t.Fatal(err)
				}
				p, err := n.decide(x, b)
				if err != nil {
					t.Fatal(err)
				}
				l, d := spanLoss(p.logits, b.starts, windows)
				return l, p, d
			}
			_, p, d := run()
			if err := n.gradients(p, d); err != nil {
				t.Fatal(err)
			}
			compare(t, n, func() float64 { l, _, _ := run(); return l })
		})
	}
}

// TestRankingGradients: two of the contexts are the same one.
func TestRankingGradients(t *testing.T) {
	race.Skip(t)
	for _, first := range []bool{false, true} {
		n := random[float64](plain[float64]{}, small, 0, 1)
		b := newBatch(append(texts, [][]int32{{8, 3}, {1, 2, 3, 4, 5}, {8, 3}, {17}}...))
		run := func() (float64, *pool[float64], []*tape[float64], []float64) {
			n.arena.reset()
			x, err := n.features(b)
			if err != nil {
				t.Fatal(err)
			}
			var tapes []*tape[float64]
			for at := n.from; at < n.Layers; at++ {
				var rows []int
				if at == n.Layers-1 && first {
					rows = b.firsts()
				}
				var s *tape[float64]
				x, s = n.forward(at, x, b, rows)
				tapes = append(tapes, s)
			}
			p := n.sentences(x, b, first)
			half := 4 * n.Hidden
			l, dq, dc := ranking(p.y[:half], p.y[half:], n.Hidden, []int{0, 1, 0, 3}, 5)
			return l, p, tapes, append(dq, dc...)
		}
		_, p, tapes, d := run()
		x := n.sentencesBack(p, d, b)
		for i := len(tapes) - 1; i >= 0; i-- {
			x = n.backward(n.from+i, x, tapes[i])
		}
		if n.err != nil {
			t.Fatal(n.err)
		}
		compare(t, n, func() float64 { l, _, _, _ := run(); return l })
	}
}

package train

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// head is what a network computes from the rows of its last layer.
type head[T number] interface {
	params() []*param[T]
	// decide returns the logits of rows of the last layer, and a function that writes the head's gradients for the
	// gradient of the logits and returns the gradient of the rows, or nil where only the head is trained.
	decide(n *network[T], x []T, rows int) (logits []T, back func(d []T) []T)
}

// classHead is the head of DistilBERT for classes of texts: pre_classifier, ReLU, classifier on the first token.
type classHead[T number] struct{ pre, classifier linear[T] }

func (h *classHead[T]) params() []*param[T] {
	return []*param[T]{h.pre.weight, h.pre.bias, h.classifier.weight, h.classifier.bias}
}

func (h *classHead[T]) decide(n *network[T], x []T, rows int) ([]T, func(d []T) []T) {
	hidden := n.apply(h.pre, x, rows)
	for i, v := range hidden {
		hidden[i] = max(v, 0)
	}
	mask := n.drop(hidden, n.Layers, 2)
	return n.apply(h.classifier, hidden, rows), func(d []T) []T {
		dh := n.masked(n.back(h.classifier, d, hidden, rows), mask)
		for i, v := range hidden {
			if v == 0 {
				dh[i] = 0
			}
		}
		return n.headBack(h.pre, dh, x, rows)
	}
}

// spanHead is the head of all families for extractive question answering: two logits of each token, of the
// answer's start and of its end.
type spanHead[T number] struct{ outputs linear[T] }

func (h *spanHead[T]) params() []*param[T] { return []*param[T]{h.outputs.weight, h.outputs.bias} }

func (h *spanHead[T]) decide(n *network[T], x []T, rows int) ([]T, func(d []T) []T) {
	return n.apply(h.outputs, x, rows), func(d []T) []T { return n.headBack(h.outputs, d, x, rows) }
}

// headBack writes the gradients of a head's first matrix and returns that of the rows that it reads.
func (n *network[T]) headBack(l linear[T], d, x []T, rows int) []T {
	if n.from == n.Layers {
		n.grow(l, d, x, rows)
		return nil
	}
	return n.back(l, d, x, rows)
}

// addClassHead adds DistilBERT's head for classes to the network, initialised with N(0, 0.02²).
func (n *network[T]) addClassHead(labels int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	n.first = true
	n.head = &classHead[T]{pre: randomLinear[T](r, "pre_classifier", n.Hidden, n.Hidden),
		classifier: randomLinear[T](r, "classifier", labels, n.Hidden)}
	n.grads()
}

// addSpanHead adds the head of a reader to the network, initialised with N(0, 0.02²).
func (n *network[T]) addSpanHead(seed uint64) {
	n.head = &spanHead[T]{randomLinear[T](rand.New(rand.NewPCG(seed, 0)), "qa_outputs", 2, n.Hidden)}
	n.grads()
}

func randomLinear[T number](r *rand.Rand, name string, out, in int) linear[T] {
	w := &param[T]{name: name + ".weight", rows: out, cols: in, data: make([]T, out*in), decays: true, head: true}
	for i := range w.data {
		w.data[i] = T(.02 * r.NormFloat64())
	}
	return linear[T]{w, &param[T]{name: name + ".bias", cols: out, data: make([]T, out), head: true}}
}

// grads allocates the gradient of every trained parameter.
func (n *network[T]) grads() {
	for _, p := range n.params() {
		p.grad = make([]T, len(p.data))
	}
}

// layer computes a layer's output, of which the last one has only the rows that are read.
func (n *network[T]) layer(at int, x []T, b *batch) ([]T, *tape[T]) {
	if n.first && at == n.Layers-1 {
		return n.forward(at, x, b, b.firsts())
	}
	return n.forward(at, x, b, nil)
}

// features returns the input of the first trained layer, or, where only the head is trained, the rows that it reads.
// Nothing is dropped in frozen layers, so that it does not matter whether their output is kept.
func (n *network[T]) features(b *batch) ([]T, error) {
	defer func(rate float64) { n.dropout.rate = rate }(n.dropout.rate)
	n.dropout.rate = 0
	x, err := n.embed(b)
	if err != nil {
		return nil, err
	}
	for at := 0; at < n.from; at++ {
		x, _ = n.layer(at, x, b)
	}
	return x, n.err
}

// pass is a forward pass from features to logits.
type pass[T number] struct {
	tapes  []*tape[T]
	back   func(d []T) []T // of the head
	logits []T
}

// trained runs the trained layers on features.
func (n *network[T]) trained(x []T, b *batch) ([]T, []*tape[T]) {
	var tapes []*tape[T]
	for at := n.from; at < n.Layers; at++ {
		var s *tape[T]
		x, s = n.layer(at, x, b)
		tapes = append(tapes, s)
	}
	return x, tapes
}

// trainedBack runs the backward pass of trained from the gradient of its output.
func (n *network[T]) trainedBack(d []T, tapes []*tape[T]) error {
	for i, s := range slices.Backward(tapes) {
		d = n.backward(n.from+i, d, s)
	}
	return n.err
}

// decide runs the trained layers and the head on features.
func (n *network[T]) decide(x []T, b *batch) (*pass[T], error) {
	x, tapes := n.trained(x, b)
	logits, back := n.head.decide(n, x, len(x)/n.Hidden)
	return &pass[T]{tapes, back, logits}, n.err
}

// gradients runs the backward pass of decide.
func (n *network[T]) gradients(p *pass[T], d []T) error { return n.trainedBack(p.back(d), p.tapes) }

// set is a tokenised part of the data.
type set struct {
	ids      [][]int32
	types    [][]uint8   // token types, per text; nil: all 0
	features [][]float32 // per text: the input of the first trained layer; nil if it is not kept
}

// batch returns some texts of the set.
func (s *set) batch(items []int) *batch {
	texts := make([][]int32, len(items))
	for i, at := range items {
		texts[i] = s.ids[at]
	}
	b := newBatch(texts)
	if s.types != nil {
		for _, at := range items {
			b.types = append(b.types, s.types[at]...)
		}
	}
	return b
}

// featuresOf returns some texts of a set with their features.
func featuresOf(n *network[float32], s *set, items []int) ([]float32, *batch, error) {
	n.arena.reset()
	b := s.batch(items)
	if s.features == nil {
		x, err := n.features(b)
		return x, b, err
	}
	size := 0
	for _, at := range items {
		size += len(s.features[at])
	}
	x := n.arena.get(size)
	to := x
	for _, at := range items {
		to = to[copy(to, s.features[at]):]
	}
	return x, b, nil
}

// passOf runs the trained layers and the head on some texts of a set.
func passOf(n *network[float32], s *set, items []int) (*pass[float32], error) {
	x, b, err := featuresOf(n, s, items)
	if err != nil {
		return nil, err
	}
	return n.decide(x, b)
}

// logitsOf computes the logits of a set, without dropout.
func logitsOf(n *network[float32], s *set) ([]float32, error) {
	rate := n.dropout.rate
	n.dropout.rate = 0
	defer func() { n.dropout.rate = rate }()
	var out []float32
	for _, items := range portions(s.ids) {
		p, err := passOf(n, s, items)
		if err != nil {
			return nil, err
		}
		out = append(out, p.logits...)
	}
	return out, nil
}

// checkTypes refuses a token type that the model has no embedding for.
func (n *network[T]) checkTypes(types [][]uint8) error {
	for _, row := range types {
		for _, kind := range row {
			if count := len(n.types) / n.Hidden; int(kind) >= count {
				return fmt.Errorf("%w: the tokenizer gives token type %d, the model has %d types", ErrModel, kind,
					count)
			}
		}
	}
	return nil
}

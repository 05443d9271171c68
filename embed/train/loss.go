package train

import "math"

// headTape holds the inputs of the head's backward pass.
type headTape[T number] struct {
	first, hidden []T // the first tokens' rows; after ReLU and dropout
	mask          []T
}

// decide returns the classifier on the first tokens' rows: texts × labels.
func (n *network[T]) decide(first []T, texts int) ([]T, *headTape[T]) {
	s := &headTape[T]{first: first, hidden: n.apply(n.pre, first, texts)}
	for i, v := range s.hidden {
		s.hidden[i] = max(v, 0)
	}
	s.mask = n.drop(s.hidden, n.Layers, 2)
	return n.apply(n.classifier, s.hidden, texts), s
}

// headBack writes the head's gradients and returns that of the first tokens' rows.
func (n *network[T]) headBack(d []T, s *headTape[T], texts int) []T {
	dh := n.masked(n.back(n.classifier, d, s.hidden, texts), s.mask)
	for i, v := range s.hidden {
		if v == 0 {
			dh[i] = 0
		}
	}
	if n.from == n.Layers {
		n.grow(n.pre, dh, s.first, texts)
		return nil
	}
	return n.back(n.pre, dh, s.first, texts)
}

// target holds the labels of a text: class ids, exactly one unless the labels do not exclude each other.
type target []int32

// objective turns logits into a loss and its gradient.
type objective struct {
	labels  int
	multi   bool      // binary cross-entropy of each label; else softmax cross-entropy
	weights []float64 // per label; nil: all 1
}

func (o *objective) weight(label int) float64 {
	if o.weights == nil {
		return 1
	}
	return o.weights[label]
}

// loss returns the mean loss of a batch and its gradient. One label: −log softmax(z)[label], weighted by class and
// divided by the sum of the weights. Several: the mean over texts and labels of the binary cross-entropy, that of a
// label that is present times its class weight.
func loss[T number](o *objective, logits []T, targets []target) (float64, []T) {
	d := make([]T, len(logits))
	var sum, weight float64
	for i, t := range targets {
		z, g := logits[i*o.labels:][:o.labels], d[i*o.labels:][:o.labels]
		if o.multi {
			sum += logistic(o, z, g, t)
			weight += float64(o.labels)
			continue
		}
		w := o.weight(int(t[0]))
		sum += w * crossEntropy(z, g, int(t[0]), w)
		weight += w
	}
	for i, v := range d {
		d[i] = T(float64(v) / weight)
	}
	return sum / weight, d
}

// crossEntropy returns −log softmax(z)[label] and writes its gradient times w to g.
func crossEntropy[T number](z, g []T, label int, w float64) float64 {
	top := z[0]
	for _, v := range z {
		top = max(top, v)
	}
	var sum float64
	for _, v := range z {
		sum += math.Exp(float64(v - top))
	}
	for j, v := range z {
		p := math.Exp(float64(v-top)) / sum
		if j == label {
			p--
		}
		g[j] = T(w * p)
	}
	return math.Log(sum) - float64(z[label]-top)
}

// logistic returns the sum over labels of the binary cross-entropy and writes its gradient to g.
func logistic[T number](o *objective, z, g []T, present target) float64 {
	var sum float64
	for j, v := range z {
		x := float64(v) // −log(1 − σ(x)) = max(x, 0) + log(1 + e^−|x|)
		sum += max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		g[j] = T(1 / (1 + math.Exp(-x)))
	}
	for _, j := range present {
		x, w := float64(z[j]), o.weight(int(j))
		both := max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		sum += w*(both-x) - both
		g[j] = T(w * (1/(1+math.Exp(-x)) - 1))
	}
	return sum
}

// features returns the input of the first trained layer, or, where only the head is trained, the rows of the first
// tokens.
func (n *network[T]) features(b *batch) ([]T, error) {
	x, err := n.embed(b)
	if err != nil {
		return nil, err
	}
	for at := 0; at < n.from; at++ {
		var rows []int
		if at == n.Layers-1 {
			rows = b.firsts()
		}
		x, _ = n.forward(at, x, b, rows)
	}
	return x, n.err
}

// pass is a forward pass from features to logits.
type pass[T number] struct {
	tapes  []*tape[T]
	head   *headTape[T]
	logits []T
}

// classify runs the trained layers and the head on features.
func (n *network[T]) classify(x []T, b *batch) (*pass[T], error) {
	p := &pass[T]{}
	for at := n.from; at < n.Layers; at++ {
		var rows []int
		if at == n.Layers-1 {
			rows = b.firsts()
		}
		var s *tape[T]
		x, s = n.forward(at, x, b, rows)
		p.tapes = append(p.tapes, s)
	}
	p.logits, p.head = n.decide(x, b.texts())
	return p, n.err
}

// gradients runs the backward pass of classify.
func (n *network[T]) gradients(p *pass[T], d []T, texts int) error {
	x := n.headBack(d, p.head, texts)
	for i := len(p.tapes) - 1; i >= 0; i-- {
		x = n.backward(n.from+i, x, p.tapes[i])
	}
	return n.err
}

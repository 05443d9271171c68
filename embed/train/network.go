package train

import (
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/kernels/cpu/training"
)

// number is what a network computes in: float32, or float64 in the tests that compare with finite differences.
type number interface{ float32 | float64 }

// arithmetic is what a network needs of the machine. All matrices are row-major and contiguous.
type arithmetic[T number] interface {
	linear(y, x, w []T, m, n, k int) error    // y[m×n] = x[m×k] · w[n×k]ᵀ
	weights(dw, dy, x []T, m, n, k int) error // dw[n×k] = dy[m×n]ᵀ · x[m×k]
	input(dx, dy, w []T, m, n, k int) error   // dx[m×k] = dy[m×n] · w[n×k]
	gelu(y, slope []T)                        // y = GELU(y), slope = its derivative there
	adam(w, g, m, v []T, s training.AdamStep)
	attendHead(a training.AttendedHead, q, k, v, bias, p, context []T)
	attendHeadBack(a training.AttendedHead, q, k, v, p, dc, dq, dk, dv []T)
	each(tasks int, fn func(task int)) error // runs fn for 0 … tasks−1 on the threads
}

// shape is the size of an encoder.
type shape struct {
	Hidden, Layers, Heads, Intermediate, Vocab int
	Positions                                  int     // the longest text
	Epsilon                                    float64 // of LayerNorm
}

func (s shape) headDim() int { return s.Hidden / s.Heads }

// param is a trained tensor: rows × cols, or a vector of cols (rows = 0).
type param[T number] struct {
	name       string // in a file, without a prefix
	rows, cols int
	data, grad []T // grad is nil in what is frozen
	decays     bool
	head       bool // belongs to the head
}

// linear is y = x·weightᵀ + bias.
type linear[T number] struct{ weight, bias *param[T] }

// norm is LayerNorm's gain and shift.
type norm[T number] struct{ gamma, beta *param[T] }

// layer is one transformer layer. kv stacks the projections to keys and values: 2·Hidden rows.
type layer[T number] struct {
	q, kv, out linear[T]
	attnNorm   norm[T]
	up, down   linear[T]
	outNorm    norm[T]
}

// network is an encoder with its head, and the scratch of one batch.
type network[T number] struct {
	shape
	words, positions []T // Vocab × Hidden, (at least offset + Positions) × Hidden
	offset           int // row of positions of a text's first token
	embedNorm        norm[T]
	layers           []layer[T]
	types            []T     // embeddings of the token types, × Hidden; nil: none, or folded into the positions
	buckets, bias    []T     // MPNet's table of buckets × Heads, and what it adds by distance: Heads × odd; or nil
	head             head[T] // nil in an encoder
	first            bool    // of the last layer only the rows of the texts' first tokens are read
	family           string  // model_type
	names            onnx.Names
	from             int // the first trained layer; Layers: only the head is
	dropout          dropout

	arithmetic[T]
	err   error // the first error of the arithmetic
	arena arena[T]
}

// batch is a ragged batch: text i has the tokens ids[starts[i]:starts[i+1]], at least one.
type batch struct {
	ids    []int32
	types  []uint8 // token types; nil: all 0
	starts []int
}

func (b *batch) texts() int { return len(b.starts) - 1 }

func newBatch(texts [][]int32) *batch {
	b := &batch{starts: make([]int, 1, len(texts)+1)}
	for _, t := range texts {
		b.ids = append(b.ids, t...)
		b.starts = append(b.starts, len(b.ids))
	}
	return b
}

// firsts returns the rows of the texts' first tokens.
func (b *batch) firsts() []int { return b.starts[:b.texts()] }

// arena hands out the scratch of one batch; what it hands out is zero. It grows in blocks, and makes one of them for
// the next batch.
type arena[T number] struct {
	blocks [][]T // what is in use lies in the last one
	used   int   // of that
	total  int   // handed out since the last reset
}

func (a *arena[T]) reset() {
	if len(a.blocks) > 1 {
		a.blocks = [][]T{make([]T, a.total+a.total/8)}
	}
	a.used, a.total = 0, 0
}

func (a *arena[T]) get(n int) []T {
	a.total += n
	if len(a.blocks) == 0 || n > len(a.blocks[len(a.blocks)-1])-a.used {
		a.blocks = append(a.blocks, make([]T, max(n, a.total/2, 1<<16)))
		a.used = 0
	}
	s := a.blocks[len(a.blocks)-1][a.used:][:n:n]
	a.used += n
	clear(s)
	return s
}

// note keeps the first error.
func (n *network[T]) note(err error) {
	if n.err == nil {
		n.err = err
	}
}

// grain is how many rows, or columns, a task of row-wise work takes.
const grain = 64

// spans runs fn for [0, count) in spans of grain on the threads.
func (n *network[T]) spans(count int, fn func(i0, i1 int)) {
	n.note(n.each((count+grain-1)/grain, func(task int) { fn(task*grain, min(count, (task+1)*grain)) }))
}

// apply is y = x·Wᵀ + b for rows of x.
func (n *network[T]) apply(l linear[T], x []T, rows int) []T {
	out, in := l.weight.rows, l.weight.cols
	y := n.arena.get(rows * out)
	n.note(n.linear(y, x, l.weight.data, rows, out, in))
	bias := l.bias.data
	n.spans(rows, func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			row := y[i*out:][:len(bias)]
			for j, b := range bias {
				row[j] += b
			}
		}
	})
	return y
}

// back adds up the gradients of l for dy, and returns dx.
func (n *network[T]) back(l linear[T], dy, x []T, rows int) []T {
	out, in := l.weight.rows, l.weight.cols
	n.grow(l, dy, x, rows)
	dx := n.arena.get(rows * in)
	n.note(n.input(dx, dy, l.weight.data, rows, out, in))
	return dx
}

// grow writes the gradients of l's weight and bias.
func (n *network[T]) grow(l linear[T], dy, x []T, rows int) {
	out, in := l.weight.rows, l.weight.cols
	n.note(n.weights(l.weight.grad, dy, x, rows, out, in))
	n.spans(out, func(j0, j1 int) {
		sum := l.bias.grad[j0:j1]
		clear(sum)
		for i := range rows {
			for j, d := range dy[i*out+j0:][:len(sum)] {
				sum[j] += d
			}
		}
	})
}

// normalised is what LayerNorm's backward pass needs: the normalised rows, and one over each row's deviation.
type normalised[T number] struct{ rows, scale []T }

// normalise is LayerNorm of x + add, written to a new matrix; add may be nil.
func (n *network[T]) normalise(l norm[T], x, add []T, rows int) ([]T, normalised[T]) {
	h := n.Hidden
	y, hat, scale := n.arena.get(rows*h), n.arena.get(rows*h), n.arena.get(rows)
	n.spans(rows, func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			sum := hat[i*h:][:h]
			copy(sum, x[i*h:])
			if add != nil {
				for j, a := range add[i*h:][:len(sum)] {
					sum[j] += a
				}
			}
			scale[i] = standardise(sum, n.Epsilon)
			out, gamma, beta := y[i*h:][:len(sum)], l.gamma.data[:len(sum)], l.beta.data[:len(sum)]
			for j, v := range sum {
				out[j] = v*gamma[j] + beta[j]
			}
		}
	})
	return y, normalised[T]{hat, scale}
}

// standardise gives row the mean 0 and the variance 1, and returns what it multiplied by.
func standardise[T number](row []T, epsilon float64) T {
	var sum float64
	for _, v := range row {
		sum += float64(v)
	}
	mean := sum / float64(len(row))
	var squares float64
	for _, v := range row {
		d := float64(v) - mean
		squares += d * d
	}
	scale := 1 / math.Sqrt(squares/float64(len(row))+epsilon)
	for j, v := range row {
		row[j] = T((float64(v) - mean) * scale)
	}
	return T(scale)
}

// normaliseBack writes the gradients of gain and shift and returns the gradient of the normalised sum.
func (n *network[T]) normaliseBack(l norm[T], dy []T, s normalised[T], rows int) []T {
	h := n.Hidden
	n.spans(h, func(j0, j1 int) {
		gamma, beta := l.gamma.grad[j0:j1], l.beta.grad[j0:j1]
		clear(gamma)
		clear(beta)
		for i := range rows {
			hat := s.rows[i*h+j0:][:len(gamma)]
			for j, d := range dy[i*h+j0:][:len(gamma)] {
				gamma[j] += d * hat[j]
				beta[j] += d
			}
		}
	})
	dx := n.arena.get(rows * h)
	n.spans(rows, func(i0, i1 int) {
		for i := i0; i < i1; i++ {
			d, hat, out := dy[i*h:][:h], s.rows[i*h:][:h], dx[i*h:][:h]
			var mean, along float64
			for j, g := range l.gamma.data[:h] {
				v := float64(d[j] * g)
				mean += v
				along += v * float64(hat[j])
			}
			mean, along = mean/float64(h), along/float64(h)
			for j, g := range l.gamma.data[:h] {
				out[j] = s.scale[i] * T(float64(d[j]*g)-mean-float64(hat[j])*along)
			}
		}
	})
	return dx
}

// gather copies rows of x.
func (n *network[T]) gather(x []T, rows []int, cols int) []T {
	out := n.arena.get(len(rows) * cols)
	for i, r := range rows {
		copy(out[i*cols:][:cols], x[r*cols:])
	}
	return out
}

// add adds b to a.
func (n *network[T]) add(a, b []T) {
	const part = 1 << 14
	n.note(n.each((len(a)+part-1)/part, func(task int) {
		i0, i1 := task*part, min(len(a), (task+1)*part)
		to := a[i0:i1]
		for i, v := range b[i0:i1] {
			to[i] += v
		}
	}))
}

// params returns the trained tensors, in the order of the layers.
func (n *network[T]) params() []*param[T] {
	var all []*param[T]
	for i := n.from; i < len(n.layers); i++ {
		all = append(all, n.layers[i].params()...)
	}
	if n.head != nil {
		all = append(all, n.head.params()...)
	}
	return all
}

func (l *layer[T]) params() []*param[T] {
	return []*param[T]{l.q.weight, l.q.bias, l.kv.weight, l.kv.bias, l.out.weight, l.out.bias, l.attnNorm.gamma,
		l.attnNorm.beta, l.up.weight, l.up.bias, l.down.weight, l.down.bias, l.outNorm.gamma, l.outNorm.beta}
}

// addType adds the embedding of the token type of token i.
func (n *network[T]) addType(row []T, b *batch, i int) {
	kind := 0
	if b.types != nil {
		kind = int(b.types[i])
	}
	for j, v := range n.types[kind*n.Hidden:][:len(row)] {
		row[j] += v
	}
}

// embed returns the normalised sum of word, position and type embeddings.
func (n *network[T]) embed(b *batch) ([]T, error) {
	h := n.Hidden
	x := n.arena.get(len(b.ids) * h)
	for t := range b.texts() {
		if length := b.starts[t+1] - b.starts[t]; length > n.Positions || length < 1 {
			return nil, fmt.Errorf("train: a text of %d tokens, expected 1 to %d", length, n.Positions)
		}
		for i := b.starts[t]; i < b.starts[t+1]; i++ {
			if id := int(b.ids[i]); id < 0 || id >= n.Vocab {
				return nil, fmt.Errorf("train: token %d is not below the vocabulary of %d", id, n.Vocab)
			}
			row, word := x[i*h:][:h], n.words[int(b.ids[i])*h:][:h]
			for j, p := range n.positions[(n.offset+i-b.starts[t])*h:][:h] {
				row[j] = word[j] + p
			}
			if n.types != nil {
				n.addType(row, b, i)
			}
		}
	}
	y, _ := n.normalise(n.embedNorm, x, nil, len(b.ids))
	return y, n.err
}

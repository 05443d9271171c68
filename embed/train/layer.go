package train

import (
	"math"

	"github.com/sluice-rag/sluice/kernels/cpu/training"
)

// tape holds what a layer's backward pass needs from its forward pass.
type tape[T number] struct {
	batch      *batch
	rows       []int // rows of the layer's output; nil: all
	x, xq      []T   // input, and its rows; the same if rows is nil
	q, kv      []T
	p          []T // attention's probabilities, per text and head: queries × length
	context    []T
	y, up      []T // after attention's LayerNorm; after GELU
	slope      []T // of GELU
	attn, full normalised[T]
	masks      [2][]T // dropout masks of the outputs of attention and the feed-forward network; nil without dropout
}

// queries returns the number of rows of text t that the layer computes.
func (s *tape[T]) queries(t int) int {
	if s.rows != nil {
		return 1
	}
	return s.batch.starts[t+1] - s.batch.starts[t]
}

// attention returns the arguments of the attention kernel for one head of text t.
func (n *network[T]) attention(s *tape[T], t int) training.AttendedHead {
	return training.AttendedHead{Queries: s.queries(t), Length: s.batch.starts[t+1] - s.batch.starts[t],
		Dim:     n.headDim(),
		QStride: n.Hidden, KVStride: 2 * n.Hidden, Scale: float32(1 / math.Sqrt(float64(n.headDim())))}
}

// starts returns the offsets of each text's queries and of its probabilities; the last entries are the ends.
func (n *network[T]) starts(s *tape[T]) (query, p []int) {
	query, p = make([]int, s.batch.texts()+1), make([]int, s.batch.texts()+1)
	for t := range s.batch.texts() {
		a := n.attention(s, t)
		query[t+1], p[t+1] = query[t]+a.Queries, p[t]+n.Heads*a.Queries*a.PStride()
	}
	return query, p
}

// forward computes one layer. If rows are given, one per text, only their output is computed, because only these rows
// of the last layer reach the head.
func (n *network[T]) forward(at int, x []T, b *batch, rows []int) ([]T, *tape[T]) {
	l := &n.layers[at]
	s := &tape[T]{batch: b, rows: rows, x: x, xq: x}
	m, mq := len(b.ids), len(b.ids)
	if rows != nil {
		s.xq, mq = n.gather(x, rows, n.Hidden), len(rows)
	}
	s.q, s.kv = n.apply(l.q, s.xq, mq), n.apply(l.kv, x, m)
	n.attend(s, mq)
	sum := n.apply(l.out, s.context, mq)
	s.masks[0] = n.drop(sum, at, 0)
	s.y, s.attn = n.normalise(l.attnNorm, sum, s.xq, mq)
	s.up = n.apply(l.up, s.y, mq)
	s.slope = n.arena.get(len(s.up))
	n.spans(mq, func(i0, i1 int) { w := n.Intermediate; n.gelu(s.up[i0*w:i1*w], s.slope[i0*w:i1*w]) })
	sum = n.apply(l.down, s.up, mq)
	s.masks[1] = n.drop(sum, at, 1)
	out, full := n.normalise(l.outNorm, sum, s.y, mq)
	s.full = full
	return out, s
}

// backward computes the gradients of layer at from the gradient of its output, and returns the gradient of its input,
// or nil for the first trained layer, where it is not needed.
func (n *network[T]) backward(at int, d []T, s *tape[T]) []T {
	l := &n.layers[at]
	m, mq := len(s.batch.ids), len(s.xq)/n.Hidden
	dy := n.normaliseBack(l.outNorm, d, s.full, mq)
	du := n.back(l.down, n.masked(dy, s.masks[1]), s.up, mq)
	n.spans(mq, func(i0, i1 int) {
		part := du[i0*n.Intermediate : i1*n.Intermediate]
		for i, v := range s.slope[i0*n.Intermediate:][:len(part)] {
			part[i] *= v
		}
	})
	n.add(dy, n.back(l.up, du, s.y, mq))
	dxq := n.normaliseBack(l.attnNorm, dy, s.attn, mq)
	dc := n.back(l.out, n.masked(dxq, s.masks[0]), s.context, mq)
	dq, dkv := n.attendBack(s, dc)
	if at == n.from {
		n.grow(l.q, dq, s.xq, mq)
		n.grow(l.kv, dkv, s.x, m)
		return nil
	}
	n.add(dxq, n.back(l.q, dq, s.xq, mq))
	dx := n.back(l.kv, dkv, s.x, m)
	if s.rows == nil {
		n.add(dx, dxq)
		return dx
	}
	for i, r := range s.rows {
		row := dx[r*n.Hidden:][:n.Hidden]
		for j, v := range dxq[i*n.Hidden:][:n.Hidden] {
			row[j] += v
		}
	}
	return dx
}

// attend computes the context of each query: per text and head softmax(q·kᵀ/√d + bias)·v.
func (n *network[T]) attend(s *tape[T], queries int) {
	query, p := n.starts(s)
	s.p, s.context = n.arena.get(p[len(p)-1]), n.arena.get(queries*n.Hidden)
	n.note(n.each(s.batch.texts(), func(t int) {
		a := n.attention(s, t)
		for head := range n.Heads {
			at := query[t]*n.Hidden + head*a.Dim
			k := s.kv[s.batch.starts[t]*a.KVStride+head*a.Dim:]
			distances := len(n.bias) / n.Heads
			bias := n.bias[head*distances:][:distances]
			n.attendHead(a, s.q[at:], k, k[n.Hidden:], bias, s.p[p[t]+head*a.Queries*a.PStride():], s.context[at:])
		}
	}))
}

// attendBack returns the gradients of queries, and of keys and values, from that of the context.
func (n *network[T]) attendBack(s *tape[T], dc []T) (dq, dkv []T) {
	query, p := n.starts(s)
	dq, dkv = n.arena.get(len(s.q)), n.arena.get(len(s.kv))
	n.note(n.each(s.batch.texts(), func(t int) {
		a := n.attention(s, t)
		for head := range n.Heads {
			at, kv := query[t]*n.Hidden+head*a.Dim, s.batch.starts[t]*a.KVStride+head*a.Dim
			k, dk := s.kv[kv:], dkv[kv:]
			n.attendHeadBack(a, s.q[at:], k, k[n.Hidden:], s.p[p[t]+head*a.Queries*a.PStride():], dc[at:], dq[at:], dk,
				dk[n.Hidden:])
		}
	}))
	return dq, dkv
}

func dot[T number](a, b []T) T {
	var s0, s1, s2, s3 T
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}

// axpy adds a·x to y.
func axpy[T number](y []T, a T, x []T) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += a * v
	}
}

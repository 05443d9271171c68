package train

import "math"

// tape is what a layer's backward pass needs of its forward pass.
type tape[T number] struct {
	batch      *batch
	rows       []int // that the layer's output has; nil: all
	x, xq      []T   // input, and its rows; the same if rows is nil
	q, kv      []T
	p          []T // attention's probabilities, per text and head: queries × length
	context    []T
	y, up      []T // after attention's LayerNorm; after GELU
	slope      []T // of GELU
	attn, full normalised[T]
	masks      [2][]T // dropout's, of what attention and the feed-forward network add; nil without
}

// queries is how many rows of text t the layer computes.
func (s *tape[T]) queries(t int) int {
	if s.rows != nil {
		return 1
	}
	return s.batch.starts[t+1] - s.batch.starts[t]
}

// starts is where the queries of each text begin, and where its probabilities do; the last entries are the ends.
func (s *tape[T]) startsOf(heads int) (query, p []int) {
	query, p = make([]int, s.batch.texts()+1), make([]int, s.batch.texts()+1)
	for t := range s.batch.texts() {
		length, queries := s.batch.starts[t+1]-s.batch.starts[t], s.queries(t)
		query[t+1], p[t+1] = query[t]+queries, p[t]+heads*queries*length
	}
	return query, p
}

// forward is one layer. Where rows are given, one per text, only their output is computed: nothing else of the last
// layer reaches the head.
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

// backward writes the gradients of layer at for the gradient of its output, and returns that of its input; nil where
// that is not wanted, below the first trained layer.
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

// attend computes the context of each query: per text and head softmax(q·kᵀ/√d)·v.
func (n *network[T]) attend(s *tape[T], queries int) {
	query, p := s.startsOf(n.Heads)
	s.p, s.context = n.arena.get(p[len(p)-1]), n.arena.get(queries*n.Hidden)
	n.note(n.each(s.batch.texts(), func(t int) {
		n.attendText(s, t, query[t], s.p[p[t]:p[t+1]])
	}))
}

func (n *network[T]) attendText(s *tape[T], t, first int, p []T) {
	h, d, count, length := n.Hidden, n.head(), s.queries(t), s.batch.starts[t+1]-s.batch.starts[t]
	scale := T(1 / math.Sqrt(float64(d)))
	for head := range n.Heads {
		kv := s.kv[s.batch.starts[t]*2*h+head*d:]
		for i := range count {
			row := p[(head*count+i)*length:][:length]
			q := s.q[(first+i)*h+head*d:][:d]
			for j := range row {
				row[j] = scale * dot(q, kv[j*2*h:][:d])
			}
			softmax(row)
			context := s.context[(first+i)*h+head*d:][:d]
			for j, v := range row {
				axpy(context, v, kv[j*2*h+h:][:d])
			}
		}
	}
}

// attendBack returns the gradients of queries, and of keys and values, for that of the context.
func (n *network[T]) attendBack(s *tape[T], dc []T) (dq, dkv []T) {
	query, p := s.startsOf(n.Heads)
	dq, dkv = n.arena.get(len(s.q)), n.arena.get(len(s.kv))
	n.note(n.each(s.batch.texts(), func(t int) {
		n.attendTextBack(s, t, query[t], s.p[p[t]:p[t+1]], dc, dq, dkv)
	}))
	return dq, dkv
}

func (n *network[T]) attendTextBack(s *tape[T], t, first int, p, dc, dq, dkv []T) {
	h, d, count, length := n.Hidden, n.head(), s.queries(t), s.batch.starts[t+1]-s.batch.starts[t]
	scale := T(1 / math.Sqrt(float64(d)))
	ds := make([]T, length)
	for head := range n.Heads {
		at := s.batch.starts[t]*2*h + head*d
		kv, dkv := s.kv[at:], dkv[at:]
		for i := range count {
			row := p[(head*count+i)*length:][:length]
			q, dq, dc := s.q[(first+i)*h+head*d:][:d], dq[(first+i)*h+head*d:][:d], dc[(first+i)*h+head*d:][:d]
			var along T
			for j, v := range row {
				ds[j] = dot(dc, kv[j*2*h+h:][:d])
				along += ds[j] * v
				axpy(dkv[j*2*h+h:][:d], v, dc)
			}
			for j, v := range row {
				g := scale * v * (ds[j] - along)
				axpy(dq, g, kv[j*2*h:][:d])
				axpy(dkv[j*2*h:][:d], g, q)
			}
		}
	}
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

func softmax[T number](row []T) {
	top := row[0]
	for _, v := range row {
		top = max(top, v)
	}
	var sum float64
	for j, v := range row {
		e := math.Exp(float64(v - top))
		row[j] = T(e)
		sum += e
	}
	for j := range row {
		row[j] = T(float64(row[j]) / sum)
	}
}

package train

import (
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/kernels/cpu/training"
)

// plain is the arithmetic written down as it is defined.
type plain[T number] struct{}

func (plain[T]) linear(y, x, w []T, m, n, k int) error {
	for i := range m {
		for j := range n {
			y[i*n+j] = dot(x[i*k:][:k], w[j*k:][:k])
		}
	}
	return nil
}

func (plain[T]) weights(dw, dy, x []T, m, n, k int) error {
	clear(dw[:n*k])
	for i := range m {
		for j := range n {
			axpy(dw[j*k:][:k], dy[i*n+j], x[i*k:][:k])
		}
	}
	return nil
}

func (plain[T]) input(dx, dy, w []T, m, n, k int) error {
	clear(dx[:m*k])
	for i := range m {
		for j := range n {
			axpy(dx[i*k:][:k], dy[i*n+j], w[j*k:][:k])
		}
	}
	return nil
}

func (plain[T]) gelu(y, slope []T) {
	for i, x := range y {
		v := float64(x)
		phi := .5 * math.Erfc(-v/math.Sqrt2)
		y[i], slope[i] = T(v*phi), T(phi+v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
	}
}

func (plain[T]) adam(w, g, m, v []T, s training.AdamStep) {
	b1, b2 := T(s.Beta1), T(s.Beta2)
	for i := range w {
		d := g[i] * T(s.Scale)
		m[i], v[i] = b1*m[i]+(1-b1)*d, b2*v[i]+(1-b2)*d*d
		w[i] = w[i]*T(s.Shrink) - T(s.Rate)*m[i]/(T(math.Sqrt(float64(v[i])))*T(s.Root)+T(s.Epsilon))
	}
}

func (plain[T]) attendHead(a training.AttendedHead, q, k, v, bias, p, context []T) {
	scale := T(1 / math.Sqrt(float64(a.Dim)))
	for i := range a.Queries {
		row, out := p[i*a.PStride():][:a.Length], context[i*a.QStride:][:a.Dim]
		for j := range row {
			row[j] = scale * dot(q[i*a.QStride:][:a.Dim], k[j*a.KVStride:][:a.Dim])
			if bias != nil {
				row[j] += bias[len(bias)/2+j-i]
			}
		}
		softmax(row)
		clear(out)
		for j, x := range row {
			axpy(out, x, v[j*a.KVStride:][:a.Dim])
		}
	}
}

func (plain[T]) attendHeadBack(a training.AttendedHead, q, k, v, p, dc, dq, dk, dv []T) {
	scale, d := T(1/math.Sqrt(float64(a.Dim))), make([]T, a.Length)
	for i := range a.Queries {
		row, g := p[i*a.PStride():][:a.Length], dc[i*a.QStride:][:a.Dim]
		var along T
		for j, x := range row {
			d[j] = dot(g, v[j*a.KVStride:][:a.Dim])
			along += d[j] * x
			axpy(dv[j*a.KVStride:][:a.Dim], x, g)
		}
		for j, x := range row {
			s := scale * x * (d[j] - along)
			axpy(dq[i*a.QStride:][:a.Dim], s, k[j*a.KVStride:][:a.Dim])
			axpy(dk[j*a.KVStride:][:a.Dim], s, q[i*a.QStride:][:a.Dim])
		}
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

func (plain[T]) each(tasks int, fn func(task int)) error {
	for t := range tasks {
		fn(t)
	}
	return nil
}

// random returns a network with random weights whose layers from on, and the head, are trained.
func random[T number](a arithmetic[T], s shape, labels, from int) *network[T] {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int, mean, spread float64) []T {
		v := make([]T, n)
		for i := range v {
			v[i] = T(mean + spread*r.NormFloat64())
		}
		return v
	}
	n := &network[T]{shape: s, arithmetic: a, from: from}
	n.words, n.positions = numbers(s.Vocab*s.Hidden, 0, 1), numbers(s.Positions*s.Hidden, 0, .3)
	line := func(name string, out, in int) linear[T] {
		return linear[T]{
			&param[T]{name: name + ".weight", rows: out, cols: in, data: numbers(out*in, 0, .4)},
			&param[T]{name: name + ".bias", cols: out, data: numbers(out, 0, .1)}}
	}
	lay := func(name string) norm[T] {
		return norm[T]{&param[T]{name: name + ".weight", cols: s.Hidden, data: numbers(s.Hidden, 1, .2)},
			&param[T]{name: name + ".bias", cols: s.Hidden, data: numbers(s.Hidden, 0, .2)}}
	}
	n.embedNorm = lay("embeddings.LayerNorm")
	h := s.Hidden
	for range s.Layers {
		n.layers = append(n.layers, layer[T]{q: line("q", h, h), kv: line("kv", 2*h, h), out: line("out", h, h),
			attnNorm: lay("attnNorm"), up: line("up", s.Intermediate, h), down: line("down", h, s.Intermediate),
			outNorm: lay("outNorm")})
	}
	if labels > 0 {
		n.first = true
		n.head = &classHead[T]{line("pre_classifier", h, h), line("classifier", labels, h)}
	}
	for _, p := range n.params() {
		p.grad = make([]T, len(p.data))
	}
	return n
}

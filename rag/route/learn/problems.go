package learn

import (
	"context"
	"math"
	"slices"
)

// Parallel calls fn for tasks 0 … n−1, several at a time; engine.Engine.Parallel is one.
type Parallel func(ctx context.Context, tasks int, fn func(task int) error) error

// inOrder returns the Parallel of one goroutine.
func inOrder(ctx context.Context, tasks int, fn func(task int) error) error {
	for i := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

// hinge is the problem of a support vector classifier for one class: ½‖w‖² + C Σ max(0, 1 − y·z)², with the intercept
// behind the weights and counted among them, as liblinear does.
type hinge struct {
	f      *Features
	c      float64
	y      []float64 // +1 or −1 of each row
	active []int     // rows within the margin
}

func (p *hinge) value(w, g []float64) float64 {
	last := len(w) - 1
	copy(g, w)
	loss := 0.
	p.active = p.active[:0]
	for i, y := range p.y {
		z := p.f.dot(i, w) + w[last]
		short := 1 - y*z
		if short <= 0 {
			continue
		}
		p.active = append(p.active, i)
		loss += short * short
		factor := 2 * p.c * (z - y)
		p.f.add(i, factor, g)
		g[last] += factor
	}
	return inner(w, w)/2 + p.c*loss
}

func (p *hinge) hessian(v, out []float64) {
	last := len(v) - 1
	copy(out, v)
	for _, i := range p.active {
		factor := 2 * p.c * (p.f.dot(i, v) + v[last])
		p.f.add(i, factor, out)
		out[last] += factor
	}
}

// logistic is the problem of a logistic regression for one class: ½‖w‖² + C Σ log(1 + exp(−y·z)). The intercept
// behind the weights is free.
type logistic struct {
	f     *Features
	c     float64
	y     []float64
	curve []float64 // p·(1 − p) of each row
}

func (p *logistic) value(w, g []float64) float64 {
	last := len(w) - 1
	if p.curve == nil {
		p.curve = make([]float64, len(p.y))
	}
	copy(g, w)
	g[last] = 0
	loss := 0.
	for i, y := range p.y {
		m := y * (p.f.dot(i, w) + w[last])
		if m > 0 {
			loss += math.Log1p(math.Exp(-m))
		} else {
			loss += math.Log1p(math.Exp(m)) - m
		}
		right := 1 / (1 + math.Exp(-m))
		p.curve[i] = right * (1 - right)
		factor := p.c * y * (right - 1)
		p.f.add(i, factor, g)
		g[last] += factor
	}
	return inner(w[:last], w[:last])/2 + p.c*loss
}

func (p *logistic) hessian(v, out []float64) {
	last := len(v) - 1
	copy(out, v)
	out[last] = 0
	for i, curve := range p.curve {
		factor := p.c * curve * (p.f.dot(i, v) + v[last])
		p.f.add(i, factor, out)
		out[last] += factor
	}
}

// softmax is the problem of a logistic regression of all classes together: ½‖W‖² − C Σ log p(class of the row). The
// weights lie class by class, each class's intercept behind its weights.
type softmax struct {
	ctx     context.Context
	f       *Features
	c       float64
	classes int
	of      []int32   // class of each row
	p       []float64 // rows × classes, probabilities at the last point
	u       []float64 // likewise, of hessian
	each    Parallel
	err     error // of ctx
}

// products are rows × classes: what a row scores for each class.
func (p *softmax) products(w, out []float64) {
	size := p.f.Columns() + 1
	p.keep(p.each(p.ctx, p.classes, func(k int) error {
		w := w[k*size:][:size]
		for i := range p.of {
			out[i*p.classes+k] = p.f.dot(i, w) + w[size-1]
		}
		return nil
	}))
}

// back sets out to w, without the intercepts, plus C times the rows by their factors (rows × classes).
func (p *softmax) back(w, factors, out []float64) {
	size := p.f.Columns() + 1
	p.keep(p.each(p.ctx, p.classes, func(k int) error {
		to := out[k*size:][:size]
		copy(to, w[k*size:][:size])
		to[size-1] = 0
		for i := range p.of {
			x := p.c * factors[i*p.classes+k]
			p.f.add(i, x, to)
			to[size-1] += x
		}
		return nil
	}))
}

func (p *softmax) keep(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *softmax) value(w, g []float64) float64 {
	k := p.classes
	if p.p == nil {
		p.p, p.u = make([]float64, len(p.of)*k), make([]float64, len(p.of)*k)
	}
	p.products(w, p.p)
	loss := 0.
	for i, own := range p.of {
		z, r := p.p[i*k:][:k], p.u[i*k:][:k]
		loss += logSum(z) - z[own]
		softmaxOf(z)
		copy(r, z)
		r[own]--
	}
	p.back(w, p.u, g)
	size := p.f.Columns() + 1
	square := inner(w, w)
	for c := range k {
		square -= w[c*size+size-1] * w[c*size+size-1]
	}
	return square/2 + p.c*loss
}

func (p *softmax) hessian(v, out []float64) {
	k := p.classes
	p.products(v, p.u)
	for i := range p.of {
		z, u := p.p[i*k:][:k], p.u[i*k:][:k]
		mean := 0.
		for c := range z {
			mean += z[c] * u[c]
		}
		for c := range z {
			u[c] = z[c] * (u[c] - mean)
		}
	}
	p.back(v, p.u, out)
}

// logSum is log Σ exp(z).
func logSum(z []float64) float64 {
	top, s := slices.Max(z), 0.
	for _, x := range z {
		s += math.Exp(x - top)
	}
	return top + math.Log(s)
}

// softmaxOf turns scores into the probabilities that sum to 1.
func softmaxOf(z []float64) {
	all := logSum(z)
	for i, x := range z {
		z[i] = math.Exp(x - all)
	}
}

package learn

import (
	"context"
	"math"
)

// problem is a convex function with its derivatives. Value sets the point that Hessian is taken at.
type problem interface {
	value(w, gradient []float64) float64
	hessian(v, out []float64) // out = H·v at the last point of value
}

// The limits of newton: far beyond what these problems need.
const (
	maxNewton = 200
	maxCG     = 400
)

// newton minimises p from w by a truncated Newton method: each step is solved by conjugate gradients as far as it pays,
// and shortened until the value falls enough. It ends when the gradient is tol times the first one.
func newton(ctx context.Context, p problem, w []float64, tol float64) error {
	n := len(w)
	g, next, step := make([]float64, n), make([]float64, n), make([]float64, n)
	cg := &conjugate{make([]float64, n), make([]float64, n), make([]float64, n)}
	f := p.value(w, g)
	first := norm(g)
	for range maxNewton {
		size := norm(g)
		if size <= tol*first || size == 0 {
			return nil
		}
		if err := cg.solve(ctx, p, g, step, min(.1, math.Sqrt(size/first))*size); err != nil {
			return err
		}
		slope := inner(g, step)
		if slope >= 0 {
			return nil // no direction goes down: the arithmetic's limit
		}
		for length := 1.; ; length /= 2 {
			for i := range next {
				next[i] = w[i] + length*step[i]
			}
			lower := p.value(next, g)
			if lower <= f+1e-4*length*slope {
				copy(w, next)
				f = lower
				break
			}
			if length < 1e-10 {
				p.value(w, g)
				return nil
			}
		}
	}
	return nil
}

// conjugate are the vectors of the method of conjugate gradients.
type conjugate struct{ r, d, hd []float64 }

// solve finds a step with H·step ≈ −g, up to a residual.
func (c *conjugate) solve(ctx context.Context, p problem, g, step []float64, residual float64) error {
	for i, x := range g {
		step[i], c.r[i], c.d[i] = 0, -x, -x
	}
	rr := inner(c.r, c.r)
	for range maxCG {
		if math.Sqrt(rr) <= residual {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.hessian(c.d, c.hd)
		curve := inner(c.d, c.hd)
		if curve <= 0 {
			return nil
		}
		alpha := rr / curve
		for i := range step {
			step[i] += alpha * c.d[i]
			c.r[i] -= alpha * c.hd[i]
		}
		before := rr
		rr = inner(c.r, c.r)
		beta := rr / before
		for i := range c.d {
			c.d[i] = c.r[i] + beta*c.d[i]
		}
	}
	return nil
}

func inner(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
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
	return (s0 + s1) + (s2 + s3)
}

func norm(a []float64) float64 { return math.Sqrt(inner(a, a)) }

package gate

import (
	"math"
	"slices"
)

// model is a logistic regression: the probability is 1/(1 + exp(−Σ w·x)), where x[0] of every example is 1, so that
// w[0] is the intercept.
type model []float64

// probability returns how likely an example is inside.
func (m model) probability(x []float64) float64 {
	sum := 0.
	for k, w := range m {
		sum += w * x[k]
	}
	return 1 / (1 + math.Exp(-sum))
}

const (
	fitSteps = 100
	fitStop  = 1e-7 // of the largest component of a step: the error behind it is about its square
)

// example is a question that a regression is fitted to.
type example struct {
	x      []float64 // 1, and the features
	inside bool
}

// fit finds the regression of questions inside (1) against others (0) by Newton's method: the smallest sum of log
// losses plus half the square of the weights (the intercept's is free), as scikit-learn's LogisticRegression has it
// with C = 1. The nearer to that it starts, the fewer steps it takes.
func fit(all []example, start model) model {
	w := slices.Clone(start)
	at := fitAt(w, all)
	for range fitSteps {
		step, largest := solved(at.hessian, at.gradient), 0.
		for factor := 1.; factor > 1e-6; factor /= 2 {
			next := slices.Clone(w)
			for k := range next {
				next[k] -= factor * step[k]
			}
			if there := fitAt(next, all); there.loss <= at.loss {
				for k := range next {
					largest = max(largest, math.Abs(next[k]-w[k]))
				}
				w, at = next, there
				break
			}
		}
		if largest < fitStop {
			break
		}
	}
	return w
}

// fitted is the function that fit minimises, with its derivatives.
type fitted struct {
	loss     float64
	gradient []float64
	hessian  [][]float64
}

func fitAt(w model, all []example) (at fitted) {
	dims := len(w)
	at.gradient, at.hessian = make([]float64, dims), make([][]float64, dims)
	for k := range dims {
		if at.hessian[k] = make([]float64, dims); k > 0 {
			at.loss += w[k] * w[k] / 2
			at.gradient[k], at.hessian[k][k] = w[k], 1
		}
	}
	for _, e := range all {
		z := 0.
		for k, x := range e.x {
			z += w[k] * x
		}
		if !e.inside {
			z = -z
		}
		small := math.Exp(-math.Abs(z))
		wrong := 1 / (1 + small) // the probability that it is not what it is
		if at.loss += max(-z, 0) + math.Log1p(small); z > 0 {
			wrong = small / (1 + small)
		}
		off, curve := wrong, wrong*(1-wrong)
		if e.inside {
			off = -wrong
		}
		for i, x := range e.x {
			at.gradient[i] += off * x
			for j := range e.x {
				at.hessian[i][j] += curve * x * e.x[j]
			}
		}
	}
	return at
}

// solved is x of a·x = b for a positive definite a (Gauss; the diagonal needs no exchange of rows); both are written
// over. The intercept's pivot is never 0: the ridge holds the others' weights finite, and probabilities are never 0 or
// 1 at once for all.
func solved(a [][]float64, b []float64) []float64 {
	for k := range b {
		pivot := max(a[k][k], math.SmallestNonzeroFloat64)
		for i := k + 1; i < len(b); i++ {
			f := a[i][k] / pivot
			for j := k; j < len(b); j++ {
				a[i][j] -= f * a[k][j]
			}
			b[i] -= f * b[k]
		}
	}
	x := make([]float64, len(b))
	for k := len(b) - 1; k >= 0; k-- {
		x[k] = b[k]
		for j := k + 1; j < len(b); j++ {
			x[k] -= a[k][j] * x[j]
		}
		x[k] /= max(a[k][k], math.SmallestNonzeroFloat64)
	}
	return x
}

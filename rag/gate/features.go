package gate

import (
	"math"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Features are what a logistic regression decides by: the largest value of each over the candidates, the featureRows
// contexts with the largest cosine + featureWeight·cover. All are bounded: cosines by −1 and 1, the others by 0 and 1.
type Features struct {
	Maximum     float64 `json:"maximum"`      // cosine
	PseudoQuery float64 `json:"pseudo_query"` // cosine with a pseudo-query of the context
	BM25        float64 `json:"bm25"`         // BM25 ÷ postings.Query.Ideal
	Cover       float64 `json:"cover"`
	Joint       float64 `json:"joint"` // the smaller of cosine and cover
}

// The candidates: one search with biases finds them.
const (
	featureRows   = 16
	featureWeight = .5
)

// none are the features without a candidate.
func none() Features { return Features{Maximum: -1, PseudoQuery: -1, Joint: -1} }

// take takes a candidate in.
func (f *Features) take(cosine, pseudoQuery, bm25, cover float64) {
	f.Maximum, f.PseudoQuery = max(f.Maximum, cosine), max(f.PseudoQuery, pseudoQuery)
	f.BM25, f.Cover, f.Joint = max(f.BM25, bm25), max(f.Cover, cover), max(f.Joint, min(cosine, cover))
}

// Model is a logistic regression: the probability is 1/(1 + exp(−Intercept − Σ weight·feature)).
type Model struct {
	Intercept float64  `json:"intercept"`
	Weights   Features `json:"weights"`
}

const dims = 6 // the intercept and the features

func (f Features) row() [dims]float64 {
	return [dims]float64{1, f.Maximum, f.PseudoQuery, f.BM25, f.Cover, f.Joint}
}

func modelOf(w [dims]float64) Model {
	return Model{w[0], Features{Maximum: w[1], PseudoQuery: w[2], BM25: w[3], Cover: w[4], Joint: w[5]}}
}

// Probability is that of a question in scope.
func (m Model) Probability(f Features) float64 {
	w, x, sum := m.Weights.row(), f.row(), m.Intercept
	for k := 1; k < dims; k++ {
		sum += w[k] * x[k]
	}
	return 1 / (1 + math.Exp(-sum))
}

// finite tells whether all numbers of the model are.
func (m Model) finite() bool {
	sum := m.Intercept
	for _, w := range m.Weights.row() {
		sum += math.Abs(w)
	}
	return finite(sum)
}

const (
	fitSteps = 100
	fitStop  = 1e-10 // of the largest component of a step
)

// fit finds the regression of inside (1) against outside (0) by Newton's method: the smallest sum of log losses plus
// half the square of the weights (the intercept's is free), as scikit-learn's LogisticRegression has it with C = 1.
func fit(inside, outside []Features) Model {
	var w [dims]float64
	loss := fitLoss(w, inside, outside)
	for range fitSteps {
		var gradient [dims]float64
		var hessian [dims][dims]float64
		for k := 1; k < dims; k++ {
			gradient[k], hessian[k][k] = w[k], 1
		}
		labelled(inside, outside, func(f Features, y float64) {
			x := f.row()
			p := modelOf(w).Probability(f)
			for i := range dims {
				gradient[i] += (p - y) * x[i]
				for j := range dims {
					hessian[i][j] += p * (1 - p) * x[i] * x[j]
				}
			}
		})
		step, largest := solved(hessian, gradient), 0.
		for factor := 1.; factor > 1e-6; factor /= 2 {
			next := w
			for k := range next {
				next[k] -= factor * step[k]
			}
			if l := fitLoss(next, inside, outside); l <= loss {
				for k := range next {
					largest = max(largest, math.Abs(next[k]-w[k]))
				}
				w, loss = next, l
				break
			}
		}
		if largest < fitStop {
			break
		}
	}
	return modelOf(w)
}

func labelled(inside, outside []Features, fn func(f Features, y float64)) {
	for _, f := range inside {
		fn(f, 1)
	}
	for _, f := range outside {
		fn(f, 0)
	}
}

// fitLoss is what fit makes small.
func fitLoss(w [dims]float64, inside, outside []Features) (loss float64) {
	for k := 1; k < dims; k++ {
		loss += w[k] * w[k] / 2
	}
	labelled(inside, outside, func(f Features, y float64) {
		z := 0.
		for k, x := range f.row() {
			z += w[k] * x
		}
		if y == 1 {
			z = -z
		}
		loss += max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
	})
	return loss
}

// solved is x of a·x = b for a positive definite a (Gauss; the diagonal needs no exchange of rows). The intercept's
// pivot is never 0: the ridge holds the others' weights finite, and probabilities are never 0 or 1 at once for all.
func solved(a [dims][dims]float64, b [dims]float64) (x [dims]float64) {
	for k := range dims {
		pivot := max(a[k][k], math.SmallestNonzeroFloat64)
		for i := k + 1; i < dims; i++ {
			f := a[i][k] / pivot
			for j := k; j < dims; j++ {
				a[i][j] -= f * a[k][j]
			}
			b[i] -= f * b[k]
		}
	}
	for k := dims - 1; k >= 0; k-- {
		x[k] = b[k]
		for j := k + 1; j < dims; j++ {
			x[k] -= a[k][j] * x[j]
		}
		x[k] /= max(a[k][k], math.SmallestNonzeroFloat64)
	}
	return x
}

// words are a query's words as a logistic score reads them; as biases they are featureWeight·cover.
type words struct {
	*postings.Biases
	cover, bm25 *postings.Query
}

func wordsOf(x *postings.Index, query string) (*words, error) {
	cover, err := x.Query(query, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		return nil, err
	}
	bm25, err := x.Query(query, postings.Scoring{Kind: postings.BM25})
	if err != nil {
		return nil, err
	}
	return &words{cover.Biases(featureWeight), cover, bm25}, nil
}

// scores are the cover of a row of the index, and its BM25 ÷ ideal.
func (w *words) scores(row int) (cover, bm25 float64) {
	if ideal := w.bm25.Ideal(); ideal > 0 {
		bm25 = w.bm25.Score(row) / ideal
	}
	return w.cover.Score(row), bm25
}

// normed are vectors with their norms: a cosine takes one product then, not three, and has the same bits.
type normed struct {
	engine.Vectors
	norms []float64
}

func withNorms(v engine.Vectors) normed {
	n := normed{v, make([]float64, v.Rows)}
	for i := range n.norms {
		n.norms[i] = ref.Norm(row(v, i))
	}
	return n
}

// cosine is the canonical cosine of a row with a vector of that norm.
func (v normed) cosine(i int, query []float32, norm float64) float64 {
	return ref.Cosine(ref.Dot(query, row(v.Vectors, i)), norm, v.norms[i])
}

// nearest is the largest cosine of a query of that norm with some rows, but for one of them (−1: none); −1 without any.
func (v normed) nearest(query []float32, norm float64, some []int32, but int32) float64 {
	best := -1.
	for _, i := range some {
		if i != but {
			best = max(best, v.cosine(int(i), query, norm))
		}
	}
	return best
}

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
	fitStop  = 1e-7 // of the largest component of a step: the error behind it is about its square
)

// example is a question that a regression is fitted to.
type example struct {
	x      [dims]float64
	inside bool
}

// fit finds the regression of questions inside (1) against others (0) by Newton's method: the smallest sum of log
// losses plus half the square of the weights (the intercept's is free), as scikit-learn's LogisticRegression has it
// with C = 1. The nearer to that it starts, the fewer steps it takes.
func fit(all []example, start Model) Model {
	w := start.Weights.row()
	w[0] = start.Intercept
	at := fitAt(w, all)
	for range fitSteps {
		step, largest := solved(at.hessian, at.gradient), 0.
		for factor := 1.; factor > 1e-6; factor /= 2 {
			next := w
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
	return modelOf(w)
}

// fitted is what fit makes small, with its derivatives.
type fitted struct {
	loss     float64
	gradient [dims]float64
	hessian  [dims][dims]float64
}

func fitAt(w [dims]float64, all []example) (at fitted) {
	for k := 1; k < dims; k++ {
		at.loss += w[k] * w[k] / 2
		at.gradient[k], at.hessian[k][k] = w[k], 1
	}
	for n := range all {
		x, z := &all[n].x, 0.
		for k := range dims {
			z += w[k] * x[k]
		}
		if !all[n].inside {
			z = -z
		}
		small := math.Exp(-math.Abs(z))
		wrong := 1 / (1 + small) // the probability that it is not what it is
		if at.loss += max(-z, 0) + math.Log1p(small); z > 0 {
			wrong = small / (1 + small)
		}
		off, curve := wrong, wrong*(1-wrong)
		if all[n].inside {
			off = -wrong
		}
		for i := range dims {
			at.gradient[i] += off * x[i]
			scaled := curve * x[i]
			for j := i; j < dims; j++ {
				at.hessian[i][j] += scaled * x[j]
			}
		}
	}
	for i := range dims {
		for j := range i {
			at.hessian[i][j] = at.hessian[j][i]
		}
	}
	return at
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
	bm25, err := cover.As(postings.Scoring{Kind: postings.BM25})
	if err != nil {
		return nil, err
	}
	return &words{cover.Biases(featureWeight), cover, bm25}, nil
}

// scores are the cover of a row of the index, and its BM25 ÷ ideal.
func (w *words) scores(row int) (cover, bm25 float64) { return w.cover.Score(row), w.rank(row) }

// rank is BM25 ÷ ideal of a row of the index.
func (w *words) rank(row int) float64 {
	if ideal := w.bm25.Ideal(); ideal > 0 {
		return w.bm25.Score(row) / ideal
	}
	return 0
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

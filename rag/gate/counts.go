package gate

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/kmeans"
	"github.com/sluice-rag/sluice/kernels"
)

// Quantiles returns the quantiles that Counts.Pairs must have.
func Quantiles() []float64 { return slices.Clone(tableQuantiles) }

// NegativeSample is about how many pairs of D− the histogram and the separation of an artifact are of: all, if there
// are no more. The separation's standard error is at most .001.
const NegativeSample = 1 << 18

// histogram counts the sample of D− between the extremes.
func histogram(d *engine.Distribution) []int64 {
	counts := make([]int64, histogramBins)
	s := &d.NegativeSummary
	for _, x := range d.Sample {
		i := 0
		if s.Max > s.Min {
			i = int((x - s.Min) / (s.Max - s.Min) * histogramBins)
		}
		counts[min(max(i, 0), histogramBins-1)]++
	}
	return counts
}

// separation returns the share of pairs of a positive and a sampled negative, ascending, in which the positive is
// closer; ties count half.
func separation(positive, negative []float64, m kernels.Metric) float64 {
	if len(negative) == 0 {
		return 0
	}
	positive = sorted(positive)
	above, equal, below, upTo := 0, 0, 0, 0 // upTo counts the positives that are not above
	for _, x := range negative {
		for below < len(positive) && positive[below] < x {
			below++
		}
		for upTo = max(upTo, below); upTo < len(positive) && positive[upTo] == x; {
			upTo++
		}
		above, equal = above+len(positive)-upTo, equal+upTo-below
	}
	all := len(positive) * len(negative)
	if m.Ascending() {
		above = all - above - equal
	}
	return (float64(above) + float64(equal)/2) / float64(all)
}

// Counts are what a calibration takes from the contexts' vectors and words. Where many workers have counted them
// (engine.Partial), Input.Counts holds them, and Input needs no vector, group or index of the contexts.
type Counts struct {
	Pairs   *engine.Distribution // of all pseudo-queries with all contexts
	Groups  int                  // of the contexts; 1 without any
	General []float64            // best similarity of each general question
	// LeftOut is the group of each pseudo-query's own context that Input.Parts leaves out together: nil, 0 parts.
	LeftOut []int32
	Rated   []Rated // of each weight of Input.Weights, in order
}

// Rated are the scores with words at one weight of the cover: of the pseudo-queries of Input.Rated with their own
// contexts, and the best ones of all contexts, and of the contexts of other parts.
type Rated struct {
	Weight                   float64
	Positive, Maximum, Other []float64
	General                  []float64 // best scores of the general questions
}

// Weights returns the weights of the cover that the calibration compares, with 0 for the similarity alone; none if it
// goes by the similarity without a comparison. A policy or score that Calibrate refuses is its error.
func (in *Input) Weights() ([]float64, error) {
	p, want, err := resolve(in.Policy, in.Score, in.Metric)
	if err != nil {
		return nil, err
	}
	if weighs, err := in.weighs(p, want); err != nil || !weighs {
		return nil, err
	}
	var list []float64
	for _, x := range candidates(want) {
		if x.score.Kind != PseudoQuery {
			list = append(list, x.score.Weight)
		}
	}
	return list, nil
}

// Rated returns the numbers of the pseudo-queries that are scored at each weight, ascending.
func (in *Input) Rated() []int { return in.coverSample() }

// Parts returns how many parts the contexts without topics are clustered into, so that questions can be asked of a base
// that lacks what they are about, and the rows of the contexts that the centres come from; nil: all. 0 parts: there are
// too few contexts.
func Parts(contexts int, seed uint64) (k int, rows []int) {
	k = min(int(math.Sqrt(float64(contexts)/2)), maxClusters)
	if k < minClusters || contexts < k*minPerCluster {
		return 0, nil
	}
	if contexts > clusterRows {
		rows = rand.New(rand.NewPCG(seed, streamClusters)).Perm(contexts)[:clusterRows]
	}
	return k, rows
}

// Centres clusters the contexts that Parts names. Of says which part each of them is in.
func Centres(ctx context.Context, e engine.Interface, sample engine.Vectors, k int, seed uint64) (*kmeans.Clusters,
	error) {
	return kmeans.Spherical(ctx, e, sample, k, seed)
}

// PartsOf returns the nearest centre of each context. Where Parts names no rows, Centres says it.
func PartsOf(ctx context.Context, e engine.Interface, contexts, centres engine.Vectors) ([]int32, error) {
	hits, err := e.TopK(ctx, contexts, centres, kernels.Cosine, 1, nil)
	if err != nil {
		return nil, err
	}
	of := make([]int32, len(hits))
	for i, h := range hits {
		of[i] = int32(h[0].Row)
	}
	return of, nil
}

// check refuses counts that do not fit the input.
func (c *Counts) check(in *Input) error {
	m := in.Queries.Rows
	fits := c.Pairs != nil && len(c.Pairs.Positive) == m &&
		(c.Pairs.NegativeSummary.N == 0 || len(c.Pairs.Sample) > 0) &&
		len(c.Pairs.NegativeSummary.Quantiles) == len(tableQuantiles) && len(c.General) == in.General.Rows &&
		(c.LeftOut == nil || len(c.LeftOut) == m)
	weights, err := in.Weights()
	if err != nil {
		return err
	}
	fits = fits && len(c.Rated) == len(weights)
	n := len(in.Rated())
	for i, r := range c.Rated {
		fits = fits && r.Weight == weights[i] && len(r.Positive) == n && len(r.Maximum) == n &&
			len(r.General) == in.General.Rows && (c.LeftOut == nil) == (r.Other == nil) &&
			(r.Other == nil || len(r.Other) == n)
	}
	if !fits {
		return fmt.Errorf("gate: calibrating: %w: counts of other questions, weights or parts, or without a sample of D−", kernels.ErrShape)
	}
	return nil
}

// rated fills in the scores of the candidates with words.
func (r *rater) rated() {
	next := 0
	for i := range r.all {
		x := &r.all[i]
		if x.score.Kind == PseudoQuery {
			continue
		}
		c := r.in.Counts.Rated[next]
		x.scores.positive, x.scores.maximum, x.scores.other = c.Positive, c.Maximum, c.Other
		next++
	}
}

func (c *Counts) generalOf(weight float64) []float64 {
	for _, r := range c.Rated {
		if r.Weight == weight {
			return r.General
		}
	}
	return nil
}

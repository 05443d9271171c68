package gate

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// Contexts without topics are parted by k-means, so that questions can be asked of a base that lacks what they are
// about.
const (
	clusterRows   = 20_000 // that the centres come from
	clusterRounds = 12
	minClusters   = 4
	maxClusters   = 32
	minPerCluster = 8
)

// leftOut are the groups of contexts that are left out together, and what they are called; nil with a reason if there
// are too few contexts for that.
func (in *Input) leftOut(ctx context.Context, e engine.Interface) (groups []int32, what string, err error) {
	if in.Topics && in.Groups != nil {
		return in.Groups, "topic", nil
	}
	n := in.Contexts.Rows
	k := min(int(math.Sqrt(float64(n)/2)), maxClusters)
	if k < minClusters || n < k*minPerCluster {
		return nil, "too few contexts to leave some of them out", nil
	}
	groups, err = in.cluster(ctx, e, k)
	return groups, "cluster of contexts", err
}

// cluster is spherical k-means (Dhillon & Modha, Concept decompositions for large sparse text data, 2001) from centres
// that are drawn; the assignment of the last round is returned.
func (in *Input) cluster(ctx context.Context, e engine.Interface, k int) ([]int32, error) {
	n, d := in.Contexts.Rows, in.Contexts.Dim
	rng := rand.New(rand.NewPCG(in.Seed, streamClusters))
	sample := in.Contexts
	if order := rng.Perm(n); n > clusterRows {
		sample = engine.Vectors{Rows: clusterRows, Dim: d, Data: make([]float32, 0, clusterRows*d)}
		for _, i := range order[:clusterRows] {
			sample.Data = append(sample.Data, row(in.Contexts, i)...)
		}
	}
	centres := engine.Vectors{Rows: k, Dim: d}
	for _, i := range rng.Perm(sample.Rows)[:k] {
		centres.Data = append(centres.Data, row(sample, i)...)
	}
	for range clusterRounds {
		of, err := nearest(ctx, e, sample, centres)
		if err != nil {
			return nil, err
		}
		sums := make([]float64, k*d)
		for i, c := range of {
			for j, x := range row(sample, i) {
				sums[int(c)*d+j] += float64(x)
			}
		}
		for c := range k {
			length := 0.
			for _, x := range sums[c*d:][:d] {
				length += x * x
			}
			if length = math.Sqrt(length); length == 0 {
				continue // nobody's: it stays where it was
			}
			for j := range d {
				centres.Data[c*d+j] = float32(sums[c*d+j] / length)
			}
		}
	}
	return nearest(ctx, e, in.Contexts, centres)
}

func nearest(ctx context.Context, e engine.Interface, rows, centres engine.Vectors) ([]int32, error) {
	hits, err := e.TopK(ctx, rows, centres, kernels.Cosine, 1, nil)
	if err != nil {
		return nil, err
	}
	of := make([]int32, len(hits))
	for i, h := range hits {
		of[i] = int32(h[0].Row)
	}
	return of, nil
}

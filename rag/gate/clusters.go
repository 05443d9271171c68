package gate

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/kmeans"
	"github.com/sluice-rag/sluice/kernels"
)

// Contexts without topics are parted by k-means, so that questions can be asked of a base that lacks what they are
// about.
const (
	clusterRows   = 20_000 // that the centres come from
	minClusters   = 4
	maxClusters   = 32
	minPerCluster = 8
)

// leftOut returns the groups of contexts that are left out together, and what they are called; nil with a reason if
// there are too few contexts for that.
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

// cluster finds k-means' centres for a sample of the contexts, and assigns all of them.
func (in *Input) cluster(ctx context.Context, e engine.Interface, k int) ([]int32, error) {
	n, d := in.Contexts.Rows, in.Contexts.Dim
	sample := in.Contexts
	if n > clusterRows {
		sample = engine.Vectors{Rows: clusterRows, Dim: d, Data: make([]float32, 0, clusterRows*d)}
		for _, i := range rand.New(rand.NewPCG(in.Seed, streamClusters)).Perm(n)[:clusterRows] {
			sample.Data = append(sample.Data, row(in.Contexts, i)...)
		}
	}
	c, err := kmeans.Spherical(ctx, e, sample, k, in.Seed)
	if err != nil {
		return nil, err
	}
	if sample.Rows == n {
		return c.Of, nil
	}
	hits, err := e.TopK(ctx, in.Contexts, c.Centres, kernels.Cosine, 1, nil)
	if err != nil {
		return nil, err
	}
	of := make([]int32, len(hits))
	for i, h := range hits {
		of[i] = int32(h[0].Row)
	}
	return of, nil
}

package gate

import (
	"context"

	"github.com/sluice-rag/sluice/engine"
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
	if in.Topics && (in.Groups != nil || in.Counts != nil) {
		return in.Groups, "topic", nil
	}
	k, rows := Parts(in.Contexts.Rows, in.Seed)
	switch {
	case k == 0:
		return nil, "too few contexts to leave some of them out", nil
	case in.Counts == nil:
		groups, err = in.cluster(ctx, e, k, rows)
	}
	return groups, "cluster of contexts", err
}

// cluster finds k-means' centres for the sample of rows, and assigns all contexts.
func (in *Input) cluster(ctx context.Context, e engine.Interface, k int, rows []int) ([]int32, error) {
	if rows == nil {
		c, err := Centres(ctx, e, in.Contexts, k, in.Seed)
		if err != nil {
			return nil, err
		}
		return c.Of, nil
	}
	d := in.Contexts.Dim
	sample := engine.Vectors{Rows: len(rows), Dim: d, Data: make([]float32, 0, len(rows)*d)}
	for _, i := range rows {
		sample.Data = append(sample.Data, row(in.Contexts, i)...)
	}
	c, err := Centres(ctx, e, sample, k, in.Seed)
	if err != nil {
		return nil, err
	}
	return PartsOf(ctx, e, in.Contexts, c.Centres)
}

package gate

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Each decides for single contexts whether each alone would open the gate for one query (1×d), in the order of rows,
// which are of c. The vectors of c are plain ones; bias is Gate.Bias of the query.
func (g *Gate) Each(
	ctx context.Context, e engine.Interface, c retrieve.Contexts, rows []int, query engine.Vectors, bias kernels.Biases,
) ([]Decision, error) {
	if err := g.fits(c); err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, nil
	}
	if g.ScoredBy().Kind == PseudoQuery {
		return g.eachAsked(c, rows, query)
	}
	some := engine.Vectors{Rows: len(rows), Dim: c.Vectors.Dim}
	for _, r := range rows {
		some.Data = append(some.Data, row(c.Vectors, r)...)
	}
	var words []kernels.Biases
	if b, ok := bias.(*postings.Biases); ok {
		words = []kernels.Biases{b.Of(rows)}
	}
	hits, err := e.TopK(ctx, query, some, g.c.Metric, len(rows), words)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	decisions := make([]Decision, len(rows))
	for _, h := range hits[0] {
		at := rows[h.Row]
		if decisions[h.Row], err = g.Found(retrieve.Result{ID: c.IDs[at], Score: h.Score}); err != nil {
			return nil, err
		}
		if bias != nil {
			g.explain(&decisions[h.Row], bias, at)
		}
	}
	return decisions, nil
}

// SimilarityCutoff returns the cut-off that the calibration's policy and threshold give for the similarity alone,
// whatever else the gate's score has: for texts that are not in the store, whose words it does not know.
func (g *Gate) SimilarityCutoff() (float64, error) {
	p, err := ParsePolicy(g.c.Policy)
	if err != nil {
		return 0, err
	}
	scores := g.c.scores.of(p)
	if len(scores) == 0 {
		return g.c.Cutoff, nil
	}
	similarity := *g.c
	similarity.Score = g.c.Metric.String()
	value, _, err := similarity.derive(p, scores)
	return cutoff(g.c.Metric, value, g.c.Threshold), err
}

package gate

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Verdict is a decision without a score.
type Verdict struct {
	Retrieve  bool    `json:"retrieve"`
	Reason    string  `json:"reason,omitempty"`     // why the gate is closed whatever the scores
	ContextID string  `json:"context_id,omitempty"` // one that opens the gate, not always the best
	Cutoff    float64 `json:"cutoff"`
	Stale     float64 `json:"stale"` // share of contexts that the calibration has not seen
	Gone      float64 `json:"gone"`  // share of the calibrated contexts that were deleted
	// Warning has the meaning of Decision.Warning.
	Warning string `json:"warning,omitempty"`
}

// Close closes the gate because the query has no usable vector, as Decision.Close does.
func (v *Verdict) Close(why error) {
	v.Retrieve, v.ContextID, v.Reason = false, "", "the query says nothing: "+why.Error()
}

// Any decides as Decide does but computes no scores. It stops reading vectors as soon as each query has one context
// that opens the gate.
func (g *Gate) Any(
	ctx context.Context, e engine.Interface, c retrieve.Contexts, queries engine.Vectors, bias []kernels.Biases,
) ([]Verdict, error) {
	if err := g.fits(c); err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, queries.Rows)
	if g.ScoredBy().Kind == PseudoQuery {
		decisions, err := g.Decide(ctx, e, c, queries, bias)
		if err != nil {
			return nil, err
		}
		for i := range decisions {
			verdicts[i] = decisions[i].Verdict()
		}
		return verdicts, nil
	}
	for i := range verdicts {
		q := queries.Data[i*queries.Dim : (i+1)*queries.Dim]
		var words kernels.Biases
		if bias != nil {
			words = bias[i]
		}
		witness, above, err := e.AnyAbove(ctx, q, c.Vectors, g.c.Metric, words, g.c.Cutoff)
		if err != nil {
			return nil, fmt.Errorf("gate: %w", err)
		}
		verdicts[i] = Verdict{Retrieve: above, Cutoff: g.c.Cutoff, Stale: g.stale, Gone: g.gone,
			Warning: g.Warning()}
		if above {
			verdicts[i].ContextID = c.IDs[witness.Row]
		}
	}
	return verdicts, nil
}

// Found decides by the best context of a query that a search has found by the gate's own score.
func (g *Gate) Found(best retrieve.Result) (Decision, error) {
	if !finite(best.Score) { // NaN is neither above nor below: it must not pass for a decision
		return Decision{}, fmt.Errorf("gate: %w: score %v with context %s", kernels.ErrNonFinite, best.Score, best.ID)
	}
	c := g.c
	var in *float64
	if p, ok := g.PIn(best.Score); ok {
		in = &p
	}
	return Decision{
		Retrieve: c.Metric.Better(best.Score, c.Cutoff),
		Score:    best.Score, ScoredBy: c.Score, Cutoff: c.Cutoff, ContextID: best.ID,
		Policy: c.Policy, PolicyValue: c.PolicyValue, Threshold: c.Threshold, Metric: c.Metric,
		Percentile: g.percentile(best.Score), Stale: g.stale, Gone: g.gone, Warning: g.Warning(),
		Shadow: g.besides(best.Score), PIn: in,
	}, nil
}

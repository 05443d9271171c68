// Package gate is the Context Awareness Gate: it turns the calibration distributions into a policy
// value P and a cut-off P − T, keeps them with their provenance in a reviewable artifact, and decides
// for a query whether retrieval can help (Heydari et al., "Context Awareness Gate for Retrieval
// Augmented Generation", Algorithm 1: retrieve ⇔ max_i score(q, c_i) > P − T, strictly; mirrored for l2).
package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Decision is the gate's answer for one query, with its trace.
type Decision struct {
	Retrieve   bool     `json:"retrieve"`             // the gate is open: the documents can help with the query
	Reason     string   `json:"reason,omitempty"`     // why the gate is closed regardless of the score
	Score      float64  `json:"score"`                // best score over the contexts
	ScoredBy   string   `json:"scored_by"`            // name of the score: "cosine", "cosine+cover", …
	Similarity *float64 `json:"similarity,omitempty"` // of the best context, if the score has another part
	// share of the query's words that the best context contains
	Cover       *float64       `json:"cover,omitempty"`
	CoverWeight float64        `json:"cover_weight,omitempty"` // score = similarity + cover_weight·cover
	Cutoff      float64        `json:"cutoff"`                 // open is a Score above it (l2: below)
	ContextID   string         `json:"context_id"`             // the best context, also when closed
	Policy      string         `json:"policy"`
	PolicyValue float64        `json:"policy_value"`
	Threshold   float64        `json:"threshold"`
	Metric      kernels.Metric `json:"metric"`
	Percentile  float64        `json:"percentile"` // share of D+ that is not closer than Score, in [0,100]
	// PIn is the conformal p-value of "the question is like the calibration's" (Gate.PIn).
	PIn *float64 `json:"p_in,omitempty"`
	// Domain says whose cut-off decided; nil where the calibration has a single one.
	Domain *InDomain `json:"domain,omitempty"`
	Stale  float64   `json:"stale"` // share of contexts that the calibration has not seen
	Gone   float64   `json:"gone"`  // share of the calibrated contexts that were deleted
	// Warning says why the decision is unreliable: the warnings of the calibration's evidence.
	Warning string `json:"warning,omitempty"`
	// Shadow is the decision of a second policy, if one is being tried.
	Shadow *ShadowDecision `json:"shadow,omitempty"`
	LogID  string          `json:"log_id,omitempty"` // id in the decision log, if enabled; feedback refers to it
}

// Close closes the gate regardless of the score, because the query has no usable vector.
func (d *Decision) Close(why error) {
	d.Retrieve, d.Reason = false, "the query says nothing: "+why.Error()
	if d.Shadow != nil {
		d.Shadow.Retrieve = false
	}
}

// The errors of this package.
var (
	ErrPolicy   = errors.New("gate: unknown policy")
	ErrMismatch = errors.New("gate: the calibration was made with another encoder, tokenizer or metric")
	ErrStale    = errors.New("gate: the calibration is stale")
	ErrArtifact = errors.New("gate: unreadable calibration")
	ErrQueries  = errors.New("gate: no usable pseudo-queries")
)

// Use describes the store that a gate is used on.
type Use struct {
	Encoder identity.Encoder
	Metric  kernels.Metric
	// TextDigests yields the digest of each live context (corpus.Chunk.Digest, in binary), to compare with the
	// calibrated contexts. If it is nil, the staleness is unknown and reported as 0.
	TextDigests iter.Seq[[sha256.Size]byte]
	// LiveIDs yields the id of each live context. Pseudo-queries of other contexts are ignored. If it is nil, all
	// contexts are live.
	LiveIDs iter.Seq[string]
	// StaleTolerance is the share of unseen contexts above which New refuses with ErrStale. If it is nil, New never
	// refuses, because a cut-off that ignores new contexts is still better than none.
	StaleTolerance *float64
}

// Gate decides whether a query is in scope. It is immutable and safe for concurrent use.
type Gate struct {
	c           *Calibration
	positive    []float64 // sorted
	own         []float64 // best scores of one question of each context, the farthest first
	stale, gone float64
	shadow      *ShadowDecision // template without a decision; nil if there is no shadow

	questions  normed             // of live contexts, if the score uses them
	asked      []string           // ids of their contexts
	questionOf map[string][]int32 // the questions of each context
}

// New checks that the calibration belongs to the encoder, metric and contexts that the gate is used on:
// ErrMismatch names what differs, ErrStale how many contexts the calibration has not seen.
func New(c *Calibration, positive []float64, use Use) (*Gate, error) {
	if int64(len(positive)) != c.Positive.N || len(positive) == 0 {
		return nil, fmt.Errorf("%w: %d scores of D+ were given, the calibration counts %d", ErrArtifact, len(positive),
			c.Positive.N)
	}
	for _, x := range []struct{ what, calibrated, used string }{
		{"encoder", c.Encoder.Name + " " + c.Encoder.Digest, use.Encoder.Name + " " + use.Encoder.Digest},
		{"tokenizer", c.Encoder.TokenizerDigest, use.Encoder.TokenizerDigest},
		{"dimension", fmt.Sprint(c.Encoder.Dim), fmt.Sprint(use.Encoder.Dim)},
		{"metric", c.Metric.String(), use.Metric.String()},
	} {
		if x.what == "encoder" && c.Encoder.Digest == use.Encoder.Digest {
			continue // a renamed model gives the same vectors
		}
		if x.calibrated != x.used {
			return nil,
				fmt.Errorf("%w: %s %s, in use is %s; calibrate again", ErrMismatch, x.what, x.calibrated, x.used)
		}
	}
	if s := c.Chosen(); s != nil {
		positive = s.scores.positive
	}
	g := &Gate{c: c, positive: sorted(positive), own: c.ownScores()}
	if c.ScoredBy().Kind == PseudoQuery {
		g.ask(use.LiveIDs)
	}
	if use.TextDigests == nil {
		return g, nil
	}
	live, unseen, gone := compareDigests(c.ContextDigests, use.TextDigests)
	calibrated := len(c.ContextDigests) / digestBytes
	g.stale, g.gone = share(unseen, live), share(gone, calibrated)
	if most := use.StaleTolerance; most != nil && g.stale > *most {
		return nil,
			fmt.Errorf("%w: it has not seen %d of %d contexts (%.1f %%, tolerated are %.1f %%); calibrate again, or "+
				"raise the tolerance", ErrStale, unseen, live, 100*g.stale, 100**most)
	}
	return g, nil
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Stale returns the share of the live contexts whose text the calibration has not seen, in [0, 1].
func (g *Gate) Stale() float64 { return g.stale }

// Gone returns the share of the calibrated texts that no live context has, in [0, 1]. It does not make a gate stale,
// because the cut-off still comes from real pairs.
func (g *Gate) Gone() float64 { return g.gone }

// Warning says why the decisions are unreliable: the warnings of the calibration's Evidence, and that a promise no
// longer holds; or "".
func (g *Gate) Warning() string {
	warnings := g.c.Evidence.Warnings
	if g.c.Promise != nil && g.stale+g.gone > 0 {
		warnings = append(slices.Clone(warnings), fmt.Sprintf("the promise of %s has lapsed, because the contexts are "+
			"not those of the calibration any more; calibrate again", g.c.Policy))
	}
	return strings.Join(warnings, "; ")
}

// Staleness describes Stale and Gone in a sentence, "" if both are 0.
func (g *Gate) Staleness() string { return Staleness(g.stale, g.gone) }

// Staleness describes in a sentence how far a calibration is behind its store. The arguments are the shares that
// Gate.Stale and Gate.Gone return. It returns "" if both are 0.
func Staleness(stale, gone float64) string {
	switch {
	case stale > 0 && gone > 0:
		return fmt.Sprintf("calibration is stale by %s: so many chunks came after it; and %s of the calibrated chunks "+
			"have gone since", percent(stale), percent(gone))
	case stale > 0:
		return fmt.Sprintf("calibration is stale by %s: so many chunks came after it", percent(stale))
	case gone > 0:
		return fmt.Sprintf("%s of the calibrated chunks have gone since the calibration", percent(gone))
	}
	return ""
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// Decide decides for each row of queries, in order, whether retrieval can help: whether the best canonical score over
// the contexts is strictly closer than the cut-off. bias holds Gate.Bias of each query and is nil if the score is a
// similarity. The error is kernels.ErrEmpty if there are no contexts.
func (g *Gate) Decide(
	ctx context.Context, e engine.Interface, c retrieve.Contexts, queries engine.Vectors, bias []kernels.Biases,
) ([]Decision, error) {
	if err := g.fits(c); err != nil {
		return nil, err
	}
	if queries.Rows == 0 {
		return nil, nil
	}
	if g.ScoredBy().Kind == PseudoQuery {
		return g.decideAsked(ctx, e, queries)
	}
	hits, err := e.TopK(ctx, queries, c.Vectors, g.c.Metric, 1, bias)
	if err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	return g.decisions(c, hits, bias)
}

// DecideFound decides like Decide from the hits of an earlier similarity search for at least one context per query.
func (g *Gate) DecideFound(c retrieve.Contexts, hits [][]engine.Hit) ([]Decision, error) {
	if err := g.fits(c); err != nil {
		return nil, err
	}
	return g.decisions(c, hits, nil)
}

// decisions decides from the best hit of each query.
func (g *Gate) decisions(c retrieve.Contexts, hits [][]engine.Hit, bias []kernels.Biases) (_ []Decision, err error) {
	decisions := make([]Decision, len(hits))
	for i, h := range hits {
		if decisions[i], err = g.Found(retrieve.Result{ID: c.IDs[h[0].Row], Score: h[0].Score}); err != nil {
			return nil, err
		}
		if bias != nil {
			g.explain(&decisions[i], bias[i], h[0].Row)
		}
	}
	return decisions, nil
}

// explain adds the parts of the best context's score.
func (g *Gate) explain(d *Decision, bias kernels.Biases, row int) {
	b, ok := bias.(*postings.Biases)
	if !ok {
		return
	}
	part := float64(b.At(row))
	weight := g.ScoredBy().Weight
	similarity, cover := d.Score-part, part/weight
	d.Similarity, d.Cover, d.CoverWeight = &similarity, &cover, weight
}

// fits checks the contexts before any work is done on them.
func (g *Gate) fits(c retrieve.Contexts) error {
	switch v, ids := c.Vectors, c.IDs; {
	case v.Rows == 0:
		return fmt.Errorf("gate: %w: the base holds no contexts", kernels.ErrEmpty)
	case len(ids) != v.Rows:
		return fmt.Errorf("gate: %w: %d ids for %d contexts", kernels.ErrShape, len(ids), v.Rows)
	case v.Dim != g.c.Encoder.Dim:
		return fmt.Errorf("%w: dimension %d, in use is %d; calibrate again", ErrMismatch, g.c.Encoder.Dim, v.Dim)
	}
	return nil
}

// percentile returns the share of D+ that is not closer than score, in [0, 100].
func (g *Gate) percentile(score float64) float64 {
	n := len(g.positive)
	notCloser := sort.Search(n, func(i int) bool { return g.positive[i] > score })
	if g.c.Metric.Ascending() {
		notCloser = n - sort.SearchFloat64s(g.positive, score)
	}
	return 100 * share(notCloser, n)
}

// NullThreshold returns the score above the null answer from which a passage answers a question, if the calibration was
// made with the reader of the digest.
func (g *Gate) NullThreshold(reader string) (threshold float64, ok bool) {
	if r := g.c.Reader; r != nil && r.Digest == reader {
		return r.Threshold, true
	}
	return 0, false
}

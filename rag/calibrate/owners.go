package calibrate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// input embeds the pseudo-queries and gives each its context's row.
func (c *run) input(ctx context.Context) (gate.Input, error) {
	view := c.snap.View
	texts, owner, err := c.owners()
	if err != nil {
		return gate.Input{}, err
	}
	q := engine.Vectors{Dim: view.Vectors.Dim, Rows: len(texts)}
	for start := 0; start < len(texts); start += embedGroup {
		e, err := c.base.Embed(ctx, texts[start:min(start+embedGroup, len(texts))], embed.Query)
		if err != nil {
			return gate.Input{}, err
		}
		q.Data = append(q.Data, e.Data...)
		c.progress("embedding", int64(min(start+embedGroup, len(texts))), int64(len(texts)))
	}
	return gate.Input{
		Contexts: view.Vectors, ContextIDs: view.IDs, TextDigests: view.TextDigests, Groups: view.Groups,
		Queries: q, Owner: owner,
		Encoder: c.enc.Info().Encoder, CorpusDigest: view.Digest, Metric: c.snap.Metric(),
		Negatives: c.Negatives, Policy: c.Policy, Threshold: c.Threshold,
		Holdout: c.Holdout, Resamples: c.Resamples, Seed: c.Seed,
		Provenance: c.provenance, Tool: buildinfo.Tool(), Checkpoint: filepath.Join(c.dir, c.Name+".pairs"),
	}, nil
}

// owners drops the pseudo-queries of contexts that the store does not hold, and those outside the sample.
func (c *run) owners() (texts []string, owner []int32, err error) {
	rows := make(map[string]int32, len(c.snap.View.IDs))
	for i, id := range c.snap.View.IDs {
		rows[id] = int32(i)
	}
	var known []pseudo.Query
	var firstUnknown string
	unknown := 0
	for _, q := range c.queries {
		if _, ok := rows[q.ContextID]; ok {
			known = append(known, q)
			continue
		}
		if unknown++; unknown == 1 {
			firstUnknown = q.ContextID
		}
	}
	if unknown > 0 {
		err := fmt.Errorf("%w: %d of %d name a context_id that %s does not hold, the first %q; "+
			"'sluice docs list --chunks' shows the ids",
			gate.ErrQueries, unknown, len(c.queries), c.base.Dir(), firstUnknown)
		if len(known) == 0 || c.Strict {
			return nil, nil, err
		}
		c.base.Logger().Warn(err.Error())
		c.provenance.Rejected["unknown_context"] = unknown
	}
	if c.Queries != nil && c.Sample > 0 {
		known = sample(known, c.Sample, c.Seed)
	}
	distinct := map[int32]bool{}
	for _, q := range known {
		texts, owner = append(texts, q.Text), append(owner, rows[q.ContextID])
		distinct[rows[q.ContextID]] = true
	}
	c.provenance.Sampled = len(distinct)
	if len(texts) == 0 {
		return nil, nil, fmt.Errorf("%w: %s", gate.ErrQueries, c.why())
	}
	return texts, owner, nil
}

// why explains that no pseudo-query is left.
func (c *run) why() string {
	if c.report == nil {
		return fmt.Sprintf("%s has no usable line", c.Source)
	}
	return fmt.Sprintf("of %d that %s wrote for %d contexts none was kept (rejected: %v); "+
		"a larger --sample, a better --model or --queries FILE helps",
		c.report.Generated, c.provenance.Model, c.report.Contexts, c.report.Rejected)
}

// sample keeps the queries of n contexts, drawn with the seed; the order stays.
func sample(queries []pseudo.Query, n int, seed uint64) (kept []pseudo.Query) {
	var ids []string
	seen := map[string]bool{}
	for _, q := range queries {
		if !seen[q.ContextID] {
			seen[q.ContextID] = true
			ids = append(ids, q.ContextID)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	drawn := map[string]bool{}
	for _, id := range ids[:min(n, len(ids))] {
		drawn[id] = true
	}
	for _, q := range queries {
		if drawn[q.ContextID] {
			kept = append(kept, q)
		}
	}
	return kept
}

package calibrate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/buildinfo"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/pairs"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// input embeds the pseudo-queries and gives each its context's row.
func (c *run) input(ctx context.Context) (gate.Input, error) {
	view := c.live
	texts, owner, err := c.owners()
	if err != nil {
		return gate.Input{}, err
	}
	own := len(texts)
	others, about, err := c.generalQuestions(ctx, texts)
	if err != nil {
		return gate.Input{}, err
	}
	texts = append(texts, others...)
	c.names = make([][32]byte, len(texts))
	for i, text := range texts {
		c.names[i] = sha256.Sum256([]byte(text))
	}
	q, err := c.embed(ctx, texts, c.names)
	if err != nil {
		return gate.Input{}, err
	}
	words, err := c.words(ctx, texts, own)
	if err != nil {
		return gate.Input{}, err
	}
	domains, domain, err := c.domains(ctx, texts[:own], q.Slice(0, own))
	if err != nil {
		return gate.Input{}, err
	}
	return gate.Input{
		General: q.Slice(own, len(texts)), AboutGeneral: about, Topics: view.Topics,
		Contexts: view.Vectors, ContextIDs: view.IDs, TextDigests: view.TextDigests, Groups: view.Groups,
		Queries: q.Slice(0, own), Owner: owner, Domains: domains, Domain: domain,
		Encoder: c.enc.Info().Encoder, CorpusDigest: view.Digest, Metric: c.snap.Metric(),
		Negatives: c.Negatives, Policy: c.Policy, Score: c.Score, Words: words, Threshold: c.Threshold,
		Holdout: c.Holdout, Resamples: c.Resamples, Seed: c.Seed,
		Provenance: c.provenance, Tool: buildinfo.Tool(), Checkpoint: filepath.Join(c.dir, c.Name+".pairs"),
		Keep: c.keep(c.names[:own]), Counted: func(r pairs.Report) { c.counted = r },
		KeepQuestions: c.KeepQuestions,
	}, nil
}

// domains returns the verdicts of the store's router on the questions; nil without a router.
func (c *run) domains(
	ctx context.Context, texts []string, vectors engine.Vectors,
) (d *gate.Domains, of []int32, err error) {
	if c.Domains == domainsOff {
		return nil, nil, nil
	}
	r, err := c.base.Router(c.snap.Store)
	if err != nil {
		c.base.Logger().Warn(fmt.Sprintf("no cut-offs by domain: %v", err))
	}
	if err != nil || r == nil {
		return nil, nil, nil
	}
	verdicts, err := r.Decide(ctx, c.base.Engine(), texts, vectors)
	for _, v := range verdicts {
		k, _ := slices.BinarySearch(r.Labels, v.Labels[0].Label)
		of = append(of, int32(k))
	}
	return &gate.Domains{Router: r.Digest(), Names: r.Labels}, of, err
}

// words returns the texts behind the vectors: the first own ones are pseudo-queries, the others general questions.
func (c *run) words(ctx context.Context, texts []string, own int) (*gate.Words, error) {
	x, err := c.snap.Postings(ctx)
	if err != nil {
		return nil, err
	}
	w := &gate.Words{Index: x, Queries: texts[:own], General: texts[own:]}
	if len(c.live.Rows) < x.Rows() { // rows of deleted chunks lie between
		for _, row := range c.live.Rows {
			w.Rows = append(w.Rows, int(row-c.snap.View.First))
		}
	}
	return w, nil
}

// keep says where counts are kept.
func (c *run) keep(names [][32]byte) pairs.Keep {
	var limit int64 // 0 keeps as much as pays
	if c.KeepBytes != nil {
		if limit = *c.KeepBytes; limit <= 0 {
			return pairs.Keep{}
		}
	}
	return pairs.Keep{
		File: filepath.Join(c.dir, c.Name+".state"), Limit: limit,
		ContextRows: c.live.Rows, QueryNames: names, Gone: c.gone,
	}
}

// embed returns the questions' vectors: kept ones, and new ones, which it keeps.
func (c *run) embed(ctx context.Context, texts []string, names [][32]byte) (q engine.Vectors, err error) {
	dim := c.live.Vectors.Dim
	q = engine.Vectors{Dim: dim, Rows: len(texts), Data: make([]float32, len(texts)*dim)}
	if c.vectors, err = openVectors(filepath.Join(c.dir, c.Name+".vectors"), c.enc.Info().Encoder); err != nil {
		return q, err
	}
	var missing []int
	for i, name := range names {
		if !c.vectors.get(name, q.Data[i*dim:(i+1)*dim]) {
			missing = append(missing, i)
		}
	}
	embedded := c.base.Embed            // which warns of languages that the encoder does not know
	if c.provenance.Kind == Extracted { // these are in none
		embedded = c.enc.Embed
	}
	done := len(texts) - len(missing)
	for group := range slices.Chunk(missing, embedGroup) {
		ask, keys := make([]string, len(group)), make([][32]byte, len(group))
		for k, i := range group {
			ask[k], keys[k] = texts[i], names[i]
		}
		e, err := embedded(ctx, ask, embed.Query)
		if err != nil {
			return q, err
		}
		for k, i := range group {
			copy(q.Data[i*dim:(i+1)*dim], e.Data[k*dim:(k+1)*dim])
		}
		if err := c.vectors.add(keys, e.Data); err != nil {
			return q, fmt.Errorf("calibrate: keeping the questions' vectors: %w", err)
		}
		done += len(group)
		c.progress("embedding", int64(done), int64(len(texts)))
	}
	if len(missing) == 0 {
		c.progress("embedding", int64(done), int64(len(texts)))
	}
	return q, nil
}

// owners drops the pseudo-queries of contexts that the store does not hold, and those outside the sample.
func (c *run) owners() (texts []string, owner []int32, err error) {
	rows := make(map[string]int32, len(c.live.IDs))
	for i, id := range c.live.IDs {
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
		if c.draw == nil || c.draw.first {
			c.base.Logger().Warn(err.Error())
		}
		c.provenance.Rejected["unknown_context"] = unknown
	}
	switch {
	case c.Queries != nil && c.draw != nil:
		in := make(map[int32]bool, c.draw.n)
		for _, row := range c.draw.rows() {
			in[int32(row)] = true
		}
		known = slices.DeleteFunc(known, func(q pseudo.Query) bool { return !in[rows[q.ContextID]] })
	case c.Queries != nil && c.Sample > 0:
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

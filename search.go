package sluice

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// Embed returns the vectors of texts, in their order. It needs no store. Cut and repaired texts are
// counted in the result and logged.
func (s *Sluice) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	enc, err := s.encoder.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.embed(ctx, enc, texts, role)
}

func (s *Sluice) embed(ctx context.Context, enc embed.Embedder, texts []string, role embed.Role) (*embed.Embeddings, error) {
	e, err := enc.Embed(ctx, texts, role)
	if err != nil {
		return nil, err
	}
	if e.Truncated > 0 {
		s.log.Warn(fmt.Sprintf("%d of %d texts were cut at the %d tokens that %s reads", e.Truncated, len(texts), enc.Info().MaxTokens, enc.Info().Name))
	}
	if e.Repaired > 0 {
		s.log.Warn(fmt.Sprintf("%d of %d texts held NUL bytes or invalid UTF-8, which were replaced by U+FFFD", e.Repaired, len(texts)))
	}
	return e, nil
}

func vectors(e *embed.Embeddings) engine.Vectors {
	rows := 0
	if e.Dim > 0 {
		rows = len(e.Data) / e.Dim
	}
	return engine.Vectors{Data: e.Data, Rows: rows, Dim: e.Dim}
}

// EncoderInfo loads the encoder and describes it.
func (s *Sluice) EncoderInfo(ctx context.Context) (embed.Info, error) {
	enc, err := s.encoder.get(ctx)
	if err != nil {
		return embed.Info{}, err
	}
	return enc.Info(), nil
}

// Gate decides for each query whether the knowledge base can help with it. A store without a calibration
// is ErrNotCalibrated, one whose calibration is too stale gate.ErrStale.
func (s *Sluice) Gate(ctx context.Context, queries []string) ([]gate.Decision, error) {
	p, enc, err := s.searchable(ctx)
	if err != nil {
		return nil, err
	}
	defer s.release(p)
	g, err := s.gateOf(ctx, p, enc.Info())
	if err != nil {
		return nil, err
	}
	e, err := s.embed(ctx, enc, queries, embed.Query)
	if err != nil {
		return nil, err
	}
	return g.DecideAll(ctx, s.searcher(p), p.view.Vectors, p.view.IDs, vectors(e))
}

// gateOf returns the picture's gate and makes it on first use. A stale calibration is said once.
func (s *Sluice) gateOf(ctx context.Context, p *snapshot, info embed.Info) (*gate.Gate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gate != nil {
		return p.gate, nil
	}
	c, positive, err := inForce(ctx, p.store)
	if err != nil {
		return nil, err
	}
	g, err := gate.New(c, positive, gate.Use{Encoder: gateEncoder(info), Metric: p.store.Metric(), TextDigests: p.view.TextDigests, StaleTolerance: s.cfg.StaleTolerance})
	if errors.Is(err, gate.ErrStale) {
		return nil, fmt.Errorf("%w ('sluice calibrate'; gate.stale_tolerance)", err)
	}
	if err != nil {
		return nil, err
	}
	if stale := g.Stale(); stale > 0 {
		s.log.Warn(fmt.Sprintf("calibration is stale by %s: so many chunks came after it; 'sluice calibrate' brings it up to date", percent(stale)))
	}
	p.gate = g
	return g, nil
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

// calibrationKey is where the store keeps the name of the calibration in force.
const calibrationKey = "calibration"

// inForce reads the calibration that the store names.
func inForce(ctx context.Context, st *store.Store) (*gate.Calibration, []float64, error) {
	name, err := st.Meta(ctx, calibrationKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, fmt.Errorf("%w: %s; 'sluice calibrate' makes a calibration, 'ask --gate open' or 'closed' does without", ErrNotCalibrated, st.Dir())
	}
	if err != nil {
		return nil, nil, err
	}
	return gate.Load(calibrationPath(st.Dir(), string(name)))
}

func calibrationPath(dir, name string) string {
	return filepath.Join(dir, "calibration", name+".cal.json")
}

// RetrieveOptions of Retrieve. The zero value takes four contexts in the best mode that there is.
type RetrieveOptions struct {
	K    int
	Mode retrieve.Mode
}

const defaultK = 4

func (o RetrieveOptions) withDefaults() RetrieveOptions {
	if o.K == 0 {
		o.K = defaultK
	}
	if o.Mode == "" {
		o.Mode = retrieve.Auto
	}
	return o
}

// Retrieve returns the best contexts of each query, better first. It does not ask the gate.
func (s *Sluice) Retrieve(ctx context.Context, queries []string, o RetrieveOptions) ([][]retrieve.Result, error) {
	o = o.withDefaults()
	if _, err := retrieve.ParseMode(string(o.Mode)); err != nil {
		return nil, err
	}
	p, enc, err := s.searchable(ctx)
	if err != nil {
		return nil, err
	}
	defer s.release(p)
	e, err := s.embed(ctx, enc, queries, embed.Query)
	if err != nil {
		return nil, err
	}
	return s.search(ctx, p, vectors(e), o)
}

func (s *Sluice) search(ctx context.Context, p *snapshot, q engine.Vectors, o RetrieveOptions) ([][]retrieve.Result, error) {
	return retrieve.Search(ctx, s.searcher(p), retrieve.Contexts{Vectors: p.view.Vectors, IDs: p.view.IDs}, q, p.store.Metric(), o.Mode, o.K)
}

// Chunks returns chunks by their ids, in that order; a missing one is store.ErrNotFound.
func (s *Sluice) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	st, err := s.readStore(ctx)
	if err != nil {
		return nil, err
	}
	return st.Chunks(ctx, ids)
}

// best merges the lists of several queries: each context with its best score, better first, k at most.
// Equal scores stay in the order in which they were found.
func best(lists [][]retrieve.Result, metric kernels.Metric, k int) []retrieve.Result {
	merged := []retrieve.Result{}
	at := map[string]int{}
	for _, list := range lists {
		for _, r := range list {
			i, seen := at[r.ID]
			switch {
			case !seen:
				at[r.ID] = len(merged)
				merged = append(merged, r)
			case metric.Better(r.Score, merged[i].Score):
				merged[i].Score = r.Score
			}
		}
	}
	slices.SortStableFunc(merged, func(a, b retrieve.Result) int {
		switch {
		case metric.Better(a.Score, b.Score):
			return -1
		case metric.Better(b.Score, a.Score):
			return 1
		}
		return 0
	})
	return merged[:min(k, len(merged))]
}

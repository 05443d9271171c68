package sluice

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Embed returns the vectors of texts, in their order. It needs no store. Cut and repaired texts are
// counted in the result and logged.
func (s *Sluice) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	return s.base.Embed(ctx, texts, role)
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
	p, enc, err := s.base.Searchable(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	g, err := p.Gate(ctx, enc.Info())
	if err != nil {
		return nil, err
	}
	e, err := s.base.Embed(ctx, queries, embed.Query)
	if err != nil {
		return nil, err
	}
	return p.Decide(ctx, g, vectors(e))
}

// Calibrate makes the calibration of the store and puts it in force, as calibrate.Run says: pseudo-queries →
// distributions → policy and cut-off → artifact.
func (s *Sluice) Calibrate(ctx context.Context, o CalibrateOptions) (*CalibrateResult, error) {
	return calibrate.Run(ctx, s.base, calibrate.Input{Options: o, Model: s.model.get, Templates: s.cfg.Templates})
}

// Calibration returns the calibration in force and how stale it is; it needs no model.
func (s *Sluice) Calibration(ctx context.Context) (*CalibrateResult, error) {
	return calibrate.Current(ctx, s.base)
}

// Repolicy puts the calibration in force under another policy and threshold, without computing the
// distributions again. plot is as in CalibrateOptions.
func (s *Sluice) Repolicy(
	ctx context.Context, policy string, threshold float64, plot string,
) (*CalibrateResult, error) {
	return calibrate.Repolicy(ctx, s.base, policy, threshold, plot)
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
	p, _, err := s.base.Searchable(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	e, err := s.base.Embed(ctx, queries, embed.Query)
	if err != nil {
		return nil, err
	}
	return p.Search(ctx, vectors(e), o.Mode, o.K)
}

// Chunks returns chunks by their ids, in that order; a missing one is store.ErrNotFound.
func (s *Sluice) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	st, err := s.base.Reader(ctx)
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

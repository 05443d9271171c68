package sluice

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/route"
)

// labeller is the model that Config.Classifier names: a classifier of texts or of tokens, or a router.
type labeller struct {
	texts  *embed.Classifier
	tokens *embed.TokenClassifier
	router *route.Router
}

// Stats are those of the model of texts; a router has none.
func (l labeller) Stats() embed.Stats {
	if l.texts == nil {
		return embed.Stats{}
	}
	return l.texts.Stats()
}

// ModelNames are the models of a system by the names that Config gives them.
type ModelNames struct {
	Model, Encoder, Classifier, Reranker string // "": none, or the encoder that the store records
}

// ModelNames says which models are used, without loading any.
func (s *Sluice) ModelNames() ModelNames {
	n := ModelNames{Model: s.cfg.Model, Encoder: s.cfg.Encoder, Classifier: s.cfg.Classifier, Reranker: s.cfg.Reranker}
	if s.cfg.Generator != nil {
		n.Model = s.cfg.Generator.Info().Name
	}
	if s.cfg.Embedder != nil {
		n.Encoder = s.cfg.Embedder.Info().Name
	}
	if s.cfg.Scorer != nil {
		n.Reranker = s.cfg.Scorer.Info().Name
	}
	return n
}

// Classify returns the probabilities of each text's labels, by the model that Config.Classifier names. It needs no
// store. Cut and repaired texts are counted in the result. A model that labels parts of texts is ErrOption.
func (s *Sluice) Classify(ctx context.Context, texts []string) (_ *embed.Classes, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	l, err := s.classifier.get(ctx)
	if err != nil {
		return nil, err
	}
	if l.router != nil {
		return nil, fmt.Errorf("%w: %s is a router: use Route", ErrOption, s.cfg.Classifier)
	}
	if l.texts == nil {
		return nil, fmt.Errorf("%w: %s labels parts of texts, not whole ones: use Spans", ErrOption, s.cfg.Classifier)
	}
	return l.texts.Classify(ctx, texts)
}

// Spans returns the labelled parts of each text, such as names, by the model that Config.Classifier names. It needs no
// store. Cut and repaired texts are counted in the result. A model that labels whole texts is ErrOption.
func (s *Sluice) Spans(ctx context.Context, texts []string) (_ *embed.Spans, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	l, err := s.classifier.get(ctx)
	if err != nil {
		return nil, err
	}
	if l.tokens == nil {
		return nil,
			fmt.Errorf("%w: %s labels whole texts, not parts of them: use Classify", ErrOption, s.cfg.Classifier)
	}
	return l.tokens.Spans(ctx, texts)
}

// names is the configured classifier if it labels parts of texts, else nil.
func (s *Sluice) names(ctx context.Context) (embed.Tagger, error) {
	if s.cfg.Classifier == "" {
		return nil, nil
	}
	l, err := s.classifier.get(ctx)
	if err != nil {
		return nil, err
	}
	if l.tokens == nil {
		s.log.Warn(fmt.Sprintf("%s labels whole texts, not parts of them: names are found by rules", s.cfg.Classifier))
		return nil, nil
	}
	return l.tokens, nil
}

// LabelsParts loads the model that Config.Classifier names, and tells whether it is one for Spans.
func (s *Sluice) LabelsParts(ctx context.Context) (parts bool, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave(&err)
	l, err := s.classifier.get(ctx)
	return l.tokens != nil, err
}

// Rerank scores how well documents answer a query, by the cross-encoder that Config.Reranker names; Scores.Ranked puts
// them in order. It needs no store.
func (s *Sluice) Rerank(ctx context.Context, query string, documents []string) (_ *embed.Scores, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	r, err := s.reranker.get(ctx)
	if err != nil {
		return nil, err
	}
	return r.Score(ctx, query, documents)
}

// openClassifier loads the classifier that the options name.
func (s *Sluice) openClassifier(ctx context.Context) (l labeller, closer func() error, err error) {
	if s.cfg.Classifier == "" {
		return l, nil, fmt.Errorf("%w: no classifier is named (a name of 'models list', or a folder)", ErrOption)
	}
	dir, err := models.Locate(s.cfg.Classifier)
	if err != nil {
		return l, nil, err
	}
	if route.IsRouter(dir) {
		l.router, err = route.Load(dir)
		return l, func() error { return nil }, err
	}
	kind, err := embed.KindOf(dir)
	if err != nil {
		return l, nil, err
	}
	s.log.Debug("loading classifier", "dir", dir, "kind", kind)
	if kind == embed.KindTokenClassifier {
		if l.tokens, err = embed.OpenTokenClassifier(ctx, dir, s.embedOptions()); err != nil {
			return l, nil, err
		}
		return l, l.tokens.Close, nil
	}
	if l.texts, err = embed.OpenClassifier(ctx, dir, s.embedOptions()); err != nil {
		return l, nil, err
	}
	return l, l.texts.Close, nil
}

// openReranker loads the cross-encoder that the options name.
func (s *Sluice) openReranker(ctx context.Context) (embed.Scorer, func() error, error) {
	if s.cfg.Scorer != nil {
		return s.cfg.Scorer, nil, nil
	}
	if s.cfg.Reranker == "" {
		return nil, nil, fmt.Errorf("%w: no reranker is named (a name of 'models list', or a folder)", ErrOption)
	}
	dir, err := models.Locate(s.cfg.Reranker)
	if err != nil {
		return nil, nil, err
	}
	s.log.Debug("loading reranker", "dir", dir)
	r, err := embed.OpenReranker(ctx, dir, s.embedOptions())
	if err != nil {
		return nil, nil, err
	}
	return r, r.Close, nil
}

// openEntailment loads the model that the options name.
func (s *Sluice) openEntailment(ctx context.Context) (*embed.Entailment, func() error, error) {
	dir, err := models.Locate(s.cfg.Entailment)
	if err != nil {
		return nil, nil, err
	}
	s.log.Debug("loading entailment model", "dir", dir)
	e, err := embed.OpenEntailment(ctx, dir, s.embedOptions())
	if err != nil {
		return nil, nil, err
	}
	return e, e.Close, nil
}

// embedOptions are what models that read texts are opened with.
func (s *Sluice) embedOptions() embed.Options {
	return embed.Options{Library: s.cfg.ONNXRuntime, Workers: s.cfg.Workers, MaxBatchTokens: s.cfg.MaxBatchTokens,
		Queue: s.cfg.EncoderQueue, Cores: s.budget, Device: s.cfg.EncoderDevice, DeviceMemory: s.cfg.EncoderMemory}
}

package sluice

import (
	"context"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/decisions"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// With opens another store with the options of s, sharing its models, engine and CPU budget. Only a store made with
// another encoder opens its own, unless Config.Encoder names one. Close the result before s.
func (s *Sluice) With(store string) *Sluice {
	c := s.cfg
	c.Store = store
	n := s.sharing(c)
	n.encoder = newLazy(func(ctx context.Context) (embed.Embedder, func() error, error) {
		return n.sharedEncoder(ctx, s)
	})
	n.openBase()
	if c.Decisions.File == decisions.Database {
		var err error
		if n.decisions, err = openDecisions(c, n.shared); err != nil {
			n.log.Warn("the decisions of a store are not logged", "store", n.base.Dir(), "because", err)
		}
		n.ownLog = true
	}
	return n
}

// For opens the same store for members of groups, who find the documents that are for everybody or for one of their
// groups, as if the store held nothing else, also in the gate's scores, word statistics and counts. The result writes
// nothing and shares the models of s. Close it before s.
func (s *Sluice) For(groups ...string) *Sluice {
	c := s.cfg
	c.Groups = append([]string{}, groups...)
	n := s.sharing(c)
	n.encoder = newLazy(func(ctx context.Context) (embed.Embedder, func() error, error) {
		e, err := s.encoder.get(ctx)
		return e, nil, err
	})
	k := n.knowledge()
	k.Dir, k.Shared = s.base.Dir(), s.shared
	n.base = knowledge.New(k)
	return n
}

func (s *Sluice) sharing(c Config) *Sluice {
	return &Sluice{cfg: c, log: s.log, budget: s.budget, engine: s.engine, calls: newCalls(), asking: s.asking,
		model: s.model, others: s.others, cards: s.cards, classifier: s.classifier, reranker: s.reranker,
		entailment: s.entailment, reader: s.reader, ocr: s.ocr, web: s.web, decisions: s.decisions, shares: true}
}

// sharedEncoder returns the encoder of another system if the store was made with it.
func (s *Sluice) sharedEncoder(ctx context.Context, of *Sluice) (embed.Embedder, func() error, error) {
	e, err := of.encoder.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.base.Reader(ctx)
	if err == nil && s.cfg.Encoder == "" && s.cfg.Embedder == nil && !st.Encoder().Same(e.Info().Encoder) {
		return s.openEncoder(ctx)
	}
	return e, nil, s.keepRuntime(ctx, e)
}

package sluice

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// With opens another store over the models, the engine and the CPU budget of s. Only a store of another encoder than
// that of s opens that one for itself, unless Config.Encoder names one. The options are those of s. It has to be closed
// before s.
func (s *Sluice) With(store string) *Sluice {
	c := s.cfg
	c.Store = store
	n := &Sluice{cfg: c, log: s.log, budget: s.budget, engine: s.engine, calls: newCalls(), asking: s.asking,
		model: s.model, others: s.others, cards: s.cards, classifier: s.classifier, reranker: s.reranker,
		entailment: s.entailment, web: s.web, decisions: s.decisions, shares: true}
	n.encoder = newLazy(func(ctx context.Context) (embed.Embedder, func() error, error) {
		return n.sharedEncoder(ctx, s)
	})
	n.base = knowledge.New(n.knowledge())
	return n
}

// sharedEncoder is another one's encoder, if the store was made with it.
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

// Follow has every look at the store be taken in the background until ctx ends, for servers: calls then neither look
// whether the store has changed nor wait until what they go by is brought up to it. What this process writes they see
// when Refresh has returned, what others write within about the time given.
func (s *Sluice) Follow(ctx context.Context, every time.Duration) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return
	}
	defer leave(&err)
	s.base.Follow(ctx, every)
}

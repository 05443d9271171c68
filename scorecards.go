package sluice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/exam"
)

// Scorecard is what an examination found that a language model can do.
type Scorecard = exam.Card

// cards keeps the cards that were looked up, by the name of the model: a card changes only by Examine.
type cards struct {
	mu    sync.Mutex
	known map[string]*exam.Card
}

// Scorecard returns what is known of a language model: a name of the built-in list, a GGUF file, or the URL of its
// server; "" is Config.Model. nil: it has not been examined, or is a Config.Generator. A card that was edited, or is of
// another version of the examination, is exam.ErrCard.
func (s *Sluice) Scorecard(ctx context.Context, model string) (*Scorecard, error) {
	if model == "" && s.cfg.Generator != nil {
		return nil, nil
	}
	return scorecards.Find(ctx, cmp.Or(model, s.cfg.Model))
}

// card is Scorecard for an answer: looked up once, and one that cannot be used is logged and counts as none.
func (s *Sluice) card(ctx context.Context, model string) (*exam.Card, error) {
	s.cards.mu.Lock()
	defer s.cards.mu.Unlock()
	if c, ok := s.cards.known[model]; ok {
		return c, nil
	}
	c, err := s.Scorecard(ctx, model)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		s.log.Warn(fmt.Sprintf("the language model counts as not examined: %v", err))
	}
	s.cards.known[model] = c
	return c, nil
}

// calibrated returns the input of a calibration.
func (s *Sluice) calibrated(o CalibrateOptions) calibrate.Input {
	in := calibrate.Input{Options: o, Model: s.model.get, Templates: s.cfg.Templates}
	if s.cfg.Generator == nil { // whoever brings a model has judged it
		in.Card = func(ctx context.Context) (*exam.Card, error) { return s.card(ctx, "") }
	}
	return in
}

// ExamineOptions bound and watch an examination.
type ExamineOptions struct {
	Within   time.Duration // what it may take; 0: any time
	Progress func(done, total int)
}

// Examine finds out what a language model can do and keeps its scorecard in the cache, as exam.Run says; "" is
// Config.Model. Quotes are made with the store's encoder, or the default one. *exam.LongError is known after the first
// calls of the model; the card that is kept then has the estimate and no results.
func (s *Sluice) Examine(ctx context.Context, model string, o ExamineOptions) (_ *Scorecard, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	if s.cfg.Generator != nil {
		return nil, fmt.Errorf("%w: a Config.Generator has no file by which its scorecard could be kept", ErrOption)
	}
	model = cmp.Or(model, s.cfg.Model)
	get := s.model.get
	if model != s.cfg.Model {
		get = func(ctx context.Context) (llm.Generator, error) { return s.others.get(ctx, model) }
	}
	in := exam.Options{Engine: s.engine, Within: o.Within, Progress: o.Progress}
	if in.Model, err = get(ctx); err != nil {
		return nil, err
	}
	if in.Digest, err = scorecards.Digest(ctx, model); err != nil {
		return nil, err
	}
	if in.Embedder, err = s.base.Encoder(ctx); err != nil {
		return nil, err
	}
	card, err := exam.Run(ctx, in)
	if card == nil {
		return nil, err
	}
	s.cards.mu.Lock()
	clear(s.cards.known)
	s.cards.mu.Unlock()
	return card, errors.Join(err, scorecards.Keep(card))
}

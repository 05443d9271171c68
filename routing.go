package sluice

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/route"
)

// The settings and results of routers.
type (
	RouterSettings = route.Settings
	RouterExamples = route.Examples
	RouteDecision  = route.Decision
)

// RouterOptions are those of TrainRouter.
type RouterOptions struct {
	Examples *RouterExamples // route.ReadExamples reads them
	Settings RouterSettings  // route.Defaults are the default ones
	Progress func(stage string, done, total int)
	Warn     func(text string)
}

// TrainRouter trains a classifier of texts over weights of words, vectors of the encoder or both, as route.Train says.
// Router.Save writes it into a folder, which Config.Classifier may name. It needs no store.
func (s *Sluice) TrainRouter(ctx context.Context, o RouterOptions) (_ *route.Router, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	in := route.Input{Examples: o.Examples, Settings: o.Settings, Engine: s.engine, Progress: o.Progress, Warn: o.Warn}
	if o.Settings.Features != route.TFIDF {
		if in.Encoder, err = s.encoder.get(ctx); err != nil {
			return nil, err
		}
	}
	return route.Train(ctx, in)
}

// Route tells the domains of texts, by the router that Config.Classifier names. It needs no store. Another model than a
// router is ErrOption, a router of another encoder route.ErrEncoder.
func (s *Sluice) Route(ctx context.Context, texts []string) (_ []RouteDecision, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	l, err := s.classifier.get(ctx)
	if err != nil {
		return nil, err
	}
	if l.router == nil {
		return nil, fmt.Errorf("%w: %s is no router: use Classify or Spans", ErrOption, s.cfg.Classifier)
	}
	return s.routed(ctx, l.router, texts)
}

// RouteBy is Route by a router that TrainRouter has made.
func (s *Sluice) RouteBy(ctx context.Context, r *route.Router, texts []string) (_ []RouteDecision, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return s.routed(ctx, r, texts)
}

// routed asks a router, with the encoder if it reads vectors.
func (s *Sluice) routed(ctx context.Context, r *route.Router, texts []string) ([]RouteDecision, error) {
	if !r.NeedsVectors() {
		return r.Decide(ctx, s.engine, texts, engine.Vectors{})
	}
	enc, err := s.encoder.get(ctx)
	if err != nil {
		return nil, err
	}
	return r.DecideTexts(ctx, s.engine, enc, texts)
}

// IsRouter tells whether Config.Classifier names a router, for Route.
func (s *Sluice) IsRouter() bool {
	dir, err := models.Locate(s.cfg.Classifier)
	return s.cfg.Classifier != "" && err == nil && route.IsRouter(dir)
}

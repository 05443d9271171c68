package sluice

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/rag/domains"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
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

// The options and results of a store's router.
type (
	DomainOptions = domains.Options
	DomainResult  = domains.Result
)

// StoreRouter is the router of the store with how far it is behind.
type StoreRouter struct {
	Dir string `json:"dir"`
	route.About
	Stale knowledge.RouterStaleness `json:"stale"`
}

// TrainStoreRouter makes the router of the store, as domains.Train says: chunks → domains → router. Searches with
// RetrieveOptions.Route "auto" go by it, and documents without a topic get theirs from it when they are ingested.
func (s *Sluice) TrainStoreRouter(ctx context.Context, o DomainOptions) (_ *DomainResult, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return domains.Train(ctx, s.base, s.engine, o)
}

// StoreRouter describes the router of the store; store.ErrNotFound when it has none.
func (s *Sluice) StoreRouter(ctx context.Context) (_ *StoreRouter, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	snap, err := s.base.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Release()
	r, err := s.base.Router(snap.Store)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, fmt.Errorf("%w: the store %s has no router; 'sluice route train' makes one", store.ErrNotFound,
			s.base.Dir())
	}
	return &StoreRouter{Dir: knowledge.RouterDir(snap.Store), About: r.About, Stale: snap.RouterStaleness(r)}, nil
}

// RemoveStoreRouter removes the router of the store, if it has one.
func (s *Sluice) RemoveStoreRouter(ctx context.Context) (err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer leave(&err)
	return domains.Remove(ctx, s.base)
}

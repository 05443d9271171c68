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

// Router gives access to the store's router, which predicts the domain of a text, and to routers in folders.
type Router struct{ s *Sluice }

// Router returns the router of the store.
func (s *Sluice) Router() Router { return Router{s} }

// StoreRouter describes the store's router and how stale it is.
type StoreRouter struct {
	Dir string `json:"dir"`
	route.About
	Stale knowledge.RouterStaleness `json:"stale"`
}

// Train makes the store's router, as domains.Train describes: chunks → domains → router. Searches with
// retrieve.Options.Route "auto" use it, and documents ingested without a topic get one from it.
func (r Router) Train(ctx context.Context, o domains.Options) (*domains.Result, error) {
	return during(ctx, r.s, func(ctx context.Context) (*domains.Result, error) {
		return domains.Train(ctx, r.s.base, r.s.engine, o)
	})
}

// Get describes the store's router; the error is store.ErrNotFound if it has none.
func (r Router) Get(ctx context.Context) (*StoreRouter, error) {
	return looking(ctx, r.s, func(_ context.Context, snap *knowledge.Snapshot) (*StoreRouter, error) {
		found, err := r.s.base.Router(snap.Store)
		if err != nil {
			return nil, err
		}
		if found == nil {
			return nil, fmt.Errorf("%w: the store %s has no router; 'sluice route train' makes one", store.ErrNotFound,
				r.s.base.Dir())
		}
		return &StoreRouter{Dir: knowledge.RouterDir(snap.Store), About: found.About,
			Stale: snap.RouterStaleness(found)}, nil
	})
}

// Remove removes the store's router, if it has one.
func (r Router) Remove(ctx context.Context) error {
	return run(ctx, r.s, func(ctx context.Context) error { return domains.Remove(ctx, r.s.base) })
}

// RouterOptions configures TrainOn.
type RouterOptions struct {
	Examples *route.Examples // see route.ReadExamples
	Settings route.Settings  // see route.Defaults
	Progress func(stage string, done, total int)
	Warn     func(text string)
}

// TrainOn trains a classifier of texts on word weights, vectors of the encoder or both, as route.Train describes.
// route.Router.Save writes it into a folder, which Config.Classifier may name. It needs no store.
func (r Router) TrainOn(ctx context.Context, o RouterOptions) (*route.Router, error) {
	return during(ctx, r.s, func(ctx context.Context) (_ *route.Router, err error) {
		in := route.Input{Examples: o.Examples, Settings: o.Settings, Engine: r.s.engine, Progress: o.Progress,
			Warn: o.Warn}
		if o.Settings.Features != route.TFIDF {
			if in.Encoder, err = r.s.encoder.get(ctx); err != nil {
				return nil, err
			}
		}
		return route.Train(ctx, in)
	})
}

// Route returns the domains of texts by the given router, or by the one that Config.Classifier names if by is nil. It
// needs no store. A Config.Classifier that is not a router is ErrOption, a router made with another encoder is
// route.ErrEncoder.
func (r Router) Route(ctx context.Context, by *route.Router, texts []string) ([]route.Decision, error) {
	return during(ctx, r.s, func(ctx context.Context) ([]route.Decision, error) {
		if by == nil {
			l, err := r.s.classifier.get(ctx)
			if err != nil {
				return nil, err
			}
			if by = l.router; by == nil {
				return nil, fmt.Errorf("%w: %s is no router: use Classify or Spans", ErrOption, r.s.cfg.Classifier)
			}
		}
		if !by.NeedsVectors() {
			return by.Decide(ctx, r.s.engine, texts, engine.Vectors{})
		}
		enc, err := r.s.encoder.get(ctx)
		if err != nil {
			return nil, err
		}
		return by.DecideTexts(ctx, r.s.engine, enc, texts)
	})
}

// Configured reports whether Config.Classifier names a router, for Route.
func (r Router) Configured() bool {
	dir, err := models.Locate(r.s.cfg.Classifier)
	return r.s.cfg.Classifier != "" && err == nil && route.IsRouter(dir)
}

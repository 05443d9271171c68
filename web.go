package sluice

import (
	"context"
	"errors"

	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/web"
)

// openWeb returns the client of Config.Web, or nil without a provider. It sends nothing.
func openWeb(cfg Config) (*web.Client, error) {
	o := cfg.Web
	o.Logger = cfg.Logger
	c, err := web.Open(o)
	if errors.Is(err, web.ErrNoProvider) {
		return nil, nil
	}
	if err == nil {
		cfg.Logger.Info(c.Notice())
	}
	return c, err
}

// Web gives access to web search and to the pages that are kept beside the store.
type Web struct{ s *Sluice }

// Web returns the web search, which sends nothing unless Config.Web names a provider.
func (s *Sluice) Web() Web { return Web{s} }

// Search asks the provider of Config.Web for at most n pages and fetches them, as web.Client.Search describes. Nothing
// is kept. Without a provider the error is web.ErrNoProvider.
func (w Web) Search(ctx context.Context, query string, n int) ([]web.Page, error) {
	return during(ctx, w.s, func(ctx context.Context) ([]web.Page, error) {
		if w.s.web == nil {
			return nil, web.ErrNoProvider
		}
		return w.s.web.Search(ctx, query, n)
	})
}

// Keep keeps pages beside the store for Config.WebLifetime, as web.Keep describes. Retrieve finds them; they do not
// affect calibrations.
func (w Web) Keep(ctx context.Context, pages []web.Page) (web.Kept, error) {
	return during(ctx, w.s, func(ctx context.Context) (web.Kept, error) {
		return web.Keep(ctx, w.s.base, pages, w.s.cfg.WebLifetime)
	})
}

// Retrieve returns the best passages of the kept pages, as web.Retrieve describes.
func (w Web) Retrieve(ctx context.Context, query string, o retrieve.Options) ([]prompt.Passage, error) {
	return during(ctx, w.s, func(ctx context.Context) ([]prompt.Passage, error) {
		return web.Retrieve(ctx, w.s.base, query, o)
	})
}

// List returns the kept pages, the newest first.
func (w Web) List(ctx context.Context) ([]web.Document, error) {
	return during(ctx, w.s, func(ctx context.Context) ([]web.Document, error) { return web.List(ctx, w.s.base) })
}

// Remove removes kept pages by their URLs, or the expired ones if no URL is given, and returns how many. A URL that is
// not kept is store.ErrNotFound.
func (w Web) Remove(ctx context.Context, urls ...string) (int, error) {
	return during(ctx, w.s, func(ctx context.Context) (int, error) { return web.Remove(ctx, w.s.base, urls...) })
}

// passagesOfWeb searches the web, keeps the pages beside the store, and returns the best passages for a question of all
// kept pages.
func (s *Sluice) passagesOfWeb(
	ctx context.Context, question string, n int, o retrieve.Options,
) ([]prompt.Passage, int, error) {
	pages, err := s.web.Search(ctx, question, n)
	if err != nil {
		return nil, 0, err
	}
	if _, err := web.Keep(ctx, s.base, pages, s.cfg.WebLifetime); err != nil {
		return nil, len(pages), err
	}
	passages, err := web.Retrieve(ctx, s.base, question, o)
	return passages, len(pages), err
}

package sluice

import (
	"context"
	"errors"

	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/web"
)

// ErrNoProvider: no provider of web search is configured.
var ErrNoProvider = web.ErrNoProvider

// openWeb is the client of Config.Web, or nil without a provider; nothing is sent.
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

// Web is the client of Config.Web, or ErrNoProvider.
func (s *Sluice) Web() (*web.Client, error) {
	if s.web == nil {
		return nil, ErrNoProvider
	}
	return s.web, nil
}

// SearchWeb asks the provider of Config.Web for at most n pages and fetches them, as web.Client.Search says;
// ErrNoProvider without one. Nothing is kept.
func (s *Sluice) SearchWeb(ctx context.Context, query string, n int) (_ []web.Page, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	c, err := s.Web()
	if err != nil {
		return nil, err
	}
	return c.Search(ctx, query, n)
}

// KeepPages keeps pages of the web beside the store for Config.WebLifetime, as web.Keep says: they are found by
// RetrieveWeb, and change nothing that is calibrated.
func (s *Sluice) KeepPages(ctx context.Context, pages []web.Page) (_ web.Kept, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return web.Kept{}, err
	}
	defer leave(&err)
	return web.Keep(ctx, s.base, pages, s.cfg.WebLifetime)
}

// RetrieveWeb returns the best passages of the pages that are kept, as web.Retrieve says.
func (s *Sluice) RetrieveWeb(ctx context.Context, query string, o RetrieveOptions) (_ []prompt.Passage, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return web.Retrieve(ctx, s.base, query, o)
}

// Pages lists the pages of the web that are kept, the newest first.
func (s *Sluice) Pages(ctx context.Context) (_ []web.Document, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	return web.List(ctx, s.base)
}

// RemovePages removes pages that are kept by their addresses, without any those whose time is over, and returns how
// many. An address that is not kept is store.ErrNotFound.
func (s *Sluice) RemovePages(ctx context.Context, urls ...string) (_ int, err error) {
	ctx, leave, err := s.calls.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave(&err)
	return web.Remove(ctx, s.base, urls...)
}

package sluice

import (
	"errors"

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

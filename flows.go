package sluice

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/web"
)

// What a graph of one's own is made of (AskOptions.Graph).
type (
	FlowState = answer.State
	FlowNode  = flow.Node[*answer.State]
	FlowEdge  = flow.Edge
	FlowVisit = flow.Visit
	Flow      = flow.Graph[*answer.State]
	Verdict   = flow.Verdict
)

// Flows are the names that AskOptions.Flow may have.
func Flows() []string { return answer.Presets() }

// FlowOf is the graph of a name; With makes another one of it.
func FlowOf(name string) (*Flow, error) { return answer.Preset(name) }

// asked is what a question is answered with.
func (s *Sluice) asked(o AskOptions) answer.Input {
	in := answer.Input{Options: o, Model: s.model.get, Named: s.others.get, Templates: s.cfg.Templates}
	if s.cfg.Generator == nil { // whoever brings a model has judged it
		in.Cards = s.card
	}
	if s.web != nil {
		in.Web = s.passagesOfWeb
	}
	return in
}

// passagesOfWeb searches the web, keeps the pages beside the store, and finds the passages for a question in what is
// kept.
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

// others are language models beside Config.Model, each opened when it is first needed.
type others struct {
	open func(ctx context.Context, name string) (llm.Generator, func() error, error)

	mu     sync.Mutex
	closed bool
	models map[string]*lazy[llm.Generator]
}

func (o *others) get(ctx context.Context, name string) (llm.Generator, error) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil, ErrClosed
	}
	l := o.models[name]
	if l == nil {
		l = newLazy(func(ctx context.Context) (llm.Generator, func() error, error) { return o.open(ctx, name) })
		o.models[name] = l
	}
	o.mu.Unlock()
	return l.get(ctx)
}

func (o *others) close() error {
	o.mu.Lock()
	o.closed = true
	all := o.models
	o.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

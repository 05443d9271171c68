package serve

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/serve/openai"
)

// requestsFor returns the requests for n completions of one prompt.
func requestsFor(r llm.Request, n int) []llm.Request {
	all := make([]llm.Request, n)
	for i := range all {
		all[i] = openai.Each(r, i)
	}
	return all
}

// watcher receives completions as they are generated; its functions are called one at a time.
type watcher struct {
	piece   func(i int, piece string) error
	thought func(i int, piece string) error // may be nil
	end     func(i int, r llm.Result) error
}

// generateAll generates completions. Several are batch jobs, so that single ones go first. watch may be nil.
func (s *Server) generateAll(ctx context.Context, g llm.Generator, all []llm.Request, watch *watcher) ([]llm.Result,
	error) {
	results := make([]llm.Result, len(all))
	var mu sync.Mutex // guards watch
	one := func(ctx context.Context, i int) (err error) {
		var stream func(string) error
		locked := func(watch func(int, string) error) func(string) error {
			return func(piece string) error {
				mu.Lock()
				defer mu.Unlock()
				return watch(i, piece)
			}
		}
		req := all[i]
		if watch != nil {
			stream = locked(watch.piece)
			if watch.thought != nil {
				req.Thinking.Stream = locked(watch.thought)
			}
		}
		if results[i], err = generate(ctx, g, req, stream); err != nil || watch == nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		return watch.end(i, results[i])
	}
	if len(all) > 1 {
		for i := range all {
			all[i].Priority = llm.Batch
		}
	}
	return results, s.several(ctx, len(all), llm.ParallelOf(g), one)
}

// several calls one for each of n completions, as many at a time as the model decodes together and there is room for.
// The first error ends all of them.
func (s *Server) several(ctx context.Context, n, parallel int, one func(ctx context.Context, i int) error) error {
	if n == 1 {
		return one(ctx, 0)
	}
	places, leave := s.morePlaces(min(n, parallel))
	defer leave()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(places)
	for i := range n {
		group.Go(func() (err error) {
			defer panics.Into(&err)
			if err := ctx.Err(); err != nil {
				return err
			}
			return one(ctx, i)
		})
	}
	return group.Wait()
}

// morePlaces takes up to wanted−1 places in addition to the request's own, as many as are free, and returns the number
// of all.
func (s *Server) morePlaces(wanted int) (places int, leave func()) {
	limit, more := int64(s.cfg.Limits.Answers), int64(0)
	for ; more < int64(wanted)-1; more++ {
		if n := s.answering.Add(1); limit > 0 && n > limit {
			s.answering.Add(-1)
			break
		}
	}
	return int(more) + 1, func() { s.answering.Add(-more) }
}

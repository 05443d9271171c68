package knowledge

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
)

// Search runs retrieve.Search on the snapshot, with the filter, the inverted index and the reranker of the base.
func (s *Snapshot) Search(ctx context.Context, q retrieve.Queries, o retrieve.Options) ([]retrieve.List, error) {
	return s.SearchFrom(ctx, q, o, nil)
}

// SearchFrom is like Search but reuses the hits that DecideFor found for the same queries and options. near may be nil.
func (s *Snapshot) SearchFrom(
	ctx context.Context, q retrieve.Queries, o retrieve.Options, near *Nearest,
) ([]retrieve.List, error) {
	if near != nil {
		if k, same := s.nearest(q, o); !same || k > near.k {
			near = nil
		}
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	c, err := s.contexts(ctx)
	if near != nil {
		s.base.searched.Add(-1) // DecideFor has counted this search already
	}
	if err != nil {
		return nil, err
	}
	c.Data, c.Bodies = s.View.Vectors, s.bodies
	if live := s.View.Count(); live < s.View.Vectors.Rows {
		c.Deleted, c.Live = s.View.Deleted, live
	}
	if len(o.Where) > 0 {
		rows, err := s.selected(ctx, o.Where)
		if err == nil {
			err = rows.narrow(ctx, &c)
		}
		if err != nil {
			return nil, s.base.unlessClosed(err)
		}
	}
	if byWords(o, q) {
		x, err := s.Postings(ctx)
		if err != nil {
			return nil, err
		}
		c.Words = x
	}
	src := retrieve.Source{Engine: s.joined(), Contexts: c, Metric: s.Metric()}
	if near != nil {
		src.Nearest = near.hits
	}
	if o.Mode == retrieve.PseudoQuery {
		if src.Questions, err = s.questions(ctx); err != nil {
			return nil, err
		}
	}
	if s.base.cfg.Scorer != nil {
		src.Rerank = s.rerank
	}
	if routed, r, err := s.routes(o); err != nil {
		return nil, err
	} else if routed {
		return s.routed(ctx, r, src, q, o)
	}
	return retrieve.Search(ctx, src, q, o)
}

// leastBody is how many bytes a text has that may be a copy of one below another heading: shorter ones, as "Off by
// default.", mean something else there.
const leastBody = 100

// bodies returns the texts of chunks, "" for short ones.
func (s *Snapshot) bodies(ctx context.Context, ids []string) ([]string, error) {
	chunks, err := s.Chunks(ctx, ids)
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		if len(c.Text) >= leastBody {
			texts[i] = c.Text
		}
	}
	return texts, err
}

// routes reports whether a search may be limited to some domains, and returns the store's router, if any. Without a
// router, "auto" (the default) searches all contexts.
func (s *Snapshot) routes(o retrieve.Options) (bool, *route.Router, error) {
	if len(o.Route) == 0 || o.Route[0] == RouteOff {
		return false, nil, nil
	}
	r, err := s.base.Router(s.Store)
	return r != nil || o.Route[0] != RouteAuto, r, err
}

// byWords reports whether a search needs the inverted index.
func byWords(o retrieve.Options, q retrieve.Queries) bool {
	return o.Mode != retrieve.Dense && o.Mode != retrieve.PseudoQuery && len(q.Texts) > 0
}

// Nearest holds the contexts nearest to each query of a DecideFor, so that a SearchFrom of the same snapshot can reuse
// them. A nil *Nearest is valid and empty.
type Nearest struct {
	hits [][]engine.Hit
	k    int // hits per query; fewer if there are fewer contexts
}

// Of returns the part for the queries with the given indices.
func (n *Nearest) Of(numbers []int) *Nearest {
	if n == nil {
		return nil
	}
	part := &Nearest{hits: make([][]engine.Hit, len(numbers)), k: n.k}
	for i, at := range numbers {
		part.hits[i] = n.hits[at]
	}
	return part
}

// nearest returns the number of contexts that a search by similarity alone finds. ok is false if the search uses
// anything else.
func (s *Snapshot) nearest(q retrieve.Queries, o retrieve.Options) (k int, ok bool) {
	if q.Vectors.Rows == 0 {
		return 0, false
	}
	if routed, _, err := s.routes(o); routed || err != nil { // the search returns that error
		return 0, false
	}
	return retrieve.Nearest(o, s.Metric(), byWords(o, q))
}

// DecideFor decides as Decide does, before a SearchFrom with the given options. If the gate and the search use the same
// similarities, one search serves both and finds as many hits as SearchFrom needs. For queries whose gate stays closed,
// all hits but the best are wasted.
func (s *Snapshot) DecideFor(
	ctx context.Context, g *gate.Gate, q retrieve.Queries, o retrieve.Options,
) ([]gate.Decision, *Nearest, error) {
	k, same := s.nearest(q, o)
	if by := g.ScoredBy(); !same || by.Kind != gate.Similarity || by.Metric != s.Metric() || o.Check() != nil {
		all, err := s.Decide(ctx, g, q)
		return all, nil, err
	}
	c, err := s.contexts(ctx)
	if err != nil {
		return nil, nil, err
	}
	hits, err := s.joined().TopK(ctx, q.Vectors, c.Vectors, s.Metric(), k, nil)
	if err != nil {
		return nil, nil, err
	}
	all, err := g.DecideFound(c, hits)
	if err == nil {
		err = s.byDomain(ctx, g, q, all)
	}
	s.decided(g, all, err)
	return all, &Nearest{hits, k}, err
}

// selection holds the rows of a snapshot that a filter selects.
type selection struct {
	filter string
	*rowset
}

// keptSelections is the number of selections that a snapshot caches.
const keptSelections = 8

// selected returns the rows of the contexts that a filter selects.
func (s *Snapshot) selected(ctx context.Context, f retrieve.Filter) (*rowset, error) {
	name := f.String()
	b := s.base
	b.mu.Lock()
	i := slices.IndexFunc(s.selections, func(x selection) bool { return x.filter == name })
	var known *rowset
	if i >= 0 {
		known = s.selections[i].rowset
	}
	b.mu.Unlock()
	if i >= 0 {
		return known, nil
	}
	documents, labels, kinds := f.Labels()
	matches := documents.Matcher()
	held := map[string]bool{}
	rows, err := s.View.Select(ctx, func(d store.DocumentInfo) bool {
		for key := range d.Meta {
			held[key] = true
		}
		return matches(record(d))
	})
	if err == nil {
		err = documents.Known(held)
	}
	if err != nil {
		return nil, err
	}
	if len(labels) > 0 {
		of, err := s.View.Labels(ctx, kinds)
		if err != nil {
			return nil, err
		}
		matches := labels.Matcher()
		rows = slices.DeleteFunc(rows, func(row int) bool {
			r := retrieve.Record{Labels: map[string][]string{}}
			for _, l := range of[row] {
				r.Labels[l.Kind] = append(r.Labels[l.Kind], l.Value)
			}
			return !matches(r)
		})
	}
	found := &rowset{rows: rows}
	b.mu.Lock()
	s.selections = append(s.selections, selection{name, found})
	if len(s.selections) > keptSelections {
		s.selections = slices.Delete(s.selections, 0, 1)
	}
	b.mu.Unlock()
	return found, nil
}

// record converts a document into a record for filters.
func record(d store.DocumentInfo) retrieve.Record {
	r := retrieve.Record{Document: d.ID, Topic: d.Topic, Source: d.Source, Path: d.Path, Title: d.Title,
		Collection: d.Collection, Added: d.Added, Meta: make(map[string][]string, len(d.Meta))}
	for key := range d.Meta {
		r.Meta[key] = d.Meta.Texts(key)
	}
	return r
}

// rerank scores the texts of contexts for a query with the base's cross-encoder.
func (s *Snapshot) rerank(ctx context.Context, query string, ids []string) ([]float64, error) {
	chunks, err := s.Chunks(ctx, ids)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = c.EmbedText()
	}
	return s.base.Rerank(ctx, query, texts)
}

// Passage is a chunk found by a search, extended by the chunks that Options.Expand joins to it.
type Passage struct {
	corpus.Chunk                // Text, Start, End and Tokens describe the whole passage
	Found        string         // text of the chunk that was found, a part of Text
	Joined       []string       // ids of all chunks of the passage, in the order of the text; nil: none was joined
	Copies       []corpus.Chunk // of the same text as the chunk that was found
}

// maxParent is the number of chunks on either side that are examined to find the section of a chunk.
const maxParent = 16

// Passages returns the passages of results in their order, each extended as the options ask. A chunk that is a result
// itself is not joined to another one, and a chunk between two results is joined to the first of them.
func (s *Snapshot) Passages(
	ctx context.Context, results []retrieve.Result, o retrieve.Options,
) ([]Passage, error) {
	ids := make([]string, len(results))
	var copies []string
	for i, r := range results {
		ids[i] = r.ID
		copies = append(copies, r.Copies...)
	}
	all, err := s.Chunks(ctx, slices.Concat(ids, copies))
	if err != nil {
		return nil, err
	}
	chunks, others := all[:len(ids)], all[len(ids):]
	passages, taken := make([]Passage, len(chunks)), map[string]bool{}
	for _, id := range ids {
		taken[id] = true
	}
	for i, c := range chunks {
		passages[i] = Passage{Chunk: c, Found: c.Text}
		if n := len(results[i].Copies); n > 0 {
			passages[i].Copies, others = others[:n:n], others[n:]
		}
		if o.Expand == retrieve.NoExpansion {
			continue
		}
		around := maxParent
		if o.Expand == retrieve.Neighbours {
			around = o.Neighbours
		}
		siblings, err := s.View.Siblings(ctx, c.ID, around, around)
		if err != nil {
			return nil, s.base.unlessClosed(err)
		}
		passages[i].join(siblings, func(other corpus.Chunk) bool {
			return !taken[other.ID] &&
				(o.Expand == retrieve.Neighbours || other.Heading == c.Heading && other.Anchor == c.Anchor)
		})
		for _, id := range passages[i].Joined {
			taken[id] = true
		}
	}
	return passages, nil
}

// join adds the siblings next to the chunk, on either side up to the first one that is not accepted.
func (p *Passage) join(siblings []corpus.Chunk, accepts func(corpus.Chunk) bool) {
	at := slices.IndexFunc(siblings, func(c corpus.Chunk) bool { return c.ID == p.ID })
	from, to := at, at+1
	for from > 0 && accepts(siblings[from-1]) {
		from--
	}
	for to < len(siblings) && accepts(siblings[to]) {
		to++
	}
	if to-from == 1 {
		return
	}
	whole := siblings[from]
	p.Joined = []string{whole.ID}
	for _, c := range siblings[from+1 : to] {
		whole.Text = Joined(whole, c)
		whole.End = max(whole.End, c.End)
		whole.Tokens += c.Tokens
		p.Joined = append(p.Joined, c.ID)
	}
	p.Text, p.Start, p.End, p.Tokens = whole.Text, whole.Start, whole.End, whole.Tokens
}

// Joined returns the text of two consecutive chunks without repeating their overlap.
func Joined(a, b corpus.Chunk) string {
	if b.Start < a.End {
		for n := min(len(a.Text), len(b.Text)); n > 0; n-- {
			if a.Text[len(a.Text)-n:] == b.Text[:n] {
				return a.Text + b.Text[n:]
			}
		}
	}
	return a.Text + "\n" + b.Text
}

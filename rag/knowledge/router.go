package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
)

// The words of retrieve.Options.Route.
const (
	RouteAuto = "auto"
	RouteOff  = "off"
)

// RouterFolder is where a store keeps its router, in its folder.
const RouterFolder = "router"

// loadedRouter is a router with the state of its file.
type loadedRouter struct {
	*route.Router
	size     int64
	modified time.Time
}

// RouterDir returns the folder of a store's router.
func RouterDir(st *store.Store) string { return filepath.Join(st.Dir(), RouterFolder) }

// Router returns the router of the store, nil when it has none. It is read again when its file has changed. One of
// another encoder than the store's is route.ErrEncoder.
func (b *Base) Router(st *store.Store) (*route.Router, error) {
	dir := RouterDir(st)
	info, err := os.Stat(filepath.Join(dir, route.AboutFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if l := b.router.Load(); l != nil && l.size == info.Size() && l.modified.Equal(info.ModTime()) {
		return l.Router, nil
	}
	r, err := route.Load(dir)
	if err == nil {
		err = r.SameEncoder(st.Encoder())
	}
	if err != nil {
		return nil, fmt.Errorf("%w ('sluice route train' makes it anew, 'route rm' removes it)", err)
	}
	b.router.Store(&loadedRouter{r, info.Size(), info.ModTime()})
	return r, nil
}

// RouterStaleness is how far a store's router is behind it.
type RouterStaleness struct {
	Chunks int     `json:"chunks"` // live ones
	New    int     `json:"new"`    // that the router was not trained on
	Gone   int     `json:"gone"`   // that it was trained on, and that are not there any more
	Share  float64 `json:"share"`  // of the live chunks that are new
}

// String says how stale it is, "" if it is not.
func (s RouterStaleness) String() string {
	if s.New == 0 && s.Gone == 0 {
		return ""
	}
	return fmt.Sprintf("the router is stale by %.1f %%: %d of %d chunks are new, %d are gone", 100*s.Share, s.New,
		s.Chunks, s.Gone)
}

// RouterStaleness compares the snapshot with the chunks that a router was trained on.
func (s *Snapshot) RouterStaleness(r *route.Router) RouterStaleness {
	out := RouterStaleness{Chunks: s.View.Count()}
	for i, id := range s.View.IDs {
		if s.View.Deleted(i) {
			continue
		}
		if _, known := r.ChunkLabel(route.ChunkKey(id, s.View.Digests[i])); !known {
			out.New++
		}
	}
	out.Gone = r.Data.Chunks - (out.Chunks - out.New)
	if out.Chunks > 0 {
		out.Share = float64(out.New) / float64(out.Chunks)
	}
	return out
}

// routed searches each query in its domains.
func (s *Snapshot) routed(
	ctx context.Context, r *route.Router, src retrieve.Source, q retrieve.Queries, o retrieve.Options,
) ([]retrieve.List, error) {
	if o.Route[0] == RouteAuto {
		return s.byRouter(ctx, r, src, q, o)
	}
	p, err := s.partitions(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Route {
		if _, ok := p.rows[name]; !ok {
			return nil, fmt.Errorf("%w: there is no domain %q; there are %s", retrieve.ErrOption, name, p.names())
		}
	}
	if src.Contexts, err = s.inDomains(ctx, p, src.Contexts, o.Route); err != nil {
		return nil, s.base.unlessClosed(err)
	}
	lists, err := retrieve.Search(ctx, src, q, o)
	for i := range lists {
		lists[i].Taken.Route = &retrieve.Route{By: "given", Searched: o.Route}
	}
	return lists, err
}

// shownDomains is how many names an error gives.
const shownDomains = 20

func (p *partitions) names() string {
	names, more := slices.Sorted(maps.Keys(p.rows)), ""
	if len(names) > shownDomains {
		names, more = names[:shownDomains], ", …"
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ") + more
}

// byRouter asks the router about the queries, and searches those together that go by the same domains.
func (s *Snapshot) byRouter(
	ctx context.Context, r *route.Router, src retrieve.Source, q retrieve.Queries, o retrieve.Options,
) ([]retrieve.List, error) {
	p, err := s.partitions(ctx, r)
	if err != nil {
		return nil, err
	}
	vectors := q.Vectors
	if r.NeedsVectors() && vectors.Rows == 0 { // the search itself goes by words
		e, err := s.base.Embed(ctx, q.Texts, embed.Query)
		if err != nil {
			return nil, err
		}
		vectors = Vectors(e)
	}
	began := time.Now()
	decisions, err := r.Decide(ctx, s.base.cfg.Engine, q.Texts, vectors)
	if err != nil {
		return nil, err
	}
	ms := float64(time.Since(began).Microseconds()) / 1000
	traces, groups := make([]*retrieve.Route, len(q.Texts)), map[string][]int{}
	var order []string
	for i, d := range decisions {
		c := r.Choose(d)
		if c.Labels != nil && asksSeveral(q.Texts[i]) {
			c = route.Choice{Reason: "the query asks several things, which may be of several domains"}
		}
		t := traceOf(d, c)
		t.Milliseconds = ms
		traces[i] = t
		names := slices.Clone(t.Searched)
		slices.Sort(names)
		key := strings.Join(names, "\x00")
		if _, known := groups[key]; !known {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	lists := make([]retrieve.List, len(q.Texts))
	for _, key := range order {
		rows := groups[key]
		narrowed := src
		if !traces[rows[0]].All {
			narrowed.Contexts, err = s.inDomains(ctx, p, src.Contexts, traces[rows[0]].Searched)
			if err != nil {
				return nil, s.base.unlessClosed(err)
			}
		}
		found, err := retrieve.Search(ctx, narrowed, some(q, rows), o)
		if err != nil {
			return nil, err
		}
		for j, i := range rows {
			lists[i] = found[j]
			lists[i].Taken.Route = traces[i]
		}
	}
	return lists, nil
}

// some returns the queries with the numbers.
func some(q retrieve.Queries, rows []int) retrieve.Queries {
	if len(rows) == len(q.Texts) {
		return q
	}
	out := retrieve.Queries{}
	for _, i := range rows {
		out.Texts = append(out.Texts, q.Texts[i])
	}
	if q.Vectors.Rows > 0 {
		out.Vectors = compact(q.Vectors, rows)
	}
	return out
}

// shownLabels is how many domains a trace has at least.
const shownLabels = 3

// traceOf returns the trace of a router's decision.
func traceOf(d route.Decision, c route.Choice) *retrieve.Route {
	t := &retrieve.Route{By: "router", All: c.Labels == nil, Reason: c.Reason, Familiarity: d.Familiarity}
	for _, l := range c.Labels {
		t.Searched = append(t.Searched, l.Label)
	}
	for _, l := range d.Labels[:min(len(d.Labels), max(shownLabels, len(c.Labels)))] {
		t.Domains = append(t.Domains, retrieve.Domain{Name: l.Label, Probability: l.Probability})
	}
	return t
}

// partWords is the least number of words of a part of a question: "salt and pepper" is one thing.
const partWords = 3

// asksSeveral reports whether a question may ask several things: it has several sentences, a semicolon, or a
// conjunction with at least partWords words on either side.
func asksSeveral(question string) bool {
	question = strings.TrimRight(question, ".?!; \n")
	if ends := sentence.Ends(question); len(ends) > 1 || strings.Contains(question, ";") {
		return true
	}
	words := strings.Fields(question)
	for i := partWords; i < len(words)-partWords; i++ {
		switch strings.ToLower(words[i]) {
		case "and", "or", "und", "oder", "sowie", "et", "ou", "y", "o", "e": // en, de, fr, es, it, pt
			return true
		}
	}
	return false
}

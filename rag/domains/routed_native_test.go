//go:build native

package domains

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

var (
	routing = flag.Int("routing", 0, "copies of squad16 in the comparison of routed and full searches; 0 skips it")
	timed   = flag.Int("routing-queries", 600, "queries that are timed one by one")
)

// TestRoutedSearchIsFaster compares searches in a query's domains with searches of everything: squad16 in copies whose
// vectors are slightly moved, 16 topics, chunks of a topic scattered over the store.
func TestRoutedSearchIsFaster(t *testing.T) {
	if *routing == 0 {
		t.Skip("SKIP: a benchmark; -routing 100 runs it")
	}
	enc := minilm.Open(t, embed.Options{})
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base := knowledge.New(knowledge.Config{Dir: filepath.Join(t.TempDir(), "store"), Engine: e,
		Encoder: func(context.Context) (embed.Embedder, error) { return enc, nil }})
	defer base.Close()
	contexts := datasets.Lines(t, "squad16/contexts.jsonl")
	topics := fill(t, base, enc, contexts, *routing)
	begun := time.Now()
	r, err := Train(t.Context(), base, e, Options{Sample: 2000})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("router: %d chunks, %d probes, %.1f s; held out %.4f, sets of %.2f of 16 labels on average, %.3f covered, "+
		"%.3f "+
		"searched everywhere", r.Trained, r.Probes, time.Since(begun).Seconds(), r.Router.HeldOut.Accuracy,
		r.Router.Sets.Size, r.Router.Sets.Covered, r.Router.Sets.All)
	var texts, gold []string
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		if q.Answerable {
			texts, gold = append(texts, q.Text), append(gold, q.ContextID)
		}
	}
	begun = time.Now()
	embedded, err := base.Embed(t.Context(), texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	embedding := time.Since(begun).Seconds() * 1000 / float64(len(texts))
	c := comparison{t: t, base: base, texts: texts, gold: gold, topics: topics, vectors: knowledge.Vectors(embedded)}
	c.quality()
	c.joined()
	c.speed("by vectors, with an index", embedding, retrieve.Dense)
	c.speed("by vectors and words, the default, with an index", embedding, retrieve.Auto)
	scanned := knowledge.New(knowledge.Config{Dir: base.Dir(), Engine: e, IndexRows: 1 << 30,
		Encoder: func(context.Context) (embed.Embedder, error) { return enc, nil }})
	defer scanned.Close()
	c.base = scanned
	c.speed("by vectors, without an index: all are read, of the store or of the domains", embedding, retrieve.Dense)
}

// fill commits copies of contexts and returns the topic of each context.
func fill(
	t *testing.T, base *knowledge.Base, enc embed.Embedder, contexts []datasets.Line, copies int,
) map[string]string {
	t.Helper()
	texts, topics := make([]string, len(contexts)), map[string]string{}
	for i, c := range contexts {
		texts[i], topics[c.ID] = c.Text, c.Topic
	}
	vectors, err := enc.Embed(t.Context(), texts, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	info := enc.Info().Encoder
	st, err := base.Writer(t.Context(), &info)
	if err != nil {
		t.Fatal(err)
	}
	g := rand.New(rand.NewPCG(1, 6))
	for copied := range copies {
		var b store.Batch
		for _, i := range g.Perm(len(contexts)) {
			c := contexts[i]
			id := fmt.Sprintf("%s-%d", c.ID, copied)
			d := &corpus.Document{ID: id, Source: id, Topic: c.Topic, Digest: id}
			b.Documents = append(b.Documents, d)
			b.Chunks = append(b.Chunks, corpus.Chunk{ID: id, Document: id, Source: id, Topic: c.Topic, Text: c.Text,
				End: len(c.Text), Tokens: 1})
			b.Vectors = append(b.Vectors, moved(vectors.Row(i), g, copied > 0)...)
		}
		if _, err := st.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(base.Changed(nil), base.KeepIndex(t.Context())); err != nil {
		t.Fatal(err)
	}
	return topics
}

// moved returns a vector moved by a hundredth of its length.
func moved(v []float32, g *rand.Rand, move bool) []float32 {
	out := make([]float32, len(v))
	square := 0.
	for j, x := range v {
		y := float64(x)
		if move {
			y += .01 / math.Sqrt(float64(len(v))) * g.NormFloat64()
		}
		out[j] = float32(y)
		square += y * y
	}
	for j := range out {
		out[j] /= float32(math.Sqrt(square))
	}
	return out
}

// comparison of routed searches with full ones.
type comparison struct {
	t       *testing.T
	base    *knowledge.Base
	texts   []string
	gold    []string
	topics  map[string]string
	vectors engine.Vectors
}

// full and routed are the searches that are compared.
func full(mode retrieve.Mode) retrieve.Options {
	return overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Mode: mode, K: 10, Route: []string{knowledge.RouteOff}})
}

func routed(mode retrieve.Mode) retrieve.Options {
	return overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Mode: mode, K: 10, Route: []string{knowledge.RouteAuto}})
}

// search takes a snapshot for one call.
func (c *comparison) search(texts []string, v engine.Vectors, o retrieve.Options) []retrieve.List {
	c.t.Helper()
	snap, err := c.base.Snapshot(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer snap.Release()
	return c.searchIn(snap, texts, v, o)
}

func (c *comparison) searchIn(
	snap *knowledge.Snapshot, texts []string, v engine.Vectors, o retrieve.Options,
) []retrieve.List {
	c.t.Helper()
	lists, err := snap.Search(c.t.Context(), retrieve.Queries{Texts: texts, Vectors: v}, o)
	if err != nil {
		c.t.Fatal(err)
	}
	return lists
}

// has reports whether a copy of the gold context is among the results.
func has(list retrieve.List, gold string) bool {
	return slices.ContainsFunc(list.Results, func(r retrieve.Result) bool {
		n := len(gold)
		return len(r.ID) > n && r.ID[:n] == gold && r.ID[n] == '-'
	})
}

// quality shows what routing costs in recall@10, beside the queries whose topic was not searched.
func (c *comparison) quality() {
	full := c.search(c.texts, c.vectors, full(retrieve.Dense))
	routed := c.search(c.texts, c.vectors, routed(retrieve.Dense))
	var lost, wrong, everywhere, recall, kept []float64
	for i, gold := range c.gold {
		trace := routed[i].Taken.Route
		in := trace.All || slices.Contains(trace.Searched, c.topics[gold])
		wrong = append(wrong, number(!in))
		everywhere = append(everywhere, number(trace.All))
		a, b := has(full[i], gold), has(routed[i], gold)
		recall, kept = append(recall, number(a)), append(kept, number(b))
		lost = append(lost, number(a)-number(b))
	}
	show := func(name string, x []float64) (mean, low, high float64) {
		mean, low, high = interval(x)
		c.t.Logf("%s: %.2f %% (95 %%: %.2f to %.2f)", name, 100*mean, 100*low, 100*high)
		return mean, low, high
	}
	show("recall@10 of full searches", recall)
	show("recall@10 of routed searches", kept)
	l, _, _ := show("recall@10 lost", lost)
	w, _, _ := show("queries whose topic was not searched", wrong)
	show("queries that were searched everywhere", everywhere)
	if l > w+.005 {
		c.t.Errorf("routing loses %.2f points of recall@10, with %.2f %% of the queries routed wrongly", 100*l, 100*w)
	}
}

// joined asks two questions of different topics in one: routing must find as many of their contexts as no routing.
func (c *comparison) joined() {
	random := rand.New(rand.NewPCG(44, 12))
	for _, with := range []string{" ", " And ", "; "} {
		var texts []string
		var pairs [][2]string
		for len(texts) < 300 {
			i, j := random.IntN(len(c.texts)), random.IntN(len(c.texts))
			if c.topics[c.gold[i]] == c.topics[c.gold[j]] || !strings.HasSuffix(c.texts[i], "?") {
				continue
			}
			first, second := c.texts[i], c.texts[j]
			if with == " And " {
				first, second = strings.TrimRight(first, "?. "), strings.ToLower(second[:1])+second[1:]
			}
			texts = append(texts, first+strings.ToLower(with)+second)
			pairs = append(pairs, [2]string{c.gold[i], c.gold[j]})
		}
		embedded, err := c.base.Embed(c.t.Context(), texts, embed.Query)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, mode := range []retrieve.Mode{retrieve.Dense, retrieve.Auto} {
			o, all := routed(mode), full(mode)
			o.K, all.K = 4, 4
			narrow := c.search(texts, knowledge.Vectors(embedded), o)
			wide := c.search(texts, knowledge.Vectors(embedded), all)
			var found, without, missed, everywhere int
			for n, pair := range pairs {
				t := narrow[n].Taken.Route
				everywhere += int(number(t.All))
				for _, gold := range pair {
					found += int(number(has(narrow[n], gold)))
					without += int(number(has(wide[n], gold)))
					missed += int(number(!t.All && !slices.Contains(t.Searched, c.topics[gold])))
				}
			}
			c.t.Logf("%d questions of two topics, joined by %q, %s: routed %d of %d contexts among 4, without routing %d; "+
				"%d topics not searched, %d questions searched everywhere", len(texts), with, mode, found, 2*len(texts),
				without, missed, everywhere)
			if found < without {
				c.t.Errorf("joined by %q, %s: routing finds %d contexts, no routing %d", with, mode, found, without)
			}
		}
	}
}

// speed times single queries, full and routed in turns.
func (c *comparison) speed(name string, embedding float64, mode retrieve.Mode) {
	snap, err := c.base.Snapshot(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	defer snap.Release()
	fullSearch, routedSearch := full(mode), routed(mode)
	g := rand.New(rand.NewPCG(2, 7))
	var full, routed, saved, asked []float64
	time1 := func(i int, o retrieve.Options) float64 {
		v := engine.Vectors{Data: c.vectors.Data[i*c.vectors.Dim:][:c.vectors.Dim], Rows: 1, Dim: c.vectors.Dim}
		begun := time.Now()
		list := c.searchIn(snap, c.texts[i:i+1], v, o)[0]
		if list.Taken.Route != nil {
			asked = append(asked, list.Taken.Route.Milliseconds)
		}
		return float64(time.Since(begun).Nanoseconds()) / 1e6
	}
	for range 2 { // the words are put in the order of the index in the background
		for i := range c.texts {
			time1(i, routedSearch)
		}
		time.Sleep(5 * time.Second)
		asked = nil
	}
	for n := range *timed + 50 {
		i := g.IntN(len(c.texts))
		a, b := time1(i, fullSearch), time1(i, routedSearch)
		if n >= 50 {
			full, routed = append(full, a), append(routed, b)
		}
	}
	for i := range full {
		saved = append(saved, full[i]-routed[i])
	}
	meanFull, _, _ := interval(full)
	mean, low, high := interval(saved)
	c.t.Logf("%s: a search, router included (%.3f ms), without the embedding: full %.3f ms (median %.3f), routed "+
		"%.3f ms (median %.3f): "+
		"%.1f %% faster (95 %%: %.1f to %.1f); medians %.1f %%", name, median(asked), meanFull, median(full),
		meanFull-mean, median(routed),
		100*mean/meanFull, 100*low/meanFull, 100*high/meanFull, 100*(1-median(routed)/median(full)))
	c.processor(name, time1, mode)
	c.t.Logf("with the embedding of the query (%.2f ms): %.3f ms, routed %.3f ms", embedding, meanFull+embedding,
		meanFull-mean+embedding)
}

// processor compares the processor's time, which other programs disturb little, in groups of searches in turns.
func (c *comparison) processor(name string, search func(i int, o retrieve.Options) float64, mode retrieve.Mode) {
	g := rand.New(rand.NewPCG(4, 9))
	used := func(queries []int, o retrieve.Options) float64 {
		begun := c.used()
		for _, i := range queries {
			search(i, o)
		}
		return (c.used() - begun).Seconds() * 1000 / float64(len(queries))
	}
	whole, parts := full(mode), routed(mode)
	var full, share []float64
	for range *timed / 20 {
		some := g.Perm(len(c.texts))[:40]
		a, b := used(some, whole), used(some, parts)
		full, share = append(full, a), append(share, 1-b/a)
	}
	ms, _, _ := interval(full)
	mean, low, high := interval(share)
	c.t.Logf("%s: processor time of a full search %.3f ms, of a routed one %.1f %% less (95 %%: %.1f to %.1f)", name, ms,
		100*mean, 100*low, 100*high)
}

// used returns the processor's time that this process has taken.
func (c *comparison) used() time.Duration {
	c.t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		c.t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// interval returns a mean with its 95 % bootstrap interval.
func interval(x []float64) (mean, low, high float64) {
	g := rand.New(rand.NewPCG(3, 8))
	means := make([]float64, 1000)
	for r := range means {
		for range x {
			means[r] += x[g.IntN(len(x))] / float64(len(x))
		}
	}
	slices.Sort(means)
	for _, v := range x {
		mean += v / float64(len(x))
	}
	return mean, means[25], means[974]
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}

package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// library commits two documents of four chunks in two sections each.
func library(t *testing.T, base *doubles.Base) {
	t.Helper()
	batch := store.Batch{}
	var texts []string
	for i, name := range []string{"sea", "go"} {
		batch.Documents = append(batch.Documents, &corpus.Document{ID: name, Source: name + ".md", Digest: name,
			Topic: name, Meta: corpus.Meta{"year": fmt.Sprint(2019 + 2*i)}})
		for n, text := range map[string][]string{
			"sea": {"Lighthouses warn ships of rocks.", "of rocks. Lamps rotate.", "Herrings live in schools.",
				"They feed on plankton."},
			"go": {"A deferred function runs last.", "Channels carry values.", "Maps have no order.", "Slices grow."},
		}[name] {
			section := []string{"first", "second"}[n/2]
			batch.Chunks = append(batch.Chunks, corpus.Chunk{ID: fmt.Sprintf("%s%d", name, n), Document: name,
				Source: name + ".md", Topic: name, Heading: section, Start: 25 * n, End: 25*n + 32, Text: text,
				Tokens: 5})
			texts = append(texts, text)
		}
	}
	batch.Labels = map[string][]store.Label{"sea0": {{Kind: "place", Value: "reef"}, {Kind: "place", Value: "coast"}},
		"go2": {{Kind: "place", Value: "coast"}}}
	put(t, base, batch, texts)
}

// put commits a batch whose chunks are embedded as texts.
func put(t *testing.T, base *doubles.Base, batch store.Batch, texts []string) {
	t.Helper()
	e, err := base.Embed(t.Context(), texts, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	batch.Vectors = e.Data
	id := base.Encoder.Info().Encoder
	st, err := base.Writer(t.Context(), &id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.Commit(t.Context(), batch)
	if err := base.Changed(err); err != nil {
		t.Fatal(err)
	}
}

// reversed is a reranker that likes short texts.
type reversed struct{}

func (reversed) Score(_ context.Context, _ string, documents []string) (*embed.Scores, error) {
	s := &embed.Scores{}
	for _, d := range documents {
		s.Logits = append(s.Logits, -float32(len(d)))
	}
	return s, nil
}

func (reversed) Info() embed.Info { return embed.Info{} }

func TestSearchWithFilterWordsAndReranker(t *testing.T) {
	base := doubles.NewBase(t, func(c *knowledge.Config) {
		c.Scorer = func(context.Context) (embed.Scorer, error) { return reversed{}, nil }
	})
	library(t, base)
	snap, _, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	search := func(query string, o retrieve.Options, where ...string) retrieve.List {
		t.Helper()
		f, err := retrieve.ParseFilter(where)
		if err != nil {
			t.Fatal(err)
		}
		o.Where = f
		e, err := base.Embed(t.Context(), []string{query}, embed.Query)
		if err != nil {
			t.Fatal(err)
		}
		lists, err := snap.Search(t.Context(), retrieve.Queries{Texts: []string{query}, Vectors: knowledge.Vectors(e)},
			o)
		if err != nil {
			t.Fatal(err)
		}
		return lists[0]
	}
	first := func(l retrieve.List) string { return l.Results[0].ID }
	for _, mode := range []retrieve.Mode{retrieve.Auto, retrieve.Dense, retrieve.BM25, retrieve.TFIDF,
		retrieve.Hybrid} {
		o := overlay.On(retrieve.DefaultOptions(), retrieve.Options{Mode: mode, Explain: true})
		if l := search("lighthouses and rocks", o); first(l) != "sea0" || l.Taken.Contexts != 8 {
			t.Errorf("%s: %+v", mode, l)
		}
		if l := search("deferred lighthouses", o, "topic=go"); first(l) != "go0" || l.Taken.Contexts != 4 ||
			l.Taken.Where != "topic=go" {
			t.Errorf("%s, a topic: %+v", mode, l)
		}
		if l := search("deferred lighthouses", o, "meta.year<2020", "source~*.md"); first(l) != "sea0" {
			t.Errorf("%s, a year: %+v", mode, l)
		}
		if l := search("no order of rocks", o, "label.place=coast", "topic=go"); first(l) != "go2" ||
			l.Taken.Contexts != 1 {
			t.Errorf("%s, a label: %+v", mode, l)
		}
		if l := search("lighthouses", o, "topic=air"); len(l.Results) != 0 || l.Taken.Contexts != 0 {
			t.Errorf("%s, no such topic: %+v", mode, l)
		}
		// questions that are hardly any
		for name, query := range map[string]string{"empty": "", "one character": "x", "stop words": "of the",
			"NUL bytes": "light\x00houses \x00", "not UTF-8": "lighthouses \xff\xfe", "no letters": "?!",
			"100 kB": strings.Repeat("lighthouses and rocks ", 4600), "another language": "Маяки и скалы 灯台と岩"} {
			if l := search(query, o); len(l.Results) > 4 || l.Taken.Ranking == "" {
				t.Errorf("%s, %s: %+v", mode, name, l)
			}
		}
	}
	l := search("lighthouses and rocks", overlay.On(retrieve.DefaultOptions(), retrieve.Options{Explain: true}))
	if p := l.Results[0].Parts; len(p.Terms) != 2 || p.Terms[0].DF != 1 || p.Terms[1].DF != 2 ||
		*p.Cover != 1 || *p.Share <= 0 || l.Taken.Ranking != "cosine+cover+share" {
		t.Errorf("%+v, %+v", l.Taken, p)
	}
	if l := search("lighthouses", overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Rerank: 8})); first(l) != "go3" || l.Taken.Reranked != 8 {
		t.Errorf("reranked: %+v", l)
	}
}

// TestTheSameBelowOtherHeadings: a text that several pages have takes one place, and a remark that is the same below
// many headings does not.
func TestTheSameBelowOtherHeadings(t *testing.T) {
	base := doubles.NewBase(t, nil)
	const long = "Lighthouses warn ships of rocks, and of the sands that the tides move from one place to another each year."
	batch, texts := store.Batch{}, []string{}
	for i, text := range []string{long, "Lighthouses.", long, "Lighthouses.", "Herrings live in schools."} {
		name := fmt.Sprint("d", i)
		batch.Documents = append(batch.Documents, &corpus.Document{ID: name, Source: name, Digest: name})
		c := corpus.Chunk{ID: fmt.Sprint("c", i), Document: name, Source: name, Heading: "At sea " + name, Text: text,
			Tokens: 5}
		batch.Chunks, texts = append(batch.Chunks, c), append(texts, c.EmbedText())
	}
	put(t, base, batch, texts)
	snap, _, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	q, err := base.Embed(t.Context(), []string{"lighthouses"}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := snap.Search(t.Context(), retrieve.Queries{Texts: []string{"lighthouses"},
		Vectors: knowledge.Vectors(q)}, retrieve.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	copies := map[string][]string{}
	for _, r := range lists[0].Results {
		copies[r.ID] = r.Copies
	}
	_, second := copies["c2"]
	if len(copies) != 4 || second || !slices.Equal(copies["c0"], []string{"c2"}) || copies["c1"] != nil {
		t.Errorf("%v", copies)
	}
}

func TestPassages(t *testing.T) {
	base := doubles.NewBase(t, nil)
	library(t, base)
	snap, _, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	passages := func(o retrieve.Options, ids ...string) []knowledge.Passage {
		t.Helper()
		var results []retrieve.Result
		for _, id := range ids {
			results = append(results, retrieve.Result{ID: id})
		}
		found, err := snap.Passages(t.Context(), results, o)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if p := passages(retrieve.DefaultOptions(), "sea1", "go3"); len(p) != 2 || p[0].Text != "of rocks. Lamps rotate." ||
		p[0].Joined != nil {
		t.Errorf("%+v", p)
	}
	p := passages(overlay.On(retrieve.DefaultOptions(), retrieve.Options{Expand: retrieve.Neighbours}), "sea1")[0]
	want := knowledge.Passage{Chunk: p.Chunk, Found: "of rocks. Lamps rotate.",
		Joined: []string{"sea0", "sea1", "sea2"}}
	want.Text = "Lighthouses warn ships of rocks. Lamps rotate.\nHerrings live in schools."
	want.ID, want.Start, want.End, want.Tokens = "sea1", 0, 82, 15
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	twice, err := snap.Passages(t.Context(), []retrieve.Result{{ID: "sea0"}, {ID: "go1", Copies: []string{"sea3"}}},
		retrieve.DefaultOptions())
	if err != nil || twice[0].Copies != nil || len(twice[1].Copies) != 1 || twice[1].Copies[0].Source != "sea.md" {
		t.Errorf("copies: %+v, %v", twice, err)
	}
	for name, x := range map[string]struct {
		o    retrieve.Options
		ids  []string
		want [][]string
	}{
		"parent": {overlay.On(retrieve.DefaultOptions(), retrieve.Options{Expand: retrieve.Parent}), []string{"sea2"},
			[][]string{{"sea2", "sea3"}}},
		"two neighbours": {overlay.On(retrieve.DefaultOptions(),
			retrieve.Options{Expand: retrieve.Neighbours, Neighbours: 2}), []string{"go0"},
			[][]string{{"go0", "go1", "go2"}}},
		"a result in between": {overlay.On(retrieve.DefaultOptions(),
			retrieve.Options{Expand: retrieve.Neighbours, Neighbours: 3}), []string{"go2", "go0"},
			[][]string{{"go1", "go2", "go3"}, nil}},
	} {
		for i, p := range passages(x.o, x.ids...) {
			if !slices.Equal(p.Joined, x.want[i]) || p.ID != x.ids[i] {
				t.Errorf("%s: %v, want %v", name, p.Joined, x.want[i])
			}
		}
	}
	if _, err := snap.Passages(t.Context(), []retrieve.Result{{ID: "gone"}},
		retrieve.DefaultOptions()); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// TestTextsAreKept: chunks that were read before come without the database, in the order that is asked for, until there
// are too many.
func TestTextsAreKept(t *testing.T) {
	var kept []corpus.Chunk
	for i := range 50 {
		kept = append(kept, corpus.Chunk{ID: fmt.Sprint(i), Text: strings.Repeat("x", 3<<18)})
	}
	w := doubles.NewBase(t, nil)
	in := ingest.Input{Paths: []string{w.File(t, "a.jsonl", doubles.Contexts)}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), w.Base, in); err != nil {
		t.Fatal(err)
	}
	snap, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	first, err := snap.Chunks(t.Context(), []string{"herring", "defer"})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	again, err := snap.Chunks(gone, []string{"defer", "herring", "defer"}) // reading anything would fail
	if err != nil || again[0] != first[1] || again[1] != first[0] || again[2] != first[1] {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := snap.Chunks(gone, []string{"defer", "lights"}); err == nil {
		t.Error("a chunk that was not read is there")
	}
	if _, err := snap.Chunks(t.Context(), []string{"no such chunk"}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	for i := range kept {
		knowledge.KeepTexts(snap, kept[i:i+1])
	}
	if n := knowledge.KeptBytes(snap); n > 16<<20 || n < 1<<20 {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestTitlesAreReadOnce: a snapshot reads each title from the store once and also remembers that a document has none. A
// later snapshot reads the titles anew.
func TestTitlesAreReadOnce(t *testing.T) {
	w := newWorld(t, 1000, 1000)
	w.add("ships", "harbours")
	title := func(want string) {
		t.Helper()
		snap, _, err := w.Searchable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Release()
		for range 2 {
			got, err := snap.Titles(t.Context(), []string{"ships", "harbours", "gone"})
			if _, known := got["harbours"]; err != nil || got["ships"] != want || known {
				t.Errorf("%v, %v, want %q", got, err, want)
			}
		}
		if n := knowledge.KeptTitles(snap); n != 3 {
			t.Errorf("%d documents are kept", n)
		}
	}
	title("")
	st, err := w.Writer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := w.Embed(t.Context(), []string{"ships"}, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.Commit(t.Context(), store.Batch{Vectors: e.Data,
		Documents: []*corpus.Document{{ID: "ships", Source: "ships", Digest: "other", Title: "Of ships"}},
		Chunks:    []corpus.Chunk{{ID: "ships", Document: "ships", Source: "ships", Text: "ships"}}})
	if err := w.Changed(err); err != nil {
		t.Fatal(err)
	}
	title("Of ships")
}

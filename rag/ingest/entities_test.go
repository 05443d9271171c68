package ingest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// tagger finds a word as a place; it counts the texts that it reads.
type tagger struct {
	word  string
	texts int
}

func (g *tagger) Spans(_ context.Context, texts []string) (*embed.Spans, error) {
	g.texts += len(texts)
	out := &embed.Spans{Texts: make([][]embed.Span, len(texts)), Truncated: 1}
	for i, text := range texts {
		if at := strings.Index(text, g.word); at >= 0 {
			out.Texts[i] = []embed.Span{{Label: "LOC", Start: at, End: at + len(g.word)},
				{Label: "MISC", Start: 0, End: 3}}
		}
	}
	return out, nil
}

func (g *tagger) Info() embed.Info { return doubles.NewEncoder().Info() }

func labelsOf(t *testing.T, b *doubles.Base, ids ...string) map[string][]store.Label {
	t.Helper()
	st, err := b.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	labels, err := st.Labels(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return labels
}

// Entities become labels of their chunks, also of chunks that were stored without them before; the same again finds
// nothing anew, and another finder does.
func TestEntities(t *testing.T) {
	b := doubles.NewBase(t, nil)
	const lines = `{"id":"a","text":"Marie Curie left Warsaw in 1891, with two suitcases and 40 kg of books."}
{"id":"b","text":"The herring swims in Hollerbach waters."}
`
	o := ingest.Options{NoChunk: true}
	put(t, b, "a.jsonl", lines, o)
	if got := labelsOf(t, b, "a", "b"); len(got) != 0 {
		t.Fatalf("%v", got)
	}
	want := map[string][]store.Label{"a": {{Kind: "date", Value: "1891"}, {Kind: "person", Value: "Marie Curie"},
		{Kind: "place", Value: "Warsaw"}, {Kind: "quantity", Value: "40 kg"}}}
	o.Entities = true
	for name, changed := range map[string]ingest.Options{"first": o, "again": o} {
		r := put(t, b, "a.jsonl", lines, changed)
		if diff := cmp.Diff(want, labelsOf(t, b, "a", "b")); diff != "" || r.Embedded != 0 || r.Known != 2 {
			t.Errorf("%s: %+v (-want +got):\n%s", name, r, diff)
		}
	}
	g := &tagger{word: "Hollerbach"}
	for range 2 {
		in := ingest.Input{Paths: []string{b.File(t, "a.jsonl", lines)}, Options: o, Names: g}
		r, err := ingest.Run(t.Context(), b.Base, in)
		if err != nil || g.texts != 2 {
			t.Fatalf("%+v after %d texts, %v", r, g.texts, err)
		}
	}
	want = map[string][]store.Label{"a": {{Kind: "date", Value: "1891"}, {Kind: "quantity", Value: "40 kg"}},
		"b": {{Kind: "place", Value: "Hollerbach"}}}
	if diff := cmp.Diff(want, labelsOf(t, b, "a", "b")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := put(t, b, "a.jsonl", strings.Replace(lines, "40 kg", "50 kg", 1), o); r.Embedded != 1 || r.Entities != 4 {
		t.Errorf("%+v", r)
	}
}

// A document's language is the one that its source names, else that which was given, else a guess.
func TestLanguageIsKept(t *testing.T) {
	const english = "The keeper looks after the lamp of the tower every evening, and the ships find the harbour."
	for _, c := range []struct{ text, given, want string }{
		{english, "", "en"}, {english, "de", "de"}, {english + `","language":"fr`, "de", "fr"}, {"Lamp.", "", ""},
	} {
		b := doubles.NewBase(t, nil)
		put(t, b, "a.jsonl", `{"id":"a","text":"`+c.text+`"}`, ingest.Options{Language: c.given, NoChunk: true})
		st, err := b.Reader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d, err := st.Document(t.Context(), "a")
		if language, _ := d.Meta["language"].(string); err != nil || language != c.want {
			t.Errorf("%q, %q: %v, %v", c.text, c.given, d.Meta, err)
		}
	}
	b := doubles.NewBase(t, nil)
	in := ingest.Input{Paths: []string{b.File(t, "a.txt", english)}}
	for _, in.Language = range []string{"german", "DE", "d1", "é"} {
		if _, err := ingest.Run(t.Context(), b.Base, in); !errors.Is(err, knowledge.ErrOption) {
			t.Errorf("%q: %v", in.Language, err)
		}
	}
}

// Searches are limited to contexts that name somebody or something.
func TestSearchByEntities(t *testing.T) {
	b := doubles.NewBase(t, nil)
	put(t, b, "a.jsonl", `{"id":"a","topic":"x","text":"Marie Curie left Warsaw in 1891 with many books."}
{"id":"b","topic":"x","text":"Albert Einstein left Germany on 7 December 1932 with many books."}
{"id":"c","topic":"y","text":"Someone left with many books."}
`, ingest.Options{NoChunk: true, Entities: true})
	snap, _, err := b.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	e, err := b.Embed(t.Context(), []string{"who left with many books"}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{
		"label.person~*Curie": "a", "label.person!~*Curie": "b c", "label.place=Germany": "b",
		"label.date>=1900-01-01": "b", "label.date=1891": "a", "label.person~* topic=y": "",
		"label.place=Warsaw label.place=Germany": "a b", "label.organisation=X": "", "topic=x": "a b",
	} {
		f, err := retrieve.ParseFilter(strings.Fields(where))
		if err != nil {
			t.Fatal(err)
		}
		lists, err := snap.Search(t.Context(), retrieve.Queries{Texts: []string{"who left with many books"},
			Vectors: knowledge.Vectors(e)}, overlay.On(retrieve.DefaultOptions(), retrieve.Options{Where: f}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range lists[0].Results {
			got = append(got, r.ID)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", where, got, want)
		}
	}
}

// The words of a document are analysed by the language that it was ingested with, also where its text is too short to
// tell.
func TestWordsGoByTheDocumentsLanguage(t *testing.T) {
	for language, want := range map[string]int{"de": 1, "": 0} {
		b := doubles.NewBase(t, nil)
		put(t, b, "a.jsonl", `{"id":"a","text":"Viele Häuser."}`, ingest.Options{NoChunk: true, Language: language})
		snap, _, err := b.Searchable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Release()
		x, err := snap.Postings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q, err := x.Query("Haus", postings.Scoring{Kind: postings.BM25})
		if err != nil {
			t.Fatal(err)
		}
		hits, err := q.TopK(t.Context(), 1, nil)
		if err != nil || len(hits) != want {
			t.Errorf("%q: %v, %v", language, hits, err)
		}
	}
}

package quote_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/quote"
)

// bags embeds texts as counts of their letters: near texts have near vectors, and nothing has to be set up.
func bags(_ context.Context, texts []string) (engine.Vectors, error) {
	v := engine.Vectors{Rows: len(texts), Dim: 26, Data: make([]float32, 26*len(texts))}
	for i, text := range texts {
		for _, r := range strings.ToLower(text) {
			if r >= 'a' && r <= 'z' {
				v.Data[26*i+int(r-'a')]++
			}
		}
	}
	return v, nil
}

// choose quotes from passages that are all of the base.
func choose(t *testing.T, question string, sentences int, passages ...string) []quote.Quote {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	documents := make([]postings.Document, len(passages))
	for i, p := range passages {
		documents[i] = postings.Document{Text: p, Language: "en"}
	}
	read := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	x, err := postings.New().With(t.Context(), len(passages), read, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := x.Query(question, postings.Scoring{Kind: postings.Cover})
	if err != nil {
		t.Fatal(err)
	}
	vectors, _ := bags(t.Context(), []string{question})
	o := quote.Options{Engine: e, Embed: bags, Max: sentences}
	quotes, err := quote.Choose(t.Context(), o, vectors, q, passages)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range quotes {
		if got := passages[c.Passage][c.Start:c.End]; got != c.Text {
			t.Errorf("%q is not what stands in its place, %q", c.Text, got)
		}
	}
	return quotes
}

// texts are the texts of quotes.
func texts(quotes []quote.Quote) (list []string) {
	for _, q := range quotes {
		list = append(list, q.Text)
	}
	return list
}

const (
	tides  = "The sea is wide. The tides follow the moon's pull. They come twice a day. Sailors know them."
	rivers = "Rivers run to the sea. A river's mouth may be an estuary."
)

func TestTheSentenceWithTheWordsIsQuoted(t *testing.T) {
	got := choose(t, "What do the tides follow?", 1, rivers, tides)
	if want := []string{"The tides follow the moon's pull."}; !slices.Equal(texts(got), want) || got[0].Passage != 1 {
		t.Errorf("%+v, not %q of passage 1", got, want)
	}
}

// TestASentenceBringsWhatItLeansOn: "They" is nothing without the sentence before, where there is room for it.
func TestASentenceBringsWhatItLeansOn(t *testing.T) {
	got := choose(t, "How often a day do they come, twice?", 2, tides)
	want := "The tides follow the moon's pull. They come twice a day."
	if len(got) != 1 || got[0].Text != want || got[0].Sentences != 2 {
		t.Errorf("%+v, not %q", got, want)
	}
	if got := choose(t, "How often a day do they come, twice?", 1, tides); !slices.Equal(texts(got),
		[]string{"They come twice a day."}) {
		t.Errorf("%+v with room for one sentence", got)
	}
}

// TestNoSentenceIsQuotedTwice: with room for all, each comes once, better first, and what is far behind does not come.
func TestNoSentenceIsQuotedTwice(t *testing.T) {
	got := choose(t, "What do tides and rivers do to the sea?", 100, tides, rivers, "xyz")
	seen := map[string]bool{}
	for i, q := range got {
		if seen[q.Text] || q.Text == "xyz" {
			t.Errorf("%q comes twice, or says nothing of the question", q.Text)
		}
		seen[q.Text] = true
		if i > 0 && q.Score > got[i-1].Score {
			t.Errorf("%+v comes behind %+v", q, got[i-1])
		}
	}
	if len(got) < 3 {
		t.Errorf("%d quotes: %+v", len(got), got)
	}
}

// TestItemsAreQuotedAlone: an item of a list is a sentence of its own.
func TestItemsAreQuotedAlone(t *testing.T) {
	got := choose(t, "Which port is the deepest?", 1, "The ports:\n\n- Bergen: the oldest port\n- Narvik: the deepest port\n- Oslo: the widest port\n")
	if want := []string{"- Narvik: the deepest port"}; !slices.Equal(texts(got), want) {
		t.Errorf("%q, not %q", texts(got), want)
	}
}

func TestNothingToQuote(t *testing.T) {
	for _, passages := range [][]string{nil, {""}, {"…", " \n"}} {
		if got := choose(t, "What?", 2, passages...); len(got) != 0 {
			t.Errorf("%q: %+v", passages, got)
		}
	}
	if got := choose(t, "", 1, tides); len(got) != 1 {
		t.Errorf("a question without words: %+v", got)
	}
	if _, err := quote.Choose(t.Context(), quote.Options{}, engine.Vectors{}, nil, nil); err == nil {
		t.Error("no sentences at all were asked for, and that is no error")
	}
}

package postings

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/kernels"
)

// TestPartsScoreAsTheWhole: indexes of parts of a base, with the statistics of all parts, have the covers of the whole
// base's index, bit for bit; texts are in several languages, some rows are deleted, and some questions have names that
// only another part has.
func TestPartsScoreAsTheWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 11))
	vocabulary := strings.Fields("tides moons herrings swimming schools Häuser Bäume laufen SKU-4711 v1.2.3 running " +
		"runs apples oranges pressures ocean oceans")
	text := func(words int) string {
		var b strings.Builder
		for range words {
			b.WriteString(vocabulary[min(rng.IntN(len(vocabulary)), rng.IntN(len(vocabulary)))] + " ")
		}
		return b.String()
	}
	documents := make([]Document, 700)
	for i := range documents {
		documents[i] = Document{Text: text(1 + rng.IntN(9)), Language: []string{"en", "en", "de", ""}[rng.IntN(4)]}
	}
	deleted := func(row int) bool { return row%13 == 5 }
	made := func(from, to int) *Index {
		source := func(_ context.Context, a, b int) ([]Document, error) { return documents[from+a : from+b], nil }
		x, err := New().With(t.Context(), to-from, source, func(row int) bool { return deleted(from + row) }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	whole := made(0, 700)
	var questions []string
	for range 60 {
		questions = append(questions, text(rng.IntN(7))+"unheard")
	}
	cuts, sum := []int{0, 3, 250, 251, 700}, Statistics{}
	var parts []*Index
	for i := range len(cuts) - 1 {
		parts = append(parts, made(cuts[i], cuts[i+1]))
		sum = sum.Plus(parts[i].Statistics(nil))
	}
	terms := sum.TermsOf(questions...)
	for _, x := range parts {
		s := x.Statistics(terms)
		s.Live, s.Length, s.Languages = 0, 0, nil
		sum = sum.Plus(s)
	}
	if want := whole.Statistics(terms); !cmp.Equal(want, sum) {
		t.Fatalf("statistics of the parts: %s", cmp.Diff(want, sum))
	}
	for _, question := range questions {
		want := query(t, whole, question, Scoring{Kind: Cover})
		for i, x := range parts {
			got := query(t, x.Among(sum), question, Scoring{Kind: Cover})
			if diff := cmp.Diff(want.Terms(), got.Terms()); diff != "" {
				t.Fatalf("%q (-whole +part):\n%s", question, diff)
			}
			for _, weight := range []float64{.25, 1} {
				a, b := make([]float32, cuts[i+1]-cuts[i]), make([]float32, cuts[i+1]-cuts[i])
				err := errors.Join(want.Biases(weight).Read(kernels.RowBlock{First: cuts[i], Len: len(a)}, a),
					got.Biases(weight).Read(kernels.RowBlock{Len: len(b)}, b))
				if err != nil || !cmp.Equal(a, b) {
					t.Fatalf("%q, rows from %d, weight %v: %v\n%s", question, cuts[i], weight, err, cmp.Diff(a, b))
				}
			}
		}
	}
	for _, kind := range []Kind{BM25, TFIDF} {
		if _, err := parts[0].Among(sum).Query("tides", Scoring{Kind: kind}); !errors.Is(err, ErrKind) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestPickAndJoin: the rows of an index, picked in two parts and joined, are the index of these rows' texts.
func TestPickAndJoin(t *testing.T) {
	texts := []string{"The tides follow the moon.", "Herrings swim", "A moon of Jupiter", "gone", "schools of herring",
		"moon and moon"}
	x := index(t, inEnglish(texts...), func(row int) bool { return row == 3 })
	y, err := x.With(t.Context(), 8, func(context.Context, int, int) ([]Document, error) {
		return []Document{{Text: "Gezeiten und Monde", Language: "de"}, {Text: "the last moon", Language: "en"}}, nil
	}, func(row int) bool { return row == 3 }, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := []int{0, 2, 4, 6, 7}
	joined := Join(y.Pick(rows[:2]), New(), y.Pick(rows[2:]))
	want := index(t, append(inEnglish(texts[0], texts[2], texts[4]),
		Document{Text: "Gezeiten und Monde", Language: "de"}, Document{Text: "the last moon", Language: "en"}), never)
	terms := want.Statistics(nil).TermsOf(texts...)
	if diff := cmp.Diff(want.Statistics(terms), joined.Statistics(terms)); diff != "" || joined.Rows() != len(rows) {
		t.Errorf("%d rows (-of the texts +joined):\n%s", joined.Rows(), diff)
	}
	for _, question := range []string{"moon", "herrings of the moon", "Monde und Gezeiten"} {
		a, b := query(t, want, question, Scoring{Kind: BM25}), query(t, joined, question, Scoring{Kind: BM25})
		for row := range rows {
			if a.Score(row) != b.Score(row) {
				t.Errorf("%q, row %d: %v, want %v", question, row, b.Score(row), a.Score(row))
			}
		}
	}
	if n := y.Pick(nil); n.Rows() != 0 || n.live != 0 {
		t.Errorf("%d rows of none", n.Rows())
	}
}

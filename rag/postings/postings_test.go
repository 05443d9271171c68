package postings

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
)

func TestTerms(t *testing.T) {
	for _, x := range []struct{ language, text, want string }{
		{"en", "The Normans were descended from NORSE raiders, and pirates!",
			"norman were descend from nors raider pirat"},
		{"en", "x_1 3.14 don't", "x_1 3 14 don t"},
		{"de", "Die Häuser der größten Städte", "haus grosst stadt"},
		{"de", "Die Ha\u0308user", "haus"}, // decomposed
		{"fr", "les continuations", "continu"},
		{"", "The Normans were", "the normans were"},
		{"xx", "The Normans", "the normans"},
		{"ja", "東京都 2024", "東京 京都 2024"},
		{"zh", "東", "東"},
		{"hi", "हिन्दी", "हिन्दी"},
		{"de", "Bundes\u00adverfassungs\u00adgerichte \u00ad tagten", "bundesverfassungsgericht tagt"},
		{"", "ΟΔΟΣ οδος", "οδοσ οδοσ"},
		{"", "ﬁsh ＡＢＣ１２ km² Foo™ ｶﾞｸ", "fish abc12 km2 foo ガク"},
		{"de", "Straße STRASSE STRAẞE daß", "strass strass strass"},
		{"", "a\u200bb c\u2060d می\u200cخواهم", "a b cd میخواهم"},
		{"en", "", ""},
		{"en", "\x00\xff \xc3", ""},
		{"en", strings.Repeat("ä", 100), strings.Repeat("ä", 64)},
	} {
		if got := strings.Join(For(x.language).Terms(x.text), " "); got != x.want {
			t.Errorf("%s %q: %q, want %q", x.language, x.text, got, x.want)
		}
	}
}

// TestEveryLanguageStems: words with what snowballstemmer 3.1.1 of Python makes of them.
func TestEveryLanguageStems(t *testing.T) {
	for language, x := range map[string][2]string{
		"da": {"undersøgelserne", "undersøg"}, "de": {"aufeinanderfolgenden", "aufeinanderfolg"},
		"en": {"generously", "generous"},
		"es": {"torneados", "torn"}, "fi": {"edeltäjistä", "edeltäj"}, "it": {"pronunciamento", "pronunc"},
		"pt": {"quinzenais", "quinzen"}, "ru": {"вавилонский", "вавилонск"}, "sv": {"jaktkarlarne", "jaktkarl"},
	} {
		if got := For(language).Terms(x[0]); len(got) != 1 || got[0] != x[1] {
			t.Errorf("%s %s: %q, want %q", language, x[0], got, x[1])
		}
	}
}

// library is a source of documents.
type library []Document

func (l library) read(_ context.Context, from, to int) ([]Document, error) { return l[from:to], nil }

func inEnglish(texts ...string) (l library) {
	for _, text := range texts {
		l = append(l, Document{Text: text, Language: "en"})
	}
	return l
}

func never(int) bool { return false }

func index(t testing.TB, l library, deleted func(int) bool) *Index {
	t.Helper()
	x, err := New().With(context.Background(), len(l), l.read, deleted, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func query(t testing.TB, x *Index, text string, s Scoring) *Query {
	t.Helper()
	q, err := x.Query(text, s)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestScoresAreTheFormulas: computed by hand.
func TestScoresAreTheFormulas(t *testing.T) {
	x := index(t, inEnglish("red apple red", "green apple", "blue sky over green green hills", ""), never)
	idf := func(df float64) float64 { return math.Log(1 + (4-df+.5)/(df+.5)) }
	mean := (3 + 2 + 6 + 0) / 4.
	bm25 := func(df, tf, length float64) float64 {
		return idf(df) * tf * 2.5 / (tf + 1.5*(1-.75+.75*length/mean))
	}
	q := query(t, x, "red green unicorns", Scoring{Kind: BM25})
	near(t, "bm25 0", q.Score(0), bm25(1, 2, 3))
	near(t, "bm25 2", q.Score(2), bm25(2, 2, 6))
	near(t, "ideal", q.Ideal(), 2.5*(idf(1)+idf(2)+idf(0)))
	near(t, "repeat", query(t, x, "red red", Scoring{Kind: BM25}).Score(0), 2*bm25(1, 2, 3))
	near(t, "k1, b", query(t, x, "red", Scoring{Kind: BM25, K1: 2, NoLength: true}).Score(0), idf(1)*2*3/(2+2))
	c := query(t, x, "red green green unicorns", Scoring{Kind: Cover})
	near(t, "cover 0", c.Score(0), idf(1)/(idf(1)+idf(2)+idf(0)))
	near(t, "cover 1", c.Score(1), idf(2)/(idf(1)+idf(2)+idf(0)))
	near(t, "cover 3", c.Score(3), 0)
	s := func(df float64) float64 { return 1 + math.Log(5/(1+df)) }
	f := query(t, x, "red green", Scoring{Kind: TFIDF})
	near(t, "tf-idf", f.Score(0), 2*s(1)*s(1)/math.Hypot(2*s(1), s(2))/math.Hypot(s(1), s(2)))
	if got := f.Terms(); len(got) != 2 || got[1].Text != "green" || got[1].DF != 2 {
		t.Errorf("terms %+v", got)
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestQueryRefuses(t *testing.T) {
	x := index(t, inEnglish("a word"), never)
	for _, s := range []Scoring{{}, {Kind: "bm26"}, {Kind: BM25, K1: -1}, {Kind: BM25, B: 1.1},
		{Kind: BM25, K1: math.NaN()}} {
		if _, err := x.Query("word", s); !errors.Is(err, ErrKind) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, err := query(t, x, "word", Scoring{Kind: BM25}).TopK(t.Context(), 0,
		nil); !errors.Is(err, kernels.ErrArgument) {
		t.Error(err)
	}
	for _, text := range []string{"", "\x00", "the", strings.Repeat("the word ", 30_000)} {
		if hits, err := query(t, x, text, Scoring{Kind: BM25}).TopK(t.Context(), 3, nil); err != nil || len(hits) > 1 {
			t.Errorf("%.10q: %v, %v", text, hits, err)
		}
	}
	if hits, err := query(t, New(), "word", Scoring{Kind: TFIDF}).TopK(t.Context(), 3, nil); err != nil ||
		len(hits) > 0 {
		t.Error("an empty index:", hits, err)
	}
}

// A query to a base in two languages finds the words of both; each word's IDF counts once.
func TestLanguages(t *testing.T) {
	x := index(t, library{{Text: "continuations of stories", Language: "en"},
		{Text: "die Häuser am Meer", Language: "de"}, {Text: "die Hände", Language: "de"}}, never)
	if diff := cmp.Diff([]string{"de", "en"}, x.languages); diff != "" {
		t.Error(diff)
	}
	for text, row := range map[string]int{"continuation": 0, "Haus": 1} {
		q := query(t, x, text, Scoring{Kind: Cover})
		if hits, err := q.TopK(t.Context(), 1, nil); err != nil || len(hits) != 1 || hits[0].Row != row {
			t.Errorf("%s: %v, %v", text, hits, err)
		}
		near(t, text, q.Score(row), 1)
	}
	if q := query(t, x, "continuation", Scoring{Kind: Cover, Language: "de"}); len(q.terms) > 0 {
		t.Error("German stems of an English word:", q.Terms())
	}
}

// A query of content has none of the words that ask, in any form and language of the index, unless it has no others.
func TestContent(t *testing.T) {
	x := index(t, library{{Text: "What does the keeper do? The keepers keep the lamp.", Language: "en"},
		{Text: "Was tut der Wärter?", Language: "de"}}, never)
	for text, want := range map[string]string{"What does keeper DO?": "keep keeper",
		"What does who do?": "what does who do doe", "which Lamps": "lamps lamp", "": ""} {
		q := query(t, x, text, Scoring{Kind: Cover, Content: true})
		var terms []string
		for _, w := range q.Terms() {
			terms = append(terms, w.Text)
		}
		if got := strings.Join(terms, " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		for _, kind := range []Kind{BM25, TFIDF, Cover} {
			other, err := q.As(Scoring{Kind: kind})
			if err != nil || len(other.Terms()) != len(terms) {
				t.Errorf("%q as %s: %v, %v", text, kind, other.Terms(), err)
			}
		}
	}
	q := query(t, x, "What does a keeper do?", Scoring{Kind: Cover, Content: true, Language: "en"})
	near(t, "a keeper", q.Score(0), 1)
}

var wordsOfTests = strings.Fields("apple bridge castle dune eagle forest garden harbour island jungle")

// drawn draws documents, and which are deleted.
func drawn(t *rapid.T) (library, func(int) bool) {
	var l library
	for i := range rapid.IntRange(0, 60).Draw(t, "documents") {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(wordsOfTests), 0, 12).Draw(t, fmt.Sprint("text ", i)),
			" ")
		l = append(l, Document{Text: text, Language: rapid.SampledFrom([]string{"en", "de", ""}).Draw(t,
			fmt.Sprint("language ", i))})
	}
	gone := map[int]bool{}
	if rapid.Bool().Draw(t, "deletes") {
		for range rapid.IntRange(0, len(l)).Draw(t, "gone") {
			gone[rapid.IntRange(0, len(l)).Draw(t, "row")] = true
		}
	}
	return l, func(row int) bool { return gone[row] }
}

// TestTopKIsSorting: TopK is what sorting the scores of all rows gives, and biases are the scores.
func TestTopKIsSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, deleted := drawn(t)
		x, err := New().With(context.Background(), len(l), l.read, deleted, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(wordsOfTests, "zebra")), 0, 6).Draw(t, "query"),
			" ")
		kind, k := rapid.SampledFrom([]Kind{BM25, TFIDF, Cover}).Draw(t, "kind"), rapid.IntRange(1, 12).Draw(t, "k")
		q, err := x.Query(text, Scoring{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		odd := func(row int) bool { return row%3 != 1 }
		var want []kernels.Hit
		for row := range l {
			if s := q.Score(row); s > 0 && !deleted(row) && odd(row) {
				want = append(want, kernels.Hit{Row: row, Score: s})
			}
		}
		sort.SliceStable(want, func(i, j int) bool { return want[i].Score > want[j].Score })
		want = want[:min(k, len(want))]
		got, err := q.TopK(context.Background(), k, odd)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, %v; want %v", got, err, want)
		}
		if q.Ideal() < 0 || len(got) > 0 && got[0].Score > q.Ideal()*(1+1e-9) {
			t.Fatalf("a score of %v above the ideal %v", got[0].Score, q.Ideal())
		}
		if any := q.Any(odd); any != (len(got) > 0) {
			t.Fatalf("any row: %v, found %v", any, got)
		}
		b, out := q.Biases(.5), make([]float32, len(l))
		if err := b.Read(kernels.RowBlock{Number: -1, Len: len(l)}, out); err != nil {
			t.Fatal(err)
		}
		for row := range out {
			if out[row] != b.At(row) || math.Abs(float64(out[row])-.5*q.Score(row)) > 1e-6 {
				t.Fatalf("row %d: bias %v, alone %v, score %v", row, out[row], b.At(row), q.Score(row))
			}
		}
		var odds []int
		for row := range l {
			if odd(row) {
				odds = append(odds, row)
			}
		}
		of := make([]float32, len(odds))
		b.ReadRows(odds, of)
		for i, row := range odds {
			if of[i] != out[row] {
				t.Fatalf("row %d of some rows: bias %v, %v among all", row, of[i], out[row])
			}
		}
		rows, some := []int32{2, 0}, make([]float32, 2)
		if len(l) > 2 {
			if err := b.Read(kernels.RowBlock{Rows: rows, Len: 2}, some); err != nil || some[0] != out[2] ||
				some[1] != out[0] {
				t.Fatalf("%v, %v of %v", some, err, out)
			}
			block := kernels.RowBlock{Number: 3, Rows: rows, Len: 2}
			if err := x.Place(context.Background(), []kernels.RowBlock{block}, nil); err != nil {
				t.Fatal(err)
			}
			other := kernels.RowBlock{Number: 3, Rows: []int32{1, 2}, Len: 2}
			for _, at := range []kernels.RowBlock{block, other} {
				clear(some)
				if err := q.Biases(.5).Read(at, some); err != nil || some[0] != out[at.Rows[0]] ||
					some[1] != out[at.Rows[1]] {
					t.Fatalf("block %v: %v, %v of %v", at, some, err, out)
				}
			}
			clear(some)
			if err := b.Of([]int{1, 2}).Read(kernels.RowBlock{Len: 2, Number: -1}, some); err != nil ||
				some[0] != out[1] || some[1] != out[2] {
				t.Fatalf("%v, %v of %v", some, err, out)
			}
		}
	})
}

// TestGrowingIsMakingAnew: an index that has followed its base, stored and loaded on the way, has the scores of one
// that was made at once; so has one from which rows were deleted and one that never had their words.
func TestGrowingIsMakingAnew(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		l, deleted := drawn(t)
		x := New()
		var err error
		for x.Rows() < len(l) {
			rows := rapid.IntRange(x.Rows()+1, len(l)).Draw(t, "rows")
			if x, err = x.With(context.Background(), rows, l.read, deleted, nil); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "store") {
				name := filepath.Join(dir, "postings")
				if err := x.Save(context.Background(), name, [32]byte{1}); err != nil {
					t.Fatal(err)
				}
				if x, err = Load(name, func(int) ([32]byte, error) { return [32]byte{1}, nil }); err != nil {
					t.Fatal(err)
				}
				if x, err = x.With(context.Background(), rows, l.read, deleted, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		var left library
		for row, d := range l {
			if deleted(row) {
				continue
			}
			left = append(left, d)
		}
		y, err := New().With(context.Background(), len(left), left.read, never, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []Kind{BM25, TFIDF, Cover} {
			s := Scoring{Kind: kind, Language: rapid.SampledFrom([]string{"", "en"}).Draw(t, "language")}
			a, err := x.Query("apple bridge zebra dune", s)
			if err != nil {
				t.Fatal(err)
			}
			b, err := y.Query("apple bridge zebra dune", s)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for row := range l {
				if deleted(row) {
					continue
				}
				if a.Score(row) != b.Score(at) {
					t.Fatalf("%s: row %d scores %v, made anew %v", kind, row, a.Score(row), b.Score(at))
				}
				at++
			}
		}
	})
}

func TestManyRows(t *testing.T) {
	var l library
	for i := range 3*groupRows + 5 {
		l = append(l, Document{Text: wordsOfTests[i%7] + " " + wordsOfTests[i%10], Language: "en"})
	}
	each := func(ctx context.Context, tasks int, fn func(int) error) error {
		for task := tasks - 1; task >= 0; task-- {
			if err := fn(task); err != nil {
				return err
			}
		}
		return nil
	}
	x, err := New().With(t.Context(), len(l), l.read, never, each)
	if err != nil || x.Rows() != len(l) || x.live != len(l) {
		t.Fatal(x, err)
	}
	hits, err := query(t, x, "eagle harbour", Scoring{Kind: Cover}).TopK(t.Context(), 3, nil)
	if err != nil || len(hits) != 3 || hits[0].Row >= hits[1].Row || hits[0].Score != hits[2].Score {
		t.Errorf("%v, %v", hits, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New().With(cancelled, len(l), l.read, never, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := x.With(t.Context(), 1, l.read, never, nil); !errors.Is(err, kernels.ErrShape) {
		t.Error(err)
	}
	short := func(context.Context, int, int) ([]Document, error) { return nil, nil }
	if _, err := New().With(t.Context(), 2, short, never, nil); !errors.Is(err, kernels.ErrShape) {
		t.Error(err)
	}
}

// TestLoadRefuses: every changed byte, every cut and other rows are ErrFile.
func TestLoadRefuses(t *testing.T) {
	x, name := index(t, inEnglish("red apple", "green apple"), never), filepath.Join(t.TempDir(), "postings")
	if err := x.Save(t.Context(), name, [32]byte{7}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	load := func(b []byte) error {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(name, func(rows int) ([32]byte, error) { return [32]byte{7}, nil })
		return err
	}
	if err := load(whole); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		b := slices.Clone(whole)
		b[i] ^= 1
		if err := load(b); !errors.Is(err, ErrFile) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if err := load(whole[:i]); !errors.Is(err, ErrFile) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, err := Load(name+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	other := func(int) ([32]byte, error) { return [32]byte{8}, nil }
	if err := os.WriteFile(name, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name, other); !errors.Is(err, ErrFile) {
		t.Error(err)
	}
}

// FuzzDecode: what decode accepts, searches do not stumble over.
func FuzzDecode(f *testing.F) {
	name := filepath.Join(f.TempDir(), "postings")
	if err := index(f, inEnglish("red apple", "green apple"), never).Save(context.Background(), name,
		[32]byte{}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(name)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:len(whole)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		words := make([]uint64, (len(body)+4+7)/8)
		b := numbersOf[byte](bytesOf(words), len(body)+4)
		copy(b, body)
		binary.LittleEndian.PutUint32(b[len(body):], durable.Checksum(body))
		s, _, err := decode(b)
		if err != nil {
			return
		}
		x := New()
		x.segments = []*segment{s}
		x.count()
		for _, kind := range []Kind{BM25, TFIDF, Cover} {
			if _, err := query(t, x, "red green apple", Scoring{Kind: kind}).TopK(t.Context(), 2, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestQueryByAnotherScoring: As is what Query makes of the same text.
func TestQueryByAnotherScoring(t *testing.T) {
	x := index(t, library{{Text: "the cat sat on the mat", Language: "en"},
		{Text: "der Hund und die Katze", Language: "de"}, {Text: "dogs and cats", Language: "en"}},
		never)
	kinds := []Kind{BM25, TFIDF, Cover}
	for _, language := range []string{"", "en", "de"} {
		for _, from := range kinds {
			q, err := x.Query("cats, dogs and Katzen: cats", Scoring{Kind: from, Language: language})
			if err != nil {
				t.Fatal(err)
			}
			for _, to := range kinds {
				got, err := q.As(Scoring{Kind: to, K1: 1.2})
				if err != nil {
					t.Fatal(err)
				}
				want, err := x.Query("cats, dogs and Katzen: cats", Scoring{Kind: to, K1: 1.2, Language: language})
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.Terms(), want.Terms()) || got.Ideal() != want.Ideal() {
					t.Errorf("%s as %s: %v, %v, want %v, %v", from, to, got.Terms(), got.Ideal(), want.Terms(),
						want.Ideal())
				}
				for row := range 3 {
					if got.Score(row) != want.Score(row) {
						t.Errorf("%s as %s, row %d: %v, want %v", from, to, row, got.Score(row), want.Score(row))
					}
				}
			}
			if _, err := q.As(Scoring{Kind: "other"}); !errors.Is(err, ErrKind) {
				t.Errorf("an unknown kind: %v", err)
			}
		}
	}
}

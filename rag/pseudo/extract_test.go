package pseudo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// contextsOf are contexts of texts.
func contextsOf(t testing.TB, texts ...string) (c Contexts) {
	t.Helper()
	for i, text := range texts {
		c.Chunks = append(c.Chunks, corpus.Chunk{ID: fmt.Sprint("c", i), Text: text})
	}
	v, err := (&bag{}).Embed(t.Context(), texts, embed.Document)
	if err != nil {
		t.Fatal(err)
	}
	c.Vectors = engine.Vectors{Data: v.Data, Rows: len(texts), Dim: v.Dim}
	return c
}

var (
	herring = "The herring lives in large schools and feeds on plankton. Herring spawns in autumn off the coast of " +
		"Norway, where herring boats of many nations wait for it."
	lamps = "Lighthouses warn ships of rocks and shallow water with a rotating lamp. The first lighthouses burned " +
		"wood, later ones whale oil, and the lamp of the last ones is electric."
	danube = "Die Donau entspringt im Schwarzwald und fließt durch zehn Länder ins Schwarze Meer. An der Donau liegen " +
		"Wien, Budapest und Belgrad, und auf der Donau fahren Schiffe mit Getreide und Erz."
)

// TestExtract: questions have a beginning in their language, words of the context, and some of its neighbours.
func TestExtract(t *testing.T) {
	c := contextsOf(t, herring, lamps, danube)
	var progress []int
	got, report, err := Extract(t.Context(), newEngine(t), c, Options{PerContext: 20, Seed: 1,
		Progress: func(done, total int) { progress = append(progress, 10*done+total) }})
	if err != nil {
		t.Fatal(err)
	}
	if !report.Extracted || report.Contexts != 3 || report.Generated != 60 || total(report) != 60 ||
		report.Kept != len(got) || report.Calls != 0 || report.Barren != 0 || len(got) < 50 {
		t.Errorf("%d kept, %+v", len(got), report)
	}
	if !reflect.DeepEqual(progress, []int{13, 23, 33}) {
		t.Errorf("progress %v", progress)
	}
	own, foreign, named := 0, 0, 0
	for _, q := range got {
		i := slices.IndexFunc(c.Chunks, func(x corpus.Chunk) bool { return x.ID == q.ContextID })
		code := []string{"en", "en", "de"}[i]
		first := slices.IndexFunc(beginnings(code), func(b string) bool { return strings.HasPrefix(q.Text, b+" ") })
		if first < 0 || !strings.HasSuffix(q.Text, "?") {
			t.Fatalf("%q does not begin and end like a question", q.Text)
		}
		if i == 0 && strings.Contains(strings.ToLower(q.Text), "herring") {
			named++
		}
		for _, w := range spell(strings.TrimPrefix(q.Text, beginnings(code)[first])) {
			switch {
			case slices.Contains(spell(c.Chunks[i].Text), w):
				own++
			case slices.Contains(spell(herring+" "+lamps+" "+danube), w):
				foreign++
			default:
				t.Errorf("%q has %q, which no context has", q.Text, w)
			}
		}
	}
	if share := float64(foreign) / float64(own+foreign); share < .1 || share > .4 {
		t.Errorf("%.2f of the words are not the context's", share)
	}
	if named < 15 {
		t.Errorf("%d of 20 questions have the word that the context has most often", named)
	}
}

// TestExtractIsDeterministic: the same questions for the same seed, whatever contexts are asked about besides.
func TestExtractIsDeterministic(t *testing.T) {
	c, e := base(t), newEngine(t)
	extract := func(o Options) []Query {
		t.Helper()
		got, _, err := Extract(t.Context(), e, c, o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	all := extract(Options{Seed: 1})
	if again := extract(Options{Seed: 1}); !reflect.DeepEqual(all, again) {
		t.Errorf("%v, then %v", all, again)
	}
	if other := extract(Options{Seed: 2}); reflect.DeepEqual(all, other) {
		t.Error("another seed makes the same questions")
	}
	some := extract(Options{Seed: 1, Rows: []int{7, 2}})
	want := slices.DeleteFunc(slices.Clone(all), func(q Query) bool {
		return q.ContextID != c.Chunks[2].ID && q.ContextID != c.Chunks[7].ID
	})
	if !reflect.DeepEqual(some, want) {
		t.Errorf("of two contexts %v, among all %v", some, want)
	}
	if n := len(extract(Options{Seed: 1, Sample: 4, PerContext: 1})); n != 4 {
		t.Errorf("%d questions about a sample of 4", n)
	}
}

// TestExtractFromBadTexts: whatever stands in a context, questions are valid text and no longer than others.
func TestExtractFromBadTexts(t *testing.T) {
	unbroken := strings.Repeat("x", 1<<20)
	long := strings.Repeat("many different words and few of them twice ", 25_000)
	texts := []string{"", " \n\t", "…!?", "word", "\x00\x00a\x00b\xff\xfe\xc3(",
		"func f(x int) int { return x<<2 | 1 }", unbroken, long, "鯨は海に住む大きな哺乳類であり、魚ではない。鯨の歌は遠くまで届く。", herring}
	c := contextsOf(t, texts...)
	got, report, err := Extract(t.Context(), newEngine(t), c, Options{PerContext: 5})
	if err != nil {
		t.Fatal(err)
	}
	if total(report) != report.Generated || report.Barren < 4 {
		t.Errorf("%+v", report)
	}
	about := map[string]bool{}
	for _, q := range got {
		about[q.ContextID] = true
		if !utf8.ValidString(q.Text) || strings.ContainsRune(q.Text, 0) || len(q.Text) > 2000 ||
			len(words(q.Text)) < 3 {
			t.Errorf("%.100q about %s", q.Text, q.ContextID)
		}
	}
	for _, id := range []string{"c5", "c7", "c8", "c9"} {
		if !about[id] {
			t.Errorf("no question about %s", id)
		}
	}
}

func TestExtractWithoutWords(t *testing.T) {
	_, report, err := Extract(t.Context(), newEngine(t), contextsOf(t, "", "!", "a"), Options{})
	if !errors.Is(err, ErrQueries) || report.Barren != 3 || total(report) != report.Generated {
		t.Errorf("%+v, %v", report, err)
	}
	if _, _, err := Extract(t.Context(), newEngine(t), Contexts{}, Options{}); !errors.Is(err, kernels.ErrShape) {
		t.Errorf("no contexts: %v", err)
	}
	if _, _, err := Extract(t.Context(), newEngine(t), base(t), Options{PerContext: -1}); err == nil {
		t.Error("a negative number of questions is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Extract(ctx, newEngine(t), base(t), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestDrawGoesByFrequency: a word is drawn first with the probability of its weight.
func TestDrawGoesByFrequency(t *testing.T) {
	d := extractor{extraction: extraction{power: 2}}
	p := passage{words: []string{"a", "b"}, terms: []string{"a", "b"}, of: map[string]int{"a": 1, "b": 2}}
	random := rand.New(rand.NewPCG(1, 1))
	n := 0
	for range 10_000 {
		n += d.draw(p, 1, random)[0]
	}
	if n < 7850 || n > 8150 { // 4 of 5, within 3.7 standard deviations
		t.Errorf("the word of weight 4 beside one of weight 1 is drawn in %d of 10000", n)
	}
	if got := d.draw(p, 9, random); !reflect.DeepEqual(got, []int{0, 1}) {
		t.Errorf("all words, in order: %v", got)
	}
}

func FuzzExtract(f *testing.F) {
	for _, text := range []string{"", herring, danube, "鯨は海に住む", "\xff\x00", "a-b_c d'e ’ 12,5"} {
		f.Add(text, lamps, uint64(1))
	}
	e := newEngine(f)
	f.Fuzz(func(t *testing.T, text, other string, seed uint64) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, report, err := Extract(ctx, e, contextsOf(t, text, other), Options{Seed: seed, PerContext: 2})
		if err != nil && !errors.Is(err, ErrQueries) {
			t.Fatal(err)
		}
		if total(report) != report.Generated {
			t.Errorf("%+v", report)
		}
		for _, q := range got {
			if !utf8.ValidString(q.Text) || len(words(q.Text)) < minWords {
				t.Errorf("%q", q.Text)
			}
		}
	})
}

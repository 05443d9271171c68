//go:build native

package knowledge_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/quote"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

var figures = flag.Bool("figures", false, "run TestQuoteFigures, which takes minutes")

// TestQuoteFigures prints how often quotes of the four best passages hold an accepted answer, for all answerable
// questions of squad16 and for a question of each context of xquad-de, with one sentence and with two at most, for each
// half of the topics; and how long it takes to choose them.
func TestQuoteFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: -figures is not set; it takes minutes")
	}
	enc := minilm.Open(t, embed.Options{})
	timed := &timed{Embedder: enc}
	for _, x := range []struct {
		set      string
		one, two float64 // share of the answers, at least
	}{{"squad16", .80, .88}, {"xquad-de", .75, .85}} {
		t.Run(x.set, func(t *testing.T) { quoteFigures(t, timed, x.set, x.one, x.two) })
	}
}

// timed knows how long it has embedded.
type timed struct {
	embed.Embedder
	spent time.Duration
}

func (e *timed) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	began := time.Now()
	defer func() { e.spent += time.Since(began) }()
	return e.Embedder.Embed(ctx, texts, role)
}

// quoteFigures are the figures of a set.
func quoteFigures(t *testing.T, enc *timed, set string, one, two float64) {
	contexts := datasets.Lines(t, set+"/contexts.jsonl")
	base := doubles.NewBase(t, func(c *knowledge.Config) {
		c.Encoder = func(context.Context) (embed.Embedder, error) { return enc, nil }
	})
	commit(t, base, enc, contexts)
	snap, _, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	questions := answered(t, set)
	q := retrieve.Queries{}
	for _, l := range questions {
		q.Texts = append(q.Texts, l.Text)
	}
	e, err := enc.Embed(t.Context(), q.Texts, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	q.Vectors = knowledge.Vectors(e)
	lists, err := snap.Search(t.Context(), q, overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{K: 4, Mode: retrieve.Auto}))
	if err != nil {
		t.Fatal(err)
	}
	half, text := halves(contexts), map[string]string{}
	for _, c := range contexts {
		text[c.ID] = c.Text
	}
	var found, single, double tally
	var cold, warm []float64
	var embedding, all float64 // milliseconds of what was not kept
	for i, l := range questions {
		vectors := q.Vectors
		vectors.Data, vectors.Rows = vectors.Data[i*vectors.Dim:(i+1)*vectors.Dim], 1
		var passages []string
		for _, r := range lists[i].Results {
			passages = append(passages, text[r.ID])
		}
		choose := func(sentences int) ([]quote.Quote, float64) {
			began := time.Now()
			quotes, err := snap.Quotes(t.Context(), quote.Options{Question: l.Text, Max: sentences}, vectors, passages)
			if err != nil {
				t.Fatal(err)
			}
			return quotes, time.Since(began).Seconds() * 1000
		}
		before := enc.spent
		quotes, took := choose(2)
		if spent := enc.spent - before; spent > 0 {
			cold, embedding, all = append(cold, took), embedding+spent.Seconds()*1000, all+took
		}
		_, took = choose(2)
		warm = append(warm, took)
		best, _ := choose(1)
		h := half[l.Topic]
		found.add(h, l.Answers, passages...)
		single.add(h, l.Answers, quoted(best)...)
		double.add(h, l.Answers, quoted(quotes)...)
	}
	t.Logf("of %d questions: passages that hold an answer %v", len(questions), found)
	t.Logf("one sentence %v; at most two %v", single, double)
	t.Logf("with passages one or more of which are new, %d times: median %.1f ms, p95 %.1f,"+
		" of it %.0f %% embedding; "+
		"the same again: median %.2f ms, p95 %.2f", len(cold), at(cold, .5), at(cold, .95), 100*embedding/all,
		at(warm, .5), at(warm, .95))
	if single.share() < one || double.share() < two {
		t.Errorf("want at least %.2f and %.2f", one, two)
	}
}

// answered returns a set's questions with accepted answers. Those of xquad-de, which comes without, were written for
// one question of each context.
func answered(t *testing.T, set string) []datasets.Line {
	t.Helper()
	questions := datasets.Lines(t, set+"/queries.jsonl")
	if set != "xquad-de" {
		return slices.DeleteFunc(questions, func(q datasets.Line) bool { return !q.Answerable })
	}
	f, err := os.Open("testdata/xquad-de-answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	answers := map[string][]string{}
	for d := json.NewDecoder(f); ; {
		var l datasets.Line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		answers[l.ID] = l.Answers
	}
	for i := range questions {
		questions[i].Answers = answers[questions[i].ID]
	}
	return slices.DeleteFunc(questions, func(q datasets.Line) bool { return len(q.Answers) == 0 })
}

// halves divides topics in turns.
func halves(contexts []datasets.Line) map[string]int {
	half := map[string]int{}
	for _, c := range contexts {
		if _, ok := half[c.Topic]; !ok {
			half[c.Topic] = len(half) % 2
		}
	}
	return half
}

// tally counts texts that hold an answer, and their words, for each half of the topics.
type tally struct {
	hits, asked [2]float64
	words       int
}

func (c *tally) add(half int, answers []string, texts ...string) {
	c.asked[half]++
	all := strings.Join(texts, "\n")
	c.words += len(strings.Fields(all))
	if slices.ContainsFunc(answers, func(a string) bool { return strings.Contains(all, a) }) {
		c.hits[half]++
	}
}

func (c *tally) share() float64 { return (c.hits[0] + c.hits[1]) / (c.asked[0] + c.asked[1]) }

func (c tally) String() string {
	return fmt.Sprintf("%.4f (%.4f and %.4f), %.1f words", c.share(), c.hits[0]/c.asked[0], c.hits[1]/c.asked[1],
		float64(c.words)/(c.asked[0]+c.asked[1]))
}

// quoted returns the texts of quotes.
func quoted(quotes []quote.Quote) (texts []string) {
	for _, q := range quotes {
		texts = append(texts, q.String())
	}
	return texts
}

// at returns the quantile of times.
func at(times []float64, quantile float64) float64 {
	times = slices.Sorted(slices.Values(times))
	return times[int(quantile*float64(len(times)))]
}

//go:build native

package quote_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/minilm"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/quote"
)

var figures = flag.Bool("figures", false, "run TestSelQA, which takes minutes")

// section is a question of SelQA with the sentences of a section, some of which answer it.
type section struct {
	Article    string   `json:"article"`
	Text       string   `json:"text"`
	Candidates []string `json:"candidates"`
	Answers    []int    `json:"answers"`
}

// passage has each candidate in a paragraph of its own.
func (s section) passage() string { return strings.Join(s.Candidates, "\n\n") }

// TestSelQA prints how well sentences of a section are ranked for a question, for all questions of SelQA and for each
// half of the articles: how often the best one answers it, and the mean reciprocal rank of the first that does.
func TestSelQA(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: -figures is not set; it takes minutes")
	}
	var sections []section
	for d := json.NewDecoder(datasets.Open(t, "selqa/dev.jsonl")); ; {
		var s section
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		sections = append(sections, s)
	}
	enc := minilm.Open(t, embed.Options{})
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	vectors := func(role embed.Role) func(ctx context.Context, texts []string) (engine.Vectors, error) {
		return func(ctx context.Context, texts []string) (engine.Vectors, error) {
			v, err := enc.Embed(ctx, texts, role)
			if err != nil {
				return engine.Vectors{}, err
			}
			return knowledge.Vectors(v), nil
		}
	}
	x := indexed(t, sections)
	var first, reciprocal, asked [2]float64
	half := map[string]int{}
	for _, s := range sections {
		if _, ok := half[s.Article]; !ok {
			half[s.Article] = len(half) % 2
		}
		w, err := x.Query(s.Text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			t.Fatal(err)
		}
		question, err := vectors(embed.Query)(t.Context(), []string{s.Text})
		if err != nil {
			t.Fatal(err)
		}
		o := quote.Options{Engine: e, Embed: vectors(embed.Document), Question: s.Text}
		list, err := quote.Rank(t.Context(), o, question, w, []string{s.passage()})
		if err != nil {
			t.Fatal(err)
		}
		h, rank := half[s.Article], s.rank(list)
		asked[h]++
		if rank == 1 {
			first[h]++
		}
		if rank > 0 {
			reciprocal[h] += 1 / float64(rank)
		}
	}
	all := asked[0] + asked[1]
	precision, mrr := (first[0]+first[1])/all, (reciprocal[0]+reciprocal[1])/all
	t.Logf("of %.0f questions: P@1 %.4f (%.4f and %.4f), MRR %.4f (%.4f and %.4f)", all, precision, first[0]/asked[0],
		first[1]/asked[1], mrr, reciprocal[0]/asked[0], reciprocal[1]/asked[1])
	if precision < .83 || mrr < .893 {
		t.Error("want at least .83 and .893")
	}
}

// rank returns the place of the first candidate that answers the question, from 1; a candidate that was cut has the
// place of its best piece.
func (s section) rank(list []quote.Quote) int {
	seen := map[int]bool{}
	for _, q := range list {
		candidate := strings.Count(s.passage()[:q.Start], "\n\n")
		if slices.Contains(s.Answers, candidate) {
			return len(seen) + 1
		}
		seen[candidate] = true
	}
	return 0
}

// indexed returns the words of the sections, each once.
func indexed(t *testing.T, sections []section) *postings.Index {
	t.Helper()
	var documents []postings.Document
	known := map[string]bool{}
	for _, s := range sections {
		if p := s.passage(); !known[p] {
			known[p] = true
			documents = append(documents, postings.Document{Text: p, Language: "en"})
		}
	}
	read := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	x, err := postings.New().With(t.Context(), len(documents), read, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

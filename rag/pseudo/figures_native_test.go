//go:build native

package pseudo

import (
	"context"
	"flag"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	lang "github.com/sluice-rag/sluice/internal/language"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

var figures = flag.Bool("figures", false,
	"compare extracted, written and people's questions (docs/adr/0020-extracted-questions.md); ten minutes")

// coverWeight is the weight of the cover in the score whose distributions are compared.
const coverWeight = .5

// trial is a base with people's questions.
type trial struct {
	name     string
	enc      embed.Embedder
	e        *engine.Engine
	c        Contexts
	index    *postings.Index
	people   []Query // all
	first    []Query // three of each context
	held     []Query // the others
	outside  map[string][]string
	of       map[string]int // rows
	expected scores
}

// scores of questions, ascending.
type scores struct{ cosine, cover, sum, best []float64 }

// TestExtractedFigures compares the scores of questions with those of people's questions, and the cut-offs that follow.
func TestExtractedFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/pseudo -run Figures -figures -v -timeout 1h")
	}
	enc, model := open(t)
	extractedFigures(t, enc, func(x *trial) []Query {
		written, report, err := Generate(t.Context(), model, enc, x.e, x.c, Options{Sample: 80, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: written: %+v", x.name, report)
		return written
	})
}

func extractedFigures(t *testing.T, enc embed.Embedder, write func(*trial) []Query) {
	for _, x := range trials(t, enc) {
		x.report(t, "people's", x.first)
		far, _ := x.report(t, "written by the default model", write(x))
		for _, way := range []struct {
			name string
			extraction
		}{
			{"extracted", extracts},
			{"without words of others", extraction{7, 13, 0, 0, 4}},
			{"words drawn evenly", extraction{7, 13, .05, .65, 1}},
			{"4 to 8 words of the context, evenly", extraction{4, 8, 0, 0, 1}},
		} {
			questions, report, err := way.run(t.Context(), x.e, x.c, Options{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d of %d questions kept: %q", way.name, report.Kept, report.Generated, questions[0].Text)
			near, opens := x.report(t, way.name, questions)
			if way.name == "extracted" && (near > max(far, .1) || opens < .85) {
				t.Errorf("%s: extracted questions are %.3f from people's, written ones %.3f; open for %.3f", x.name, near,
					far, opens)
			}
		}
		near := x.ranked(t)
		x.report(t, "extracted, own context among the best 10", near)
	}
}

// ranked are extracted questions that a model's filter by rank keeps.
func (x *trial) ranked(t *testing.T) (kept []Query) {
	questions, _, err := Extract(t.Context(), x.e, x.c, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var list []candidate
	for _, q := range questions {
		list = append(list, candidate{row: x.of[q.ContextID], text: q.Text})
	}
	o, _ := Options{}.withDefaults()
	if err := rank(t.Context(), x.enc, x.e, x.c.Vectors, list, o); err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		if list[i].near {
			kept = append(kept, q)
		}
	}
	return kept
}

// report prints distances from people's questions, and what the gate does that is calibrated with the questions.
func (x *trial) report(t *testing.T, name string, questions []Query) (distance, opens float64) {
	t.Helper()
	s := x.score(t, questions)
	for _, d := range []struct {
		what      string
		got, want []float64
	}{{"cosine", s.cosine, x.expected.cosine}, {"cover", s.cover, x.expected.cover},
		{"sum", s.sum, x.expected.sum}, {"best sum", s.best, x.expected.best}} {
		t.Logf("%s, %s (%d): %s: distance %.3f, p5 %+.3f, q1 %+.3f", x.name, name, len(questions), d.what,
			ref.KolmogorovSmirnov(d.got, d.want), ref.Quantile7(d.got, .05)-ref.Quantile7(d.want, .05),
			ref.Quantile7(d.got, .25)-ref.Quantile7(d.want, .25))
	}
	for _, score := range []string{"auto", "cosine+cover"} {
		in := x.input(t, questions)
		in.Score = score
		c, positive, err := gate.Calibrate(t.Context(), x.e, in)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gate.New(c, positive, gate.Use{Encoder: in.Encoder, Metric: kernels.Cosine})
		if err != nil {
			t.Fatal(err)
		}
		opens = x.opens(t, g, textsOf(x.held))
		t.Logf("%s, %s: %s: %s %.2f, cut-off %.3f: open for %.3f of %d", x.name, name, score, c.Score,
			g.ScoredBy().Weight, c.Cutoff, opens, len(x.held))
		for _, what := range []string{"other topics", "clinc150 oos", "scibench"} {
			if out := x.outside[what]; len(out) > 0 {
				t.Logf("    keeps out %.3f of %d, %s", 1-x.opens(t, g, out), len(out), what)
			}
		}
	}
	return ref.KolmogorovSmirnov(s.sum, x.expected.sum), opens
}

// trials returns the halves of squad16 by topic, with each other's questions out of scope, and xquad-de.
func trials(t *testing.T, enc embed.Embedder) []*trial {
	t.Helper()
	contexts, questions := datasets.Lines(t, "squad16/contexts.jsonl"), datasets.Lines(t, "squad16/queries.jsonl")
	clinc, science := datasets.Lines(t, "clinc150/test.jsonl"), datasets.Texts(t, "scibench/questions.jsonl")
	german := newTrial(t, "xquad-de", enc, datasets.Lines(t, "xquad-de/contexts.jsonl"),
		datasets.Lines(t, "xquad-de/queries.jsonl"))
	var topics []string
	for _, c := range contexts {
		topics = append(topics, c.Topic)
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	half := func(n int) func(datasets.Line) bool {
		return func(l datasets.Line) bool { return slices.Index(topics, l.Topic)/8 != n }
	}
	list := []*trial{
		newTrial(t, "first eight topics", enc, slices.DeleteFunc(slices.Clone(contexts), half(0)), questions),
		newTrial(t, "last eight topics", enc, slices.DeleteFunc(slices.Clone(contexts), half(1)), questions), german}
	for i, x := range list {
		for _, l := range clinc {
			if l.Intent == "oos" {
				x.outside["clinc150 oos"] = append(x.outside["clinc150 oos"], l.Text)
			}
		}
		if i < 2 {
			x.outside["scibench"] = science
			for _, l := range slices.DeleteFunc(slices.Clone(questions), half(1-i)) {
				x.outside["other topics"] = append(x.outside["other topics"], l.Text)
			}
		}
	}
	return list
}

func newTrial(t *testing.T, name string, enc embed.Embedder, contexts, questions []datasets.Line) *trial {
	t.Helper()
	x := &trial{name: name, enc: enc, e: newEngine(t), of: map[string]int{}, outside: map[string][]string{}}
	var documents []postings.Document
	var texts []string
	guess := lang.New()
	for i, l := range contexts {
		x.of[l.ID], texts = i, append(texts, l.Text)
		x.c.Chunks = append(x.c.Chunks, corpus.Chunk{ID: l.ID, Topic: l.Topic, Text: l.Text})
		documents = append(documents, postings.Document{Text: l.Text, Language: guess.Of(l.Text)})
	}
	x.c.Vectors = x.vectors(t, texts, embed.Document)
	read := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	var err error
	x.index, err = postings.New().With(t.Context(), len(documents), read, func(int) bool { return false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, l := range questions {
		if _, mine := x.of[l.ContextID]; !mine || !l.Answerable {
			continue
		}
		q := Query{ContextID: l.ContextID, Text: l.Text}
		x.people = append(x.people, q)
		if count[l.ContextID]++; count[l.ContextID] <= 3 {
			x.first = append(x.first, q)
		} else {
			x.held = append(x.held, q)
		}
	}
	x.expected = x.score(t, x.people)
	return x
}

func (x *trial) vectors(t *testing.T, texts []string, role embed.Role) engine.Vectors {
	t.Helper()
	v, err := x.enc.Embed(t.Context(), texts, role)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Vectors{Data: v.Data, Rows: len(texts), Dim: v.Dim}
}

func textsOf(questions []Query) (texts []string) {
	for _, q := range questions {
		texts = append(texts, q.Text)
	}
	return texts
}

// score finds the scores of questions with their own contexts, and the best sums over all contexts.
func (x *trial) score(t *testing.T, questions []Query) (s scores) {
	t.Helper()
	v := x.vectors(t, textsOf(questions), embed.Query)
	similar := make([]float32, len(questions)*len(x.c.Chunks))
	if err := x.e.Matrix(t.Context(), similar, v, x.c.Vectors, kernels.Cosine); err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		words, err := x.index.Query(q.Text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			t.Fatal(err)
		}
		best := -1.
		for row := range x.c.Chunks {
			cosine, cover := float64(similar[i*len(x.c.Chunks)+row]), words.Score(row)
			best = max(best, cosine+coverWeight*cover)
			if row == x.of[q.ContextID] {
				s.cosine, s.cover = append(s.cosine, cosine), append(s.cover, cover)
				s.sum = append(s.sum, cosine+coverWeight*cover)
			}
		}
		s.best = append(s.best, best)
	}
	for _, list := range [][]float64{s.cosine, s.cover, s.sum, s.best} {
		slices.Sort(list)
	}
	return s
}

// input returns the input of a calibration with the questions.
func (x *trial) input(t *testing.T, questions []Query) gate.Input {
	in := gate.Input{Seed: 1, CorpusDigest: x.name, Tool: "test", Encoder: x.enc.Info().Encoder, Topics: true,
		Resamples: -1, Provenance: gate.Provenance{Kind: "file", PerContext: 3}, Contexts: x.c.Vectors,
		Policy: gate.Auto, Queries: x.vectors(t, textsOf(questions), embed.Query),
		Words: &gate.Words{Index: x.index, Queries: textsOf(questions)}}
	groups := map[string]int32{}
	for _, c := range x.c.Chunks {
		if _, known := groups[c.Topic]; !known {
			groups[c.Topic] = int32(len(groups))
		}
		in.ContextIDs, in.TextDigests = append(in.ContextIDs, c.ID), append(in.TextDigests, doc.TextDigest(c.Text))
		in.Groups = append(in.Groups, groups[c.Topic])
	}
	for _, q := range questions {
		in.Owner = append(in.Owner, int32(x.of[q.ContextID]))
	}
	return in
}

// opens returns the share of texts that the gate opens for.
func (x *trial) opens(t *testing.T, g *gate.Gate, texts []string) (share float64) {
	t.Helper()
	var bias []kernels.Biases
	for _, text := range texts {
		b, err := g.Bias(x.index, text)
		if err != nil {
			t.Fatal(err)
		}
		if b != nil {
			bias = append(bias, b)
		}
	}
	in := retrieve.Contexts{Vectors: x.c.Vectors}
	for _, c := range x.c.Chunks {
		in.IDs = append(in.IDs, c.ID)
	}
	decisions, err := g.Decide(t.Context(), x.e, in, x.vectors(t, texts, embed.Query), bias)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range decisions {
		if d.Retrieve {
			share += 1 / float64(len(texts))
		}
	}
	return share
}

// Package crsb builds a Context Retrieval Supervision Benchmark (Heydari et al. 2024) from any documents: contexts
// with topics, questions that each of them answers, and positive and negative pairs of both. Input: a Sluice and
// Options. Output: a dataset's folder with pairs.jsonl.
package crsb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// PairsFile is the name of the file of pairs in the dataset's folder.
const PairsFile = "pairs.jsonl"

// Options of Build. The zero value asks the language model for three questions about each context and draws five
// negative contexts for each question.
type Options struct {
	Paths     []string
	Ingest    ingest.Options
	Out       string    // folder; created if necessary
	Queries   io.Reader // {"context_id","text"} lines used instead of generated questions; may be nil
	Questions int       // for each context; 0: 3
	Sample    int       // contexts for which questions are generated; 0: all
	Negatives int       // contexts of other topics paired with each question; 0: 5, negative: no such pairs
	Seed      uint64
	Progress  func(done, total int)
}

// Pair is a question and a context. The contexts of negative pairs are of other topics if there are several topics.
type Pair struct {
	QueryID   string `json:"query_id"`
	ContextID string `json:"context_id"`
	Positive  bool   `json:"positive"`
}

// Result counts what Build has written.
type Result struct {
	Contexts  int            `json:"contexts"`
	Topics    int            `json:"topics"`
	Queries   int            `json:"queries"`
	Positive  int            `json:"positive_pairs"`
	Negative  int            `json:"negative_pairs"`
	BadLines  int            `json:"bad_lines"`        // in Options.Queries
	Unknown   int            `json:"unknown_contexts"` // questions in Options.Queries about unknown contexts
	Short     int            `json:"short_contexts"`   // with fewer questions than the language model was asked for
	Generated *pseudo.Report `json:"generated,omitempty"`
}

// Build ingests the paths into the store of s and writes the benchmark.
func Build(ctx context.Context, s *sluice.Sluice, o Options) (r Result, err error) {
	o.Questions = cmp.Or(o.Questions, 3)
	o.Negatives = cmp.Or(o.Negatives, 5)
	if o.Questions < 0 || o.Sample < 0 {
		return r, fmt.Errorf("%w: %d questions, a sample of %d: neither may be negative", sluice.ErrOption, o.Questions,
			o.Sample)
	}
	if _, err := s.Ingest(ctx, o.Paths, o.Ingest); err != nil {
		return r, err
	}
	var chunks []corpus.Chunk
	set := &dataset.Set{}
	topics := map[string]bool{}
	for c, err := range s.Documents().AllChunks(ctx) {
		if err != nil {
			return r, err
		}
		c.Topic = topic(c)
		topics[c.Topic] = true
		chunks = append(chunks, c)
		set.Contexts = append(set.Contexts, dataset.Context{ID: c.ID, Topic: c.Topic, Text: c.Text})
	}
	if err := durable.MkdirAll(o.Out); err != nil {
		return r, fmt.Errorf("crsb: %w", err)
	}
	queries, err := o.queries(ctx, s, chunks, &r)
	if err != nil {
		return r, err
	}
	of := map[string]string{}
	for _, c := range set.Contexts {
		of[c.ID] = c.Topic
	}
	count := map[string]int{}
	for _, q := range queries {
		if _, known := of[q.ContextID]; !known {
			r.Unknown++
			continue
		}
		count[q.ContextID]++
		set.Queries = append(set.Queries, dataset.Query{ID: fmt.Sprintf("%s-q%d", q.ContextID, count[q.ContextID]),
			ContextID: q.ContextID, Topic: of[q.ContextID], Text: q.Text})
	}
	if len(set.Queries) == 0 {
		return r, fmt.Errorf("%w: no question is about a context of the store (%d are about others)", dataset.ErrData,
			r.Unknown)
	}
	pairs := pairs(set, o.Negatives, o.Seed)
	if err := errors.Join(set.Save(o.Out), dataset.WriteLines(filepath.Join(o.Out, PairsFile), pairs)); err != nil {
		return r, err
	}
	r.Contexts, r.Topics, r.Queries = len(set.Contexts), len(topics), len(set.Queries)
	r.Positive, r.Negative = r.Queries, len(pairs)-r.Queries
	return r, nil
}

// topic returns the topic of a chunk, or else the folder of its document.
func topic(c corpus.Chunk) string {
	if c.Topic != "" {
		return c.Topic
	}
	if i := strings.LastIndexByte(c.Document, '/'); i > 0 {
		return c.Document[:i]
	}
	return c.Document
}

func (o Options) queries(
	ctx context.Context, s *sluice.Sluice, chunks []corpus.Chunk, r *Result,
) ([]pseudo.Query, error) {
	if o.Queries != nil {
		return pseudo.Read(o.Queries, pseudo.ReadOptions{PerContext: o.Questions,
			OnBad: func(int, error) { r.BadLines++ }})
	}
	gen, err := s.Models().Language(ctx)
	if err != nil {
		return nil, err
	}
	info, err := s.Models().Encoder(ctx)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(chunks))
	for i, c := range chunks {
		texts[i] = c.EmbedText()
	}
	v, err := s.Embed(ctx, texts, embed.Document)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		return nil, err
	}
	contexts := pseudo.Contexts{Chunks: chunks, Vectors: engine.Vectors{Data: v.Data, Rows: len(chunks), Dim: v.Dim}}
	queries, report, err := pseudo.Generate(ctx, gen, encoder{s, info}, e, contexts,
		pseudo.Options{PerContext: o.Questions, Again: again, Sample: o.Sample, Seed: o.Seed,
			Journal: filepath.Join(o.Out, "journal.jsonl"), Progress: o.Progress})
	r.Generated = &report
	count := map[string]int{}
	for _, q := range queries {
		count[q.ContextID]++
	}
	r.Short = report.Contexts
	for _, n := range count {
		if n >= cmp.Or(o.Questions, pseudo.DefaultPerContext) {
			r.Short--
		}
	}
	return queries, err
}

// again is how often the language model is asked for more questions about contexts of which some were rejected.
const again = 4

// pairs combines each question with its own context, and with contexts of other topics, drawn at random with the seed.
// If there is only one topic, the other contexts are drawn from it.
func pairs(set *dataset.Set, negatives int, seed uint64) (list []Pair) {
	random := rand.New(rand.NewPCG(seed, 17))
	others := map[string][]string{} // by topic: contexts of all other topics
	for _, q := range set.Queries {
		list = append(list, Pair{q.ID, q.ContextID, true})
		if _, known := others[q.Topic]; !known {
			others[q.Topic] = []string{}
			for _, c := range set.Contexts {
				if c.Topic != q.Topic {
					others[q.Topic] = append(others[q.Topic], c.ID)
				}
			}
		}
		from := others[q.Topic]
		if len(from) == 0 {
			for _, c := range set.Contexts {
				if c.ID != q.ContextID {
					from = append(from, c.ID)
				}
			}
		}
		for _, i := range random.Perm(len(from))[:max(0, min(negatives, len(from)))] {
			list = append(list, Pair{q.ID, from[i], false})
		}
	}
	return list
}

// encoder adapts the encoder of a Sluice to pseudo.Generate.
type encoder struct {
	*sluice.Sluice
	info embed.Info
}

func (e encoder) Info() embed.Info                   { return e.info }
func (encoder) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }

package exam

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/ref"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/pseudo"
)

// coverWeight is the weight of the cover beside the cosine in the score by which questions are compared, the one that
// the gate takes most often.
const coverWeight = .5

// questions has the model write questions about passages, and extracts others from the passages. Each question is
// scored with the passage that it is about; the distributions are compared with that of the set's questions.
func (e *exam) questions(ctx context.Context) error {
	chunks := make([]corpus.Chunk, len(e.set.Passages))
	people := make([]pseudo.Query, len(chunks))
	for i, p := range e.set.Passages {
		chunks[i] = corpus.Chunk{ID: p.Topic, Heading: p.Topic, Text: p.Text}
		people[i] = pseudo.Query{ContextID: p.Topic, Text: p.Question}
	}
	o := pseudo.Options{PerContext: askedEach, Seed: seed, Metric: kernels.Cosine, Parallel: llm.ParallelOf(e.Model)}
	for row := range min(askedPassages, len(chunks)) {
		o.Rows = append(o.Rows, row)
	}
	contexts := pseudo.Contexts{Vectors: e.vectors, Chunks: chunks}
	want, err := e.scores(ctx, people)
	if err != nil {
		return err
	}
	q := &e.result.Questions
	q.Model, q.Extracted = 1, 1
	extracted, _, err := pseudo.Extract(ctx, e.Engine, contexts, o)
	if err == nil {
		q.Extracted, err = e.distance(ctx, want, extracted)
	}
	if err != nil && !errors.Is(err, pseudo.ErrQueries) {
		return err
	}
	if _, remotely := e.Model.(*remote.Generator); remotely { // as a calibration asks it
		o.Prompter = pseudo.Chat{Library: e.library}
	}
	written, report, err := pseudo.Generate(ctx, e.model(), e.Embedder, e.Engine, contexts, o)
	if q.Kept = (Share{report.Kept, report.Generated}); err == nil {
		q.Model, err = e.distance(ctx, want, written)
	}
	if errors.Is(err, pseudo.ErrQueries) {
		return nil // no question can be used
	}
	return err
}

// distance returns the Kolmogorov-Smirnov distance of the questions' scores from others.
func (e *exam) distance(ctx context.Context, from []float64, questions []pseudo.Query) (float64, error) {
	scores, err := e.scores(ctx, questions)
	if err != nil {
		return 1, err
	}
	return ref.KolmogorovSmirnov(from, scores), nil
}

// scores returns the score of each question with the passage that it is about, in ascending order.
func (e *exam) scores(ctx context.Context, questions []pseudo.Query) ([]float64, error) {
	row, texts := map[string]int{}, make([]string, len(questions))
	for i, p := range e.set.Passages {
		row[p.Topic] = i
	}
	for i, q := range questions {
		texts[i] = q.Text
	}
	v, err := e.embed(ctx, texts, embed.Query)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(questions))
	for i, q := range questions {
		at := row[q.ContextID]
		words, err := e.index.Query(q.Text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			return nil, err
		}
		similarity, err := e.Engine.TopK(ctx, v.Slice(i, i+1), e.vectors.Slice(at, at+1), kernels.Cosine, 1, nil)
		if err != nil {
			return nil, err
		}
		scores[i] = similarity[0][0].Score + coverWeight*words.Score(at)
	}
	slices.Sort(scores)
	return scores, nil
}

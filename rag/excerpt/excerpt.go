// Package excerpt finds the sentence of a passage that is nearest to a question, so that a reader sees at a glance why
// a passage was found:
//
//	passages → sentences → embeddings, in one batch → the best of each passage by the score of the search
//
// Input: query vectors, and the texts of passages for each. Output: a Sentence for each passage.
package excerpt

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// Sentence is a part of a passage.
type Sentence struct {
	Text  string  `json:"text"`
	Start int     `json:"start"` // bytes within the passage
	End   int     `json:"end"`
	Score float64 `json:"score"` // orders sentences; not on the scale of a passage's score

	// Answer are the words in it that answer the question, by a reader, in bytes of the passage.
	Answer *Span `json:"answer,omitempty"`

	Columns Span `json:"-"` // what names the columns of a row of a table; empty: nothing
	Item    bool `json:"-"` // of a list: it begins with a bullet or a number
	Code    bool `json:"-"`
	Leans   bool `json:"-"` // the rest of a sentence that was cut, which needs the part before it
}

// Span is a stretch of a passage, in bytes.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Empty reports whether the stretch has no byte.
func (s Span) Empty() bool { return s.End <= s.Start }

// Within returns the text of the sentence in its passage, below the names of its columns.
func (s Sentence) Within(passage string) string {
	if s.Columns.Start == s.Columns.End {
		return s.Text
	}
	return passage[s.Columns.Start:s.Columns.End] + "\n" + s.Text
}

// Options of Nearest.
type Options struct {
	Engine engine.Interface
	Embed  func(ctx context.Context, texts []string) (engine.Vectors, error) // of documents
	Metric kernels.Metric
}

// Nearest returns for each passage of each list the sentence that scores best with any of the list's queries, the first
// of equal ones; nil for a passage without a letter or digit. The rest is as Scores says.
func Nearest(ctx context.Context, o Options, queries []engine.Vectors, passages [][]string) ([][]*Sentence, error) {
	scored, err := Scores(ctx, o, queries, passages)
	if err != nil {
		return nil, err
	}
	nearest := make([][]*Sentence, len(scored))
	for i, list := range scored {
		nearest[i] = make([]*Sentence, len(list))
		for j, sentences := range list {
			nearest[i][j] = Best(o.Metric, sentences)
		}
	}
	return nearest, nil
}

// Best returns the sentence with the best score, the first of equal ones; nil if there is no sentence.
func Best(metric kernels.Metric, sentences []Sentence) *Sentence {
	var best *Sentence
	for i := range sentences {
		if best == nil || metric.Better(sentences[i].Score, best.Score) {
			best = &sentences[i]
		}
	}
	return best
}

// Scores returns for each passage of each list its sentences in order, each with its best score with any of the list's
// queries. A sentence is a sentence of sentence.Ends (split if it is too long), an item of a list, a row of a
// table or a statement of code. White space at both ends is trimmed, and sentences without a letter or digit are left
// out. One call embeds all sentences. A passage that is in several lists is embedded once, and a row of a table is
// embedded together with the names of its columns.
func Scores(ctx context.Context, o Options, queries []engine.Vectors, passages [][]string) ([][][]Sentence, error) {
	if len(queries) != len(passages) {
		return nil, fmt.Errorf("excerpt: %w: %d queries for %d lists", kernels.ErrShape, len(queries), len(passages))
	}
	var texts []string
	first := map[string]int{} // of a passage's sentences in texts
	parts := map[string][]Sentence{}
	for _, list := range passages {
		for _, passage := range list {
			if _, known := parts[passage]; known {
				continue
			}
			first[passage], parts[passage] = len(texts), split(passage)
			for _, s := range parts[passage] {
				texts = append(texts, s.Within(passage))
			}
		}
	}
	scored := make([][][]Sentence, len(passages))
	var vectors engine.Vectors
	if len(texts) > 0 {
		var err error
		if vectors, err = o.Embed(ctx, texts); err != nil {
			return nil, fmt.Errorf("excerpt: %w", err)
		}
		if vectors.Rows != len(texts) {
			return nil,
				fmt.Errorf("excerpt: %w: %d vectors for %d sentences", kernels.ErrShape, vectors.Rows, len(texts))
		}
	}
	for i, list := range passages {
		scored[i] = make([][]Sentence, len(list))
		for j, passage := range list {
			sentences, err := o.scores(ctx, queries[i], vectors, first[passage], parts[passage])
			if err != nil {
				return nil, err
			}
			scored[i][j] = sentences
		}
	}
	return scored, nil
}

// scores are a passage's sentences, whose vectors begin at row first, with their best score for any of the queries.
func (o Options) scores(
	ctx context.Context, queries, vectors engine.Vectors, first int, sentences []Sentence,
) ([]Sentence, error) {
	if len(sentences) == 0 {
		return nil, nil
	}
	rows := vectors.Slice(first, first+len(sentences))
	hits, err := o.Engine.TopK(ctx, queries, rows, o.Metric, len(sentences), nil)
	if err != nil {
		return nil, fmt.Errorf("excerpt: %w", err)
	}
	out := slices.Clone(sentences)
	for q, list := range hits {
		for _, h := range list {
			if s := &out[h.Row]; q == 0 || o.Metric.Better(h.Score, s.Score) {
				s.Score = h.Score
			}
		}
	}
	return out, nil
}

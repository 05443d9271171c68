package answer

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/quote"
)

// Read is what a reader (extractive question answering) found in the passages of an answer.
type Read struct {
	Model   string `json:"model"`
	Passage int    `json:"passage"` // number of the passage with the best span, from 1
	Text    string `json:"text"`    // the span
	Start   int    `json:"start"`   // bytes of the passage
	End     int    `json:"end"`
	// Score is the span's above that of the null answer, in logits; without a null answer the span's own.
	Score     float64  `json:"score"`
	Threshold *float64 `json:"threshold,omitempty"` // from which a passage answers; absent without a null answer
	Answers   bool     `json:"answers"`             // some passage answers the question, as far as the reader can tell
}

// noSpan is the notice of an answer from passages that do not answer the question by the reader's null answer.
const noSpan = "the reader finds no answer in these passages"

// reading is what the reader found in each passage.
type reading struct {
	*Read
	found   []quote.Found // one for each passage; scores are above that of the null answer
	answers []bool
}

// read has the base's reader look for the answer in the passages. A passage that was read before is not read again. It
// returns nil if the base has no reader.
func (a *State) read(ctx context.Context) (*reading, error) {
	if !a.base.Reads() || len(a.Passages) == 0 {
		return nil, nil
	}
	reader, err := a.base.Extractor(ctx)
	if err != nil {
		return nil, err
	}
	threshold, hasNull, err := a.nullThreshold(ctx, reader)
	if err != nil {
		return nil, err
	}
	defer timer(&a.trace.Milliseconds.Read)()
	texts, unread := a.texts(), []string(nil)
	if a.readings == nil {
		a.readings = map[string]embed.Reading{}
	}
	for _, text := range texts {
		if _, ok := a.readings[text]; !ok {
			unread = append(unread, text)
		}
	}
	readings, err := reader.Read(ctx, a.subject(), unread)
	if err != nil {
		return nil, err
	}
	for i, text := range unread {
		a.readings[text] = readings[i]
	}
	r := &reading{Read: &Read{Model: reader.Info().Name}, found: make([]quote.Found, len(texts)),
		answers: make([]bool, len(texts))}
	if hasNull {
		r.Threshold = &threshold
	}
	best := -1
	for i, text := range texts {
		f := a.readings[text]
		r.found[i] = quote.Found{Span: excerpt.Span{Start: f.Start, End: f.End}, Score: f.Score - f.Null}
		if r.found[i].Empty() {
			continue
		}
		r.answers[i] = !hasNull || r.found[i].Score >= threshold
		r.Answers = r.Answers || r.answers[i]
		if best < 0 || r.found[i].Score > r.found[best].Score {
			best = i
		}
	}
	if best >= 0 {
		f := r.found[best]
		r.Passage, r.Start, r.End, r.Score, r.Text = best+1, f.Start, f.End, f.Score, texts[best][f.Start:f.End]
	}
	a.trace.Read = r.Read
	return r, nil
}

// spansIn returns the spans that the reader has found in the texts of the first passages, as far as these were read.
func (a *State) spansIn(texts []string) (found []check.Found) {
	for i, read := range a.texts()[:len(texts)] {
		at := strings.Index(texts[i], read) // a part of a passage may stand for it
		r, ok := a.readings[read]
		if at < 0 || !ok {
			continue
		}
		for _, s := range r.Found() {
			found = append(found, check.Found{
				Place: check.Place{Passage: i, Start: at + s.Start, End: at + s.End}, Score: s.Score - r.Null})
		}
	}
	return found
}

// nullThreshold returns the score above the null answer from which a passage answers: that of the calibration in force
// if the same reader was calibrated, or else the model's own. ok is false if the reader has no null answer.
func (a *State) nullThreshold(ctx context.Context, reader embed.Extractor) (threshold float64, ok bool, err error) {
	if threshold, ok = reader.NullThreshold(); !ok || a.snapshot == nil {
		return threshold, ok, nil
	}
	g, err := a.calibrated(ctx)
	if err != nil || g == nil {
		return threshold, true, err
	}
	if set, ok := g.NullThreshold(reader.Info().Digest); ok {
		threshold = set
	}
	return threshold, true, nil
}

// byReader keeps the passages that answer the question.
func (a *State) byReader(ctx context.Context, v *flow.Visit) error {
	if len(a.Passages) == 0 {
		return nil
	}
	r, err := a.grading(ctx)
	if err != nil {
		return err
	}
	scores := make([]float64, len(r.found))
	for i, f := range r.found {
		scores[i] = f.Score
	}
	i := -1
	a.keep(v, scores, func(float64) bool { i++; return r.answers[i] })
	return nil
}

// grading is read for a grader: a base without a reader, or one without a null answer, is knowledge.ErrOption.
func (a *State) grading(ctx context.Context) (*reading, error) {
	reader, err := a.base.Extractor(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := reader.NullThreshold(); !ok {
		return nil, fmt.Errorf("%w: the reader %s has no null answer (SQuAD 1.1), so that it cannot say whether a "+
			"passage answers", knowledge.ErrOption, reader.Info().Name)
	}
	return a.read(ctx)
}

// holdsSpan grades whether an answer resolves the question: whether it holds what the reader found in a passage that
// answers.
func (a *State) holdsSpan(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	if len(a.Passages) == 0 {
		return Yes, nil // answered without passages, which the reader would need
	}
	r, err := a.grading(ctx)
	if err != nil {
		return "", err
	}
	v.Score(r.Score)
	said, texts := words(a.Answer.Answer), a.texts()
	for i, f := range r.found {
		if r.answers[i] && strings.Contains(said, words(texts[i][f.Start:f.End])) {
			return Yes, nil
		}
	}
	v.Detail("the answer holds no span that the reader found")
	return No, nil
}

// words returns the words of a text in lower case, with a space around each.
func words(text string) string {
	return " " + strings.Join(strings.FieldsFunc(strings.ToLower(text),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }), " ") + " "
}

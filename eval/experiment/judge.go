package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/scorecards"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Examined is what the examination of a judge has measured.
type Examined struct {
	Model string // whose scorecard it is: the judge, or the model that it was requantised from
	// Verdicts by measure and language: of the task in the examination that is nearest to the measure's.
	Verdicts map[string]map[string]exam.Verdict
}

// graders returns the grader of the examination whose task is nearest to that of the judge, by measure.
func graders() map[string]prompt.Grader {
	return map[string]prompt.Grader{"context_relevancy": prompt.Documents,
		"faithfulness": prompt.Hallucination, "correct_by_context": prompt.Hallucination,
		"answer_relevancy": prompt.AnswerGrader, "correct": prompt.AnswerGrader}
}

// judges reports whether a cell of the experiment is graded by the judge.
func (f *File) judges() bool {
	return slices.ContainsFunc(f.Parts, func(p Part) bool { return slices.ContainsFunc(p.Measures, Judged) })
}

// examined finds the scorecard of the judge; nil if it was not examined.
func (r *run) examined(ctx context.Context) (*Examined, error) {
	if r.Judge != nil || !r.File.judges() {
		return nil, nil
	}
	judge, err := r.model(r.File.Judge)
	if err != nil {
		return nil, err
	}
	names := []string{judge}
	if judge != r.File.Judge { // requantised
		names = append(names, r.File.Judge[:strings.LastIndexByte(r.File.Judge, ':')])
	}
	for _, name := range names {
		card, err := scorecards.Find(ctx, name)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			r.note(fmt.Sprintf("the scorecard of the judge cannot be used: %v", err))
		}
		if err == nil && card.Examined() {
			return verdicts(card), nil
		}
	}
	return nil, nil
}

func verdicts(card *exam.Card) *Examined {
	e := &Examined{Model: card.Model, Verdicts: map[string]map[string]exam.Verdict{}}
	for measure, g := range graders() {
		e.Verdicts[measure] = map[string]exam.Verdict{}
		for language, set := range card.Sets {
			e.Verdicts[measure][language] = set.Verdicts[g]
		}
	}
	return e
}

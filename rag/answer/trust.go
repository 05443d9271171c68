package answer

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/exam"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Cards finds the scorecard of a language model by its name; "" names the one that Input.Model opens. It returns nil
// for a model that was not examined.
type Cards func(ctx context.Context, model string) (*exam.Card, error)

// style returns how an answer from passages is made, and why, where Options.Style leaves that to the scorecard of the
// model that would write. Without Cards the model is trusted.
func (in Input) style(ctx context.Context, language string) (style Style, why string, err error) {
	if in.Style != Auto {
		return in.Style, "", nil
	}
	if in.Form.written() {
		return Write, "a quote follows no schema and calls no tools", nil
	}
	if in.Cards == nil {
		return Write, "", nil
	}
	card, err := in.Cards(ctx, in.Models[generateNode])
	switch {
	case err != nil:
		return "", "", err
	case !card.Examined():
		return Quote, "the language model has not been examined", nil
	}
	write, quote := card.Written(language)
	why = fmt.Sprintf("in its examination, %s answers of %s were right, and %s quotes from the same passages", write,
		card.Model, quote)
	if card.Writes(language) {
		return Write, why, nil
	}
	return Quote, why, nil
}

// decider chooses who decides at a node: the one that the user names, else the one that the graph names, else the
// language model if its scorecard says that its verdicts count, else the decider that costs no call.
func (a *State) decider(
	ctx context.Context, v *flow.Visit, node string, g prompt.Grader, named, preset, otherwise Decider,
) (Decider, error) {
	if d := by(named, preset); d != "" {
		return d, nil
	}
	if a.Cards == nil {
		return ByLLM, nil
	}
	card, err := a.Cards(ctx, a.Models[node])
	if err != nil || card.Grades(g, a.asksIn) {
		return ByLLM, err
	}
	v.Detail(fmt.Sprintf("by %s: the language model's verdicts do not count (its scorecard)", otherwise))
	return otherwise, nil
}

// writes reports whether the language model of a node writes well enough to be asked to rephrase a question, or for its
// own knowledge. A graph or user that names the model as the grader accepts it as it is.
func (a *State) writes(ctx context.Context, node string, graders Decider) (bool, error) {
	if a.Cards == nil || by(a.Grader, graders) == ByLLM {
		return true, nil
	}
	card, err := a.Cards(ctx, a.Models[node])
	return card.Writes(a.asksIn), err
}

// resembles grades whether an answer resolves the question without the language model: by the cross-encoder, by the
// reader, or by the answer's similarity with the question, against the gate's cut-off for similarities; Yes without a
// calibration.
func (a *State) resembles(ctx context.Context, v *flow.Visit, by Decider) (flow.Verdict, error) {
	if by == ByReranker {
		scores, err := a.base.Rerank(ctx, a.subject(), []string{a.Answer.Answer})
		if err != nil {
			return "", err
		}
		v.Score(scores[0])
		return yesIf(scores[0] >= rerankedFrom), nil
	}
	if by == ByReader {
		return a.holdsSpan(ctx, v)
	}
	if a.snapshot == nil { // answered without the store
		return Yes, nil
	}
	g, err := a.calibrated(ctx)
	if err != nil {
		return "", err
	}
	if g == nil {
		v.Detail("not graded: the store has no calibration")
		return Yes, nil
	}
	cutoff, err := g.SimilarityCutoff()
	if err != nil {
		return "", err
	}
	asked, err := a.base.Embed(ctx, []string{a.subject()}, embed.Query)
	if err != nil {
		return "", err
	}
	scores, err := a.base.Similarities(ctx, a.metric, knowledge.Vectors(asked), []string{a.Answer.Answer})
	if err != nil {
		return "", err
	}
	v.Score(scores[0])
	return yesIf(a.metric.Better(scores[0], cutoff)), nil
}

func yesIf(yes bool) flow.Verdict {
	if yes {
		return Yes
	}
	return No
}

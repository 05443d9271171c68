package answer

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// complete runs the model on the prompt.
func (a *State) complete(ctx context.Context, v *flow.Visit) error {
	p := a.prompted
	defer timer(&a.trace.Milliseconds.Generate)()
	a.unanswered, a.guess = false, ""
	judged := a.judged()
	var hand func(string) error
	first := &holder{begin: a.begin, hand: a.Stream}
	switch {
	case a.hands(v) && judged:
		hand = first.write
	case a.hands(v):
		hand = a.Stream
		a.begin()
	}
	unnamed := &prompt.Unnamed{Passages: len(p.Citations)}
	stream := hand
	cites := len(p.Citations) > 0 && len(a.Form.Schema) == 0 // brackets of JSON are not citations
	if cites && hand != nil {
		stream = func(piece string) error {
			if piece = unnamed.Write(piece); piece == "" {
				return nil
			}
			return hand(piece)
		}
	}
	maxTokens, thinking := a.MaxTokens, llm.Thinking{}
	if len(p.Messages) > 0 {
		maxTokens += a.thinkingTokens()
		thinking = llm.Thinking{Effort: a.ReasoningEffort, Tokens: a.ThinkingBudget}
	}
	if a.hands(v) && a.Think != nil {
		thinking.Stream = func(piece string) error {
			a.begin()
			return a.Think(piece)
		}
	}
	request := llm.Request{
		Messages: slices.Concat(p.Messages, a.Form.Called), Prompt: p.Text,
		Stop:   slices.Concat(p.Stop, a.Form.Stop),
		Schema: a.Form.Schema, Tools: a.Form.Tools, ToolChoice: a.Form.ToolChoice,
		MaxTokens: maxTokens, Temperature: a.answerTemperature, TopK: a.TopK, TopP: a.TopP,
		RepeatPenalty: a.RepeatPenalty, NoRepeatNGram: a.NoRepeatNGram, Seed: v.Draw(a.Seed),
		Priority: a.requests(), Thinking: thinking,
	}
	if judged {
		request.LogProbs, request.Alternatives = true, 1
	}
	r, err := v.Model(a.model).Generate(ctx, request, stream)
	a.Answer.Answer, a.Answer.Thought, a.Answer.ToolCalls = r.Text, r.Thought, r.ToolCalls
	a.Answer.Citations = append([]prompt.Citation{}, p.Citations...)
	a.trace.AnswerTokens, a.trace.ThoughtTokens, a.trace.Finish = r.CompletionTokens, r.ThoughtTokens, r.Finish
	a.Answer.Truncated = r.Finish == llm.FinishLength || r.Finish == llm.FinishContext
	if r.PromptTokens > 0 {
		a.trace.PromptTokens = r.PromptTokens
	}
	if cites {
		a.Answer.Citations = prompt.Cite(r.Text, p.Citations)
		if rest := unnamed.Flush(); rest != "" && err == nil && hand != nil {
			err = hand(rest)
		}
		a.Answer.Answer, a.trace.RemovedCitations = named(r.Text, len(p.Citations))
	}
	if judged {
		if err == nil {
			a.guess = a.doubt(v, r)
		}
		// What was written before an error is handed out as well.
		if a.unanswered = a.guess != ""; hand != nil && !a.unanswered && (err == nil || r.Text != "") {
			err = cmp.Or(err, first.release())
		}
	}
	if err != nil || len(a.Form.Schema) > 0 || a.unanswered {
		return err
	}
	added, err := a.check(ctx)
	if err == nil && added != "" && hand != nil {
		err = hand(added)
	}
	return err
}

// thinkingTokens returns how many tokens the model may think before an answer: at most a half of its window.
func (a *State) thinkingTokens() int {
	t := llm.Thinking{Effort: a.ReasoningEffort, Tokens: a.ThinkingBudget}
	if !t.On() || !llm.Thinks(a.model) {
		return 0
	}
	return min(t.Limit(a.model.ContextSize()), a.model.ContextSize()/2)
}

// named removes the citations whose number is not among the passages, and returns how many it removed.
func named(text string, passages int) (string, int) {
	u := prompt.Unnamed{Passages: passages}
	text = u.Write(text) + u.Flush()
	return text, u.Removed
}

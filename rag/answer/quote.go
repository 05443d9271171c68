package answer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/excerpt"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/quote"
)

// Style is how an answer from passages is made.
type Style string

// The styles of answers.
const (
	Auto  Style = "auto"  // written where the model's scorecard says that it is right as often as quotes are
	Write Style = "write" // by the language model
	Quote Style = "quote" // sentences of the passages, verbatim, without a call of the language model
)

// quotedSentences is how many sentences a quote has at most.
const quotedSentences = 2

// quote answers with sentences of the passages, each with its citation. The verdict is Nothing where the passages have
// no sentence.
func (a *State) quote(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	v.Input(a.Question)
	if len(a.Passages) == 0 || a.Form.calls() { // a tool may help where the passages do not answer
		return Nothing, nil
	}
	if err := a.embed(ctx, v); err != nil { // also opens the store, whose words weigh those of the question
		return "", err
	}
	read, err := a.read(ctx)
	if err != nil {
		return "", err
	}
	if a.isTopicOnly() && (a.Strict || len(a.Form.Schema) > 0) {
		a.unanswered = true
		v.Detail(topicOnly)
		return Found, nil
	}
	var found []quote.Found
	if read != nil {
		if found = read.found; !read.Answers && a.Strict {
			a.unanswered = true
			v.Detail(noSpan)
			return Found, nil
		}
	}
	defer timer(&a.trace.Milliseconds.Generate)()
	o := quote.Options{Question: a.subject(), Max: quotedSentences, Found: found, Headings: a.headings()}
	quotes, err := a.snapshot.Quotes(ctx, o, a.vectors, a.texts())
	if err != nil || len(quotes) == 0 {
		return Nothing, err
	}
	citations, texts := prompt.Citations(a.Passages), make([]string, len(quotes))
	a.Passages = slices.Clone(a.Passages)
	for i, q := range quotes {
		texts[i] = fmt.Sprintf("%s [%d]", q, q.Passage+1)
		if c := &citations[q.Passage]; !c.Cited {
			c.Cited = true
			a.Passages[q.Passage].Sentence = &excerpt.Sentence{Text: q.Text, Start: q.Start, End: q.End, Score: q.Score,
				Answer: q.Answer}
		}
	}
	a.prompted = prompt.Prompt{Citations: citations}
	a.Answer.Answer = a.Form.ends(strings.Join(texts, "\n\n"))
	a.Answer.Retrieved, a.Answer.Citations = true, slices.Clone(citations)
	t := a.trace
	t.Mode, t.Style, t.Finish, t.Notice = FromContext, Quote, llm.FinishStop, ""
	if t.NoGate {
		t.Notice = noGate
	}
	if read != nil && !read.Answers {
		t.Notice = noSpan
	}
	if a.isTopicOnly() {
		t.Notice, t.StyleReason = topicOnly, ""
	}
	v.Score(quotes[0].Score)
	v.Detail(fmt.Sprintf("%d of %d passages quoted", cited(citations), len(citations)))
	return Found, nil
}

// cited counts the citations that the answer mentions.
func cited(list []prompt.Citation) (n int) {
	for _, c := range list {
		if c.Cited {
			n++
		}
	}
	return n
}

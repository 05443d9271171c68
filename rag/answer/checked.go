package answer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/flow"
)

// check compares each sentence that the model has written with the passages that it was shown, and cites the passages
// that back one where the model did not. With Options.Strict, the sentences that nothing backs are left out. It returns
// the citations that were added, for an answer that was streamed.
func (a *State) check(ctx context.Context) (added string, err error) {
	if a.trace.Mode != FromContext || a.Answer.Answer == "" {
		return "", nil
	}
	if err := a.open(ctx); err != nil { // passages may be of the web alone
		return "", err
	}
	defer timer(&a.trace.Milliseconds.Check)()
	shown := chunkTexts(a.shown())
	read, err := a.read(ctx)
	if err != nil {
		return "", err
	}
	if read != nil && !read.Answers {
		a.trace.Notice = noSpan
	}
	sentences, err := a.snapshot.Check(ctx, a.subject(), a.Answer.Answer, shown, a.spansIn(shown))
	if err != nil {
		return "", err
	}
	if a.trace.Checked = sentences; a.Strict {
		a.Answer.Answer, a.trace.Checked = backedOnly(a.Answer.Answer, sentences)
	}
	for _, s := range a.trace.Checked {
		if !s.Claim || !s.Backed || len(s.Places) == 0 {
			continue
		}
		if c := &a.Answer.Citations[s.Places[0].Passage]; !c.Cited {
			c.Cited = true
			added += fmt.Sprintf("[%d]", c.Number)
		}
	}
	if added != "" {
		added = " " + added
		a.Answer.Answer += added
	}
	return added, nil
}

// backedOnly removes the sentences that nothing backs from an answer, and returns what is left with its sentences,
// whose offsets are adjusted. Where no claim is left, the answer is empty.
func backedOnly(text string, sentences []check.Sentence) (string, []check.Sentence) {
	var left strings.Builder
	var kept []check.Sentence
	claims := 0
	for i, s := range sentences {
		if !s.Backed {
			continue
		}
		if s.Claim {
			claims++
		}
		end := len(text) // with the citations and the space behind the sentence
		if i+1 < len(sentences) {
			end = sentences[i+1].Start
		}
		whole := text[s.Start:end]
		s.Start, s.End = left.Len(), left.Len()+s.End-s.Start
		left.WriteString(whole)
		kept = append(kept, s)
	}
	if claims == 0 {
		return "", nil
	}
	return strings.TrimRight(left.String(), " \n"), kept
}

// Unbacked returns the sentences of the answer that the passages do not back.
func (t Trace) Unbacked() []check.Sentence {
	return slices.DeleteFunc(slices.Clone(t.Checked), func(s check.Sentence) bool { return s.Backed })
}

// hands reports whether the answer is streamed while it is written: no later node can refuse it, and no sentence will
// be left out.
func (a *State) hands(v *flow.Visit) bool {
	return v.Last && (!a.Strict || a.trace.Mode != FromContext)
}

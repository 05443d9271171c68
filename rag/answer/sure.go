package answer

import (
	"fmt"
	"math"
	"strings"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// shortAnswer is the length, in tokens, up to which an answer from the model's own knowledge is taken for a statement
// of facts. In a longer text some words are always a free choice.
const shortAnswer = 64

// judged reports whether the next answer counts only if the model is sure of it: a few sentences from the knowledge of
// a local model. Servers may refuse to tell probabilities, and reasoning in writing has free words as well.
func (a *State) judged() bool {
	return a.OwnFrom > 0 && a.trace.Mode == FromOwnKnowledge && a.Own == prompt.FewShot && a.trace.Remote == "" &&
		len(a.Form.Schema) == 0 && !a.Form.calls()
}

// doubt returns the notice for an answer that the model was not sure of, "" for one that counts. The measure is the
// probability of the likeliest token where that is lowest; of an answer that was not drawn, it is the least probable
// token of the answer (Varshney et al. 2023, "A Stitch in Time Saves Nine").
func (a *State) doubt(v *flow.Visit, r llm.Result) string {
	if len(r.LogProbs) == 0 || len(r.LogProbs) > shortAnswer {
		return ""
	}
	least := 0.0
	for _, t := range r.LogProbs {
		if len(t.Top) > 0 {
			t = t.Top[0]
		}
		least = min(least, t.LogProb)
	}
	p := math.Exp(least)
	v.Score(p)
	if p >= a.OwnFrom {
		return ""
	}
	return fmt.Sprintf("the model was not sure: the probability of a word was %.2f, below %.2f (ask.own_from); its guess: %s",
		p, a.OwnFrom, strings.Join(strings.Fields(r.Text), " "))
}

// held holds back the first pieces of an answer, which may turn out to be a guess.
type held struct {
	begin  func()
	hand   func(piece string) error // may be nil
	pieces int
	text   strings.Builder
}

func (h *held) write(piece string) error {
	h.text.WriteString(piece)
	if h.pieces++; h.pieces <= shortAnswer {
		return nil
	}
	return h.release()
}

// release hands out what was held back.
func (h *held) release() error {
	h.begin()
	text := h.text.String()
	if h.text.Reset(); text == "" || h.hand == nil {
		return nil
	}
	return h.hand(text)
}

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

// judged reports whether the next answer counts only if the model is sure of it: one from a local model's own knowledge
// that is neither JSON nor a call of tools. Servers may refuse to return probabilities, and a chain of thought has
// words that are a free choice.
func (a *State) judged() bool {
	return a.OwnFrom > 0 && a.trace.Mode == FromOwnKnowledge && a.Own == prompt.FewShot && a.trace.Remote == "" &&
		len(a.Form.Schema) == 0 && !a.Form.calls()
}

// doubt returns the notice for an answer that the model was not sure of, "" for one that counts. The measure is the
// probability of the likeliest token at the place of the answer where it is lowest. With greedy decoding that is the
// lowest probability of the answer's tokens (Varshney et al. 2023, "A Stitch in Time Saves Nine").
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
	return fmt.Sprintf("the model was not sure: one of its words had a probability of %.2f, below %.2f (ask.own_from); its guess: %s",
		p, a.OwnFrom, strings.Join(strings.Fields(r.Text), " "))
}

// holder holds back the first pieces of an answer until it is known whether the answer counts, or is too long to be
// judged.
type holder struct {
	begin  func()                   // called before the first piece is handed out
	hand   func(piece string) error // may be nil
	pieces int
	text   strings.Builder
}

func (h *holder) write(piece string) error {
	h.text.WriteString(piece)
	if h.pieces++; h.pieces <= shortAnswer {
		return nil
	}
	return h.release()
}

// release hands out what was held back.
func (h *holder) release() error {
	h.begin()
	text := h.text.String()
	if h.text.Reset(); text == "" || h.hand == nil {
		return nil
	}
	return h.hand(text)
}

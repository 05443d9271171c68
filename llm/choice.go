package llm

import (
	"math"
	"strings"
)

// Choice is the probability of each of some values at the place of a completion where it wrote one of them: written is
// the value, and the completion was made with LogProbs and Alternatives. The probabilities are those of the model
// before grammar and penalties, of the first token of the value, and add up to 1 over the values that are among the
// alternatives. ok is false where the place is not found or where a token begins several of the values.
func Choice(r Result, written string, values []string) (probability map[string]float64, ok bool) {
	at := strings.LastIndex(r.Text, written)
	if at < 0 || written == "" {
		return nil, false
	}
	begins := 0
	for _, t := range r.LogProbs {
		if begins+len(t.Text) > at {
			return weigh(t, r.Text[begins:at], values)
		}
		begins += len(t.Text)
	}
	return nil, false
}

// weigh shares the probability of the alternatives of a token among the values that they begin; before is what the
// token has before the value.
func weigh(t TokenLogProb, before string, values []string) (map[string]float64, bool) {
	p, sum := make(map[string]float64, len(values)), 0.
	for _, alternative := range t.Top {
		text, ok := strings.CutPrefix(alternative.Text, before)
		if text = strings.TrimSpace(text); !ok || text == "" {
			continue
		}
		var begun []string
		for _, v := range values {
			if strings.HasPrefix(v, text) || strings.HasPrefix(text, v) {
				begun = append(begun, v)
			}
		}
		switch len(begun) {
		case 0:
			continue
		case 1:
			share := math.Exp(alternative.LogProb)
			p[begun[0]] += share
			sum += share
		default:
			return nil, false
		}
	}
	if sum == 0 {
		return nil, false
	}
	for v := range p {
		p[v] /= sum
	}
	return p, true
}

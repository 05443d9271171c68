package llm

import (
	"math"
	"strings"
)

// Choice returns the probability of each of some values at the place where a completion wrote one of them, for a
// completion with LogProbs and Alternatives: the model's probabilities of the value's first token, before grammar and
// penalties, scaled to add up to 1 over the values that are among the alternatives. ok is false where the value is not
// found or a token begins several of the values.
func Choice(r Result, written string, values []string) (probability map[string]float64, ok bool) {
	at := strings.LastIndex(r.Text, written)
	if at < 0 || written == "" {
		return nil, false
	}
	begins := 0
	for _, t := range r.LogProbs {
		if begins+len(t.Text) > at {
			return share(t, r.Text[begins:at], values)
		}
		begins += len(t.Text)
	}
	return nil, false
}

// share distributes the probabilities of a token's alternatives over the values that they begin. before is the part of
// the token's text before the value.
func share(t TokenLogProb, before string, values []string) (map[string]float64, bool) {
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
			probability := math.Exp(alternative.LogProb)
			p[begun[0]] += probability
			sum += probability
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

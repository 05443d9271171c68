package remote

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/llm"
)

// logProbs holds an event's log-probabilities, as in chat completions (Content), which llama-server sends for raw ones
// too, or as in OpenAI's and vLLM's raw completions.
type logProbs struct {
	Content []tokenInfo `json:"content"`

	Tokens        []string             `json:"tokens"`
	TokenLogProbs []*float64           `json:"token_logprobs"` // null for a first token
	TopLogProbs   []map[string]float64 `json:"top_logprobs"`
}

type tokenInfo struct {
	ID      *int32      `json:"id"` // llama-server's
	Token   string      `json:"token"`
	LogProb float64     `json:"logprob"`
	Bytes   []int       `json:"bytes"` // of a token that may be part of a rune
	Top     []tokenInfo `json:"top_logprobs"`
}

func (t tokenInfo) read() llm.TokenLogProb {
	p := llm.TokenLogProb{Token: -1, Text: t.Token, LogProb: t.LogProb}
	if t.ID != nil {
		p.Token = *t.ID
	}
	if len(t.Bytes) > 0 {
		text := make([]byte, len(t.Bytes))
		for i, b := range t.Bytes {
			text[i] = byte(b)
		}
		p.Text = string(text)
	}
	return p
}

// appendTo adds the tokens to list, each with its best alternatives in order.
func (l *logProbs) appendTo(list []llm.TokenLogProb, alternatives int) []llm.TokenLogProb {
	for _, t := range l.Content {
		p := t.read()
		for _, other := range t.Top {
			p.Top = append(p.Top, other.read())
		}
		list = append(list, best(p, alternatives))
	}
	for i, token := range l.Tokens {
		p := llm.TokenLogProb{Token: -1, Text: token, LogProb: math.NaN()}
		if i < len(l.TokenLogProbs) && l.TokenLogProbs[i] != nil {
			p.LogProb = *l.TokenLogProbs[i]
		}
		if i < len(l.TopLogProbs) {
			for text, v := range l.TopLogProbs[i] {
				p.Top = append(p.Top, llm.TokenLogProb{Token: -1, Text: text, LogProb: v})
			}
		}
		list = append(list, best(p, alternatives))
	}
	return list
}

// ofAnswer returns the tokens of the last n bytes of a text, the answer behind the thinking.
func ofAnswer(list []llm.TokenLogProb, n int) []llm.TokenLogProb {
	at := len(list)
	for ; at > 0 && n > 0; at-- {
		n -= len(list[at-1].Text)
	}
	return list[at:]
}

// best sorts and cuts the alternatives of a token.
func best(p llm.TokenLogProb, n int) llm.TokenLogProb {
	slices.SortStableFunc(p.Top, func(a, b llm.TokenLogProb) int {
		return cmp.Or(cmp.Compare(b.LogProb, a.LogProb), cmp.Compare(a.Text, b.Text))
	})
	if p.Top = p.Top[:min(n, len(p.Top))]; len(p.Top) == 0 {
		p.Top = nil
	}
	return p
}

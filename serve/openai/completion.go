package openai

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/llm"
)

// CompletionRequest is the body of POST /v1/completions: a prompt without a chat template.
type CompletionRequest struct {
	Model  string          `json:"model"`
	Prompt json.RawMessage `json:"prompt"` // a string, tokens, or an array of either
	Sampling

	LogProbs       *int            `json:"logprobs" bounds:"0,5"` // number of alternatives; 0: only the chosen tokens
	Echo           *bool           `json:"echo"`
	Suffix         json.RawMessage `json:"suffix"`
	BestOf         *int            `json:"best_of" bounds:"1,128"`
	ResponseFormat json.RawMessage `json:"response_format"`
}

// rawTokens is the default limit of a raw completion in OpenAI's API.
const rawTokens = 16

// Request converts the request for the language model, without the prompt.
func (r *CompletionRequest) Request(l Limits) (llm.Request, *Error) {
	l.MaxTokens = rawTokens
	out, err := r.Sampling.request(l)
	if err != nil {
		return out, err
	}
	switch {
	case r.Echo != nil && *r.Echo:
		return out, unsupported("echo", "it is not supported")
	case given(r.Suffix) && string(r.Suffix) != `""`:
		return out, unsupported("suffix", "it is not supported")
	case r.BestOf != nil && *r.BestOf != r.Choices():
		return out, unsupported("best_of", "%d completions would be made and %d given: only the same numbers are "+
			"supported", *r.BestOf, r.Choices())
	}
	if r.LogProbs != nil {
		out.LogProbs, out.Alternatives = true, *r.LogProbs
	}
	out.Schema, err = format(r.ResponseFormat)
	return out, err
}

// Prompts returns the prompts of the request, each of which gets Choices completions.
func (r *CompletionRequest) Prompts(l Limits) ([]Input, *Error) {
	list, err := inputs("prompt", r.Prompt, l.Choices, "prompts")
	if err != nil {
		return nil, err
	}
	if n := len(list) * r.Choices(); n > l.Choices {
		return nil, tooMany("n", n, l.Choices, "completions of all prompts together")
	}
	return list, nil
}

// Completion is the response of POST /v1/completions, and a chunk of a streamed one.
type Completion struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"` // "text_completion"
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Fingerprint string       `json:"system_fingerprint,omitempty"`
	Choices     []TextChoice `json:"choices"`
	Usage       *Usage       `json:"usage,omitempty"`
}

// TextChoice is a continuation, or a piece of it.
type TextChoice struct {
	Text         string        `json:"text"`
	Index        int           `json:"index"` // completions of the first prompt come first
	LogProbs     *TextLogProbs `json:"logprobs"`
	FinishReason *string       `json:"finish_reason"` // null except in the last piece
}

// TextLogProbs has the log-probabilities of a raw completion's tokens, in four parallel lists.
type TextLogProbs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogProbs []float64            `json:"token_logprobs"`
	TopLogProbs   []map[string]float64 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"` // in characters of the completion
}

// TextLogProbsOf returns the log-probabilities of a raw completion; nil if not requested.
func TextLogProbsOf(asked bool, list []llm.TokenLogProb) *TextLogProbs {
	if !asked {
		return nil
	}
	out := &TextLogProbs{Tokens: []string{}, TokenLogProbs: []float64{}, TopLogProbs: []map[string]float64{},
		TextOffset: []int{}}
	before, at := "", 0
	for _, t := range list {
		out.Tokens = append(out.Tokens, valid(t.Text))
		out.TokenLogProbs = append(out.TokenLogProbs, finite(t.LogProb))
		top := map[string]float64{}
		for _, other := range t.Top {
			if _, there := top[valid(other.Text)]; !there { // partial characters: the more probable one stays
				top[valid(other.Text)] = finite(other.LogProb)
			}
		}
		out.TopLogProbs = append(out.TopLogProbs, top)
		out.TextOffset = append(out.TextOffset, at)
		for before += t.Text; utf8.FullRuneInString(before); at++ { // the rest belongs to the next token's character
			_, n := utf8.DecodeRuneInString(before)
			before = before[n:]
		}
	}
	return out
}

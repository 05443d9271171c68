package openai

import (
	"math"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/llm"
)

// Usage counts the tokens of a request.
type Usage struct {
	PromptTokens      int                `json:"prompt_tokens"`
	CompletionTokens  int                `json:"completion_tokens"`
	TotalTokens       int                `json:"total_tokens"`
	PromptDetails     *PromptDetails     `json:"prompt_tokens_details,omitempty"`
	CompletionDetails *CompletionDetails `json:"completion_tokens_details,omitempty"`
}

// PromptDetails counts the tokens of the prompt that were cached from an earlier request.
type PromptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// CompletionDetails counts the tokens of the completion that are thinking.
type CompletionDetails struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// UsageOf adds up completions, n for each prompt. A prompt counts once, as with OpenAI, with the cached tokens of its
// first completion.
func UsageOf(n int, results ...llm.Result) *Usage {
	u := &Usage{PromptDetails: &PromptDetails{}, CompletionDetails: &CompletionDetails{}}
	for i, r := range results {
		u.CompletionTokens += r.CompletionTokens
		u.CompletionDetails.ReasoningTokens += r.ThoughtTokens
		if i%n == 0 {
			u.PromptTokens += r.PromptTokens
			u.PromptDetails.CachedTokens += r.CachedTokens
		}
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// FinishReason returns OpenAI's name for the end of a completion.
func FinishReason(f llm.FinishReason) string {
	switch f {
	case llm.FinishLength, llm.FinishContext:
		return "length"
	case llm.FinishTools:
		return "tool_calls"
	}
	return "stop"
}

// ChatCompletion is the response of POST /v1/chat/completions.
type ChatCompletion struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"` // "chat.completion"
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint,omitempty"`
	Choices     []Choice `json:"choices"`
	Usage       *Usage   `json:"usage"`
	Sluice      any      `json:"sluice,omitempty"` // for answers from a knowledge base: sources and trace
}

// Choice is an answer.
type Choice struct {
	Index        int       `json:"index"`
	Message      Said      `json:"message"`
	LogProbs     *LogProbs `json:"logprobs"`
	FinishReason string    `json:"finish_reason"`
}

// Said is the assistant's message.
type Said struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`                     // null if there are only tool calls
	Refusal   *string    `json:"refusal"`                     // in place of JSON, without an answer
	Reasoning string     `json:"reasoning_content,omitempty"` // what the model wrote for itself before it
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Annotations are the places that cite sources, of an answer from a knowledge base.
	Annotations []Annotation `json:"annotations,omitempty"`
}

// Annotation is a place of an answer that cites a source.
type Annotation struct {
	Type        string      `json:"type"` // "url_citation"
	URLCitation URLCitation `json:"url_citation"`
}

// URLCitation is the source of a place, which is given in characters of the message.
type URLCitation struct {
	StartIndex int    `json:"start_index"`
	EndIndex   int    `json:"end_index"`
	URL        string `json:"url"`
	Title      string `json:"title"`
}

// ChatChunk is a chunk of a streamed answer.
type ChatChunk struct {
	ID          string        `json:"id"`
	Object      string        `json:"object"` // "chat.completion.chunk"
	Created     int64         `json:"created"`
	Model       string        `json:"model"`
	Fingerprint string        `json:"system_fingerprint,omitempty"`
	Choices     []ChunkChoice `json:"choices"`         // empty in the chunk with the usage
	Usage       *Usage        `json:"usage,omitempty"` // in the last chunk, if requested
	Sluice      any           `json:"sluice,omitempty"`
}

// ChunkChoice is what a chunk adds to the answer.
type ChunkChoice struct {
	Index        int       `json:"index"`
	Delta        Delta     `json:"delta"`
	LogProbs     *LogProbs `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"` // null except in the last chunk
}

// Delta is what a chunk adds to the message.
type Delta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Refusal   *string    `json:"refusal,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Annotations come with the last chunk.
	Annotations []Annotation `json:"annotations,omitempty"`
}

// Calls returns the tool calls of a result in their JSON form, numbered for a stream.
func Calls(list []llm.ToolCall, numbered bool) []ToolCall {
	out := make([]ToolCall, len(list))
	for i, c := range list {
		out[i].ID, out[i].Type = c.ID, "function"
		out[i].Function.Name, out[i].Function.Arguments = c.Name, c.Arguments
		if numbered {
			n := i
			out[i].Index = &n
		}
	}
	return out
}

// LogProbs has the log-probabilities of a chat's tokens.
type LogProbs struct {
	Content []TokenLogProb `json:"content"`
	Refusal []TokenLogProb `json:"refusal"` // always null
}

// TokenLogProb is a token with its bytes (it may be a part of a character) and its log-probability.
type TokenLogProb struct {
	Token   string         `json:"token"`
	LogProb float64        `json:"logprob"`
	Bytes   []int          `json:"bytes"`
	Top     []TokenLogProb `json:"top_logprobs,omitempty"`
}

// choiceLogProb returns a TokenLogProb for the upper level, where the alternatives are an array even if empty.
func choiceLogProb(t llm.TokenLogProb) TokenLogProb {
	out := alternative(t)
	out.Top = make([]TokenLogProb, 0, len(t.Top))
	for _, other := range t.Top {
		out.Top = append(out.Top, alternative(other))
	}
	return out
}

func alternative(t llm.TokenLogProb) TokenLogProb {
	out := TokenLogProb{Token: valid(t.Text), LogProb: finite(t.LogProb), Bytes: make([]int, len(t.Text))}
	for i := range len(t.Text) {
		out.Bytes[i] = int(t.Text[i])
	}
	return out
}

// LogProbsOf returns the log-probabilities of a chat; nil if not requested.
func LogProbsOf(asked bool, list []llm.TokenLogProb) *LogProbs {
	if !asked {
		return nil
	}
	out := &LogProbs{Content: make([]TokenLogProb, len(list))}
	for i, t := range list {
		out.Content[i] = choiceLogProb(t)
	}
	return out
}

// impossible is OpenAI's value for the logarithm of 0, which JSON cannot represent.
const impossible = -9999

func finite(v float64) float64 {
	if math.IsNaN(v) || v < impossible {
		return impossible
	}
	return math.Min(v, 0)
}

// valid returns a token's text as valid UTF-8, with U+FFFD for a part of a character.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

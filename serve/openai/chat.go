package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/llm"
)

// Limits bounds one request.
type Limits struct {
	Messages  int // of a conversation
	Texts     int // inputs of embeddings and classes, documents to rerank
	Tools     int
	MaxTokens int          // default limit of a completion
	Thinking  llm.Thinking // default
	Choices   int          // completions per prompt (n)
}

// ChatRequest is the body of POST /v1/chat/completions.
type ChatRequest struct {
	Model    string    `json:"model"`
	Messages []Message `json:"messages"`
	Sampling

	MaxCompletionTokens *int            `json:"max_completion_tokens" bounds:"1,2147483647"`
	LogProbs            *bool           `json:"logprobs"`
	TopLogProbs         *int            `json:"top_logprobs" bounds:"0,20"`
	ResponseFormat      json.RawMessage `json:"response_format"`

	Tools             []Tool          `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`

	// Sluice holds the settings of answers from a knowledge base (model "sluice" or "sluice/NAME").
	Sluice json.RawMessage `json:"sluice"`

	// Refused unless they have the values of the default behaviour.
	Modalities       []string        `json:"modalities"`
	Audio            json.RawMessage `json:"audio"`
	Prediction       json.RawMessage `json:"prediction"`
	WebSearchOptions json.RawMessage `json:"web_search_options"`
	Functions        json.RawMessage `json:"functions"`
	FunctionCall     json.RawMessage `json:"function_call"`

	ReasoningEffort json.RawMessage `json:"reasoning_effort"`
	ThinkingBudget  *int            `json:"thinking_budget" bounds:"0,2147483647"` // as in Qwen's API
	TemplateKwargs  json.RawMessage `json:"chat_template_kwargs"`                  // as in vLLM's; only enable_thinking

	// Without effect: it asks OpenAI's models to say more.
	Verbosity json.RawMessage `json:"verbosity"`
}

// Sampling has the fields that chat and raw completions share.
type Sampling struct {
	MaxTokens        *int            `json:"max_tokens" bounds:"1,2147483647"`
	Temperature      *float64        `json:"temperature" bounds:"0,2"`
	TopP             *float64        `json:"top_p" bounds:"0,1"`
	PresencePenalty  *float64        `json:"presence_penalty" bounds:"-2,2"`
	FrequencyPenalty *float64        `json:"frequency_penalty" bounds:"-2,2"`
	Seed             *int64          `json:"seed" bounds:"-9223372036854775808,9223372036854775807"`
	Stop             json.RawMessage `json:"stop"`
	N                *int            `json:"n" bounds:"1,128"`
	Stream           *bool           `json:"stream"`
	StreamOptions    *StreamOptions  `json:"stream_options"`
	LogitBias        json.RawMessage `json:"logit_bias"`

	// Not in OpenAI's API; names of vLLM and llama-server.
	TopK              *int     `json:"top_k" bounds:"-1,2147483647"`
	MinP              *float64 `json:"min_p" bounds:"0,1"`
	RepetitionPenalty *float64 `json:"repetition_penalty" bounds:"0,100"`
	RepeatPenalty     *float64 `json:"repeat_penalty" bounds:"0,100"`

	// Without effect: they concern OpenAI's accounts, caches and classes of service.
	User                 json.RawMessage `json:"user"`
	Metadata             json.RawMessage `json:"metadata"`
	Store                json.RawMessage `json:"store"`
	ServiceTier          json.RawMessage `json:"service_tier"`
	SafetyIdentifier     json.RawMessage `json:"safety_identifier"`
	PromptCacheKey       json.RawMessage `json:"prompt_cache_key"`
	PromptCacheRetention json.RawMessage `json:"prompt_cache_retention"`
}

// StreamOptions of a request with "stream": true.
type StreamOptions struct {
	IncludeUsage *bool `json:"include_usage"`
	// Without effect: it pads chunks against observers of their lengths.
	IncludeObfuscation *bool `json:"include_obfuscation"`
}

// Streams reports whether the client asks for server-sent events.
func (s *Sampling) Streams() bool { return s.Stream != nil && *s.Stream }

// WantsUsage reports whether a stream ends with the usage.
func (s *Sampling) WantsUsage() bool {
	return s.StreamOptions != nil && s.StreamOptions.IncludeUsage != nil && *s.StreamOptions.IncludeUsage
}

// Message is one turn as sent by clients.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a string, parts, or null beside tool calls
	ToolCalls  []ToolCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`

	// Without effect: earlier turns' thinking is not repeated.
	ReasoningContent json.RawMessage `json:"reasoning_content"`

	Name         json.RawMessage `json:"name"`    // without effect: templates do not use it
	Refusal      json.RawMessage `json:"refusal"` // clients send it back from an answer; null here
	Audio        json.RawMessage `json:"audio"`
	Annotations  json.RawMessage `json:"annotations"`
	FunctionCall json.RawMessage `json:"function_call"`
}

// part is an element of a message's content.
type part struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Refusal *string `json:"refusal"`
}

// Request converts the request for the language model.
func (r *ChatRequest) Request(l Limits) (llm.Request, *Error) {
	if err := r.refuse(); err != nil {
		return llm.Request{}, err
	}
	out, err := r.Sampling.request(l)
	if err != nil {
		return out, err
	}
	if out.Messages, err = r.turns(l); err != nil {
		return out, err
	}
	r.length(&out)
	if out.Thinking, err = r.thinking(l); err != nil {
		return out, err
	}
	if err := r.logProbs(&out); err != nil {
		return out, err
	}
	if out.Schema, err = format(r.ResponseFormat); err != nil {
		return out, err
	}
	return out, r.tools(&out, l)
}

// refuse returns an error for parameters that would change the answer and are not supported.
func (r *ChatRequest) refuse() *Error {
	for _, x := range []struct {
		param string
		raw   json.RawMessage
		hint  string
	}{
		{"audio", r.Audio, ""},
		{"prediction", r.Prediction, ""},
		{"web_search_options", r.WebSearchOptions, `model "sluice" with a flow that searches the web does that`},
		{"functions", r.Functions, "send tools"},
		{"function_call", r.FunctionCall, "send tool_choice"},
	} {
		if given(x.raw) {
			return unsupported(x.param, "it is not supported").hint("%s", x.hint)
		}
	}
	for i, m := range r.Modalities {
		if m != "text" {
			return unsupported(fmt.Sprintf("modalities[%d]", i), "%q is not supported, only \"text\" is", m)
		}
	}
	return nil
}

// length reads the token limit under both of its names, the lower one if both are given.
func (r *ChatRequest) length(out *llm.Request) {
	switch {
	case r.MaxCompletionTokens == nil:
	case r.MaxTokens == nil:
		out.MaxTokens = *r.MaxCompletionTokens
	default:
		out.MaxTokens = min(*r.MaxTokens, *r.MaxCompletionTokens)
	}
}

// thinking reads how long the model may think.
func (r *ChatRequest) thinking(l Limits) (llm.Thinking, *Error) {
	t := l.Thinking
	if given(r.ReasoningEffort) {
		var effort llm.Effort
		if json.Unmarshal(r.ReasoningEffort, &effort) != nil || !slices.Contains(llm.Efforts(), effort) {
			return t, invalid("reasoning_effort", "must be one of %q, given %.40q", llm.Efforts(), r.ReasoningEffort)
		}
		t.Effort = effort
	}
	if r.ThinkingBudget != nil {
		t.Tokens = *r.ThinkingBudget
	}
	var kwargs struct {
		Enable *bool `json:"enable_thinking"`
		On     *bool `json:"thinking"`
	}
	if given(r.TemplateKwargs) && json.Unmarshal(r.TemplateKwargs, &kwargs) != nil {
		return t, wrongType("chat_template_kwargs", `an object such as {"enable_thinking": false}`, r.TemplateKwargs)
	}
	for _, on := range []*bool{kwargs.Enable, kwargs.On} {
		if on != nil && !*on {
			t.Effort = llm.NoEffort
		} else if on != nil && !t.On() {
			t.Effort = llm.MediumEffort
		}
	}
	return t, nil
}

func (r *ChatRequest) logProbs(out *llm.Request) *Error {
	out.LogProbs = r.LogProbs != nil && *r.LogProbs
	if r.TopLogProbs == nil {
		return nil
	}
	if out.Alternatives = *r.TopLogProbs; out.Alternatives > 0 && !out.LogProbs {
		return invalid("top_logprobs", "%d of them need logprobs to be true", out.Alternatives)
	}
	return nil
}

func (r *ChatRequest) turns(l Limits) ([]llm.Message, *Error) {
	if len(r.Messages) == 0 {
		return nil, missing("messages")
	}
	if len(r.Messages) > l.Messages {
		return nil, tooMany("messages", len(r.Messages), l.Messages, "messages")
	}
	out := make([]llm.Message, len(r.Messages))
	for i := range r.Messages {
		var err *Error
		if out[i], err = r.Messages[i].turn(fmt.Sprintf("messages[%d]", i), l); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (m *Message) turn(param string, l Limits) (out llm.Message, err *Error) {
	switch m.Role {
	case "system", "developer":
		out.Role = llm.System
	case "user":
		out.Role = llm.User
	case "assistant":
		out.Role = llm.Assistant
	case "tool":
		out.Role = llm.ToolRole
		if m.ToolCallID == "" {
			return out, missing(param + ".tool_call_id")
		}
		out.ToolCallID = m.ToolCallID
	case "":
		return out, missing(param + ".role")
	default:
		return out, invalid(param+".role", "%.40q is none of system, developer, user, assistant and tool", m.Role)
	}
	switch {
	case given(m.Audio):
		return out, unsupported(param+".audio", "it is not supported")
	case given(m.FunctionCall):
		return out, unsupported(param+".function_call", "it is not supported").hint("send tool_calls")
	case len(m.ToolCalls) > 0 && out.Role != llm.Assistant:
		return out, invalid(param+".tool_calls", "only the assistant calls tools, not the role %s", m.Role)
	case len(m.ToolCalls) > l.Tools:
		return out, tooMany(param+".tool_calls", len(m.ToolCalls), l.Tools, "calls")
	}
	for i, c := range m.ToolCalls {
		call, err := c.call(fmt.Sprintf("%s.tool_calls[%d]", param, i))
		if err != nil {
			return out, err
		}
		out.ToolCalls = append(out.ToolCalls, call)
	}
	if !given(m.Content) {
		if out.Role == llm.Assistant && (len(m.ToolCalls) > 0 || given(m.Refusal)) {
			return out, nil
		}
		return out, missing(param + ".content")
	}
	out.Content, err = content(param+".content", m.Content, l)
	return out, err
}

// content returns the text of a message: a string, or joined parts.
func content(param string, raw json.RawMessage, l Limits) (string, *Error) {
	if first(raw) == '"' {
		return text(param, raw)
	}
	if first(raw) != '[' {
		return "", wrongType(param, "a string or an array of parts", raw)
	}
	list, err := array(param, raw, l.Texts, "parts")
	if err != nil {
		return "", err
	}
	var all []byte
	for i, one := range list {
		at := fmt.Sprintf("%s[%d]", param, i)
		var tag struct {
			Type string `json:"type"`
		}
		if first(one) != '{' || json.Unmarshal(one, &tag) != nil {
			return "", wrongType(at, `an object such as {"type": "text", "text": "…"}`, one)
		}
		if tag.Type != "text" && tag.Type != "refusal" {
			return "", unsupported(at+".type", "%.40q is not supported, only \"text\" is", tag.Type)
		}
		var p part
		if err := object(at, one, &p); err != nil {
			return "", err
		}
		said := p.Text
		if tag.Type == "refusal" {
			said = p.Refusal
		}
		if said == nil {
			return "", missing(at + "." + tag.Type)
		}
		all = append(all, *said...)
	}
	return string(all), nil
}

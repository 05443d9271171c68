package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// repeatWindow is how many tokens a repeat penalty looks back, as llm.Request has it.
const repeatWindow = 64

// Check returns llm.ErrOptions if a request means nothing or needs what the server does not know; Generate calls
// it.
func (g *Generator) Check(r llm.Request) error {
	switch err := r.Check(); {
	case err != nil:
		return err
	case (len(r.Messages) > 0) == (r.Prompt != ""):
		return optionError("a request has either messages or a prompt, given %d messages and a prompt of %d bytes",
			len(r.Messages), len(r.Prompt))
	case len(r.Schema) > 0 && (!json.Valid(r.Schema) || !bytes.HasPrefix(bytes.TrimSpace(r.Schema), []byte("{"))):
		return optionError("the schema is not a JSON object")
	}
	return g.checkKnown(r)
}

// checkKnown refuses settings that the server would ignore, but for those without effect at temperature 0.
func (g *Generator) checkKnown(r llm.Request) error {
	unknown := func(what string) error {
		return optionError("%s is not part of OpenAI's API; it can be sent when extensions say that the server is %q or %q", what, LlamaServer, VLLM)
	}
	sampled, raw := r.Temperature > 0, r.Prompt != ""
	switch {
	case r.NoRepeatNGram != 0:
		return optionError("no-repeat n-grams (%d) are known to no server", r.NoRepeatNGram)
	case g.o.Extensions != NoExtensions:
		return nil
	case r.Thinking.Tokens > 0:
		return unknown(fmt.Sprintf("a thinking budget of %d tokens", r.Thinking.Tokens))
	case sampled && r.TopK > 0:
		return unknown(fmt.Sprintf("top-k %d", r.TopK))
	case sampled && r.MinP > 0:
		return unknown(fmt.Sprintf("min-p %v", r.MinP))
	case r.RepeatPenalty != 0 && r.RepeatPenalty != 1:
		return unknown(fmt.Sprintf("repeat penalty %v", r.RepeatPenalty))
	case r.Grammar != "":
		return unknown("a grammar")
	case raw && len(r.Schema) > 0:
		return unknown("a schema for a raw prompt")
	case raw && r.MaxTokens == 0:
		return optionError("a raw prompt needs max tokens: servers take 16 when it is not given, and without a tokenizer (extensions) what is left of the context is unknown")
	}
	return nil
}

// body returns a request as JSON. Settings that are off are sent as well where servers have other defaults.
func (g *Generator) body(ctx context.Context, r llm.Request, seed int64) ([]byte, error) {
	m := map[string]any{
		"model": g.o.Model, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"temperature": r.Temperature, "seed": seed,
	}
	if r.Temperature > 0 {
		m["top_p"] = cmp.Or(r.TopP, 1) // 0 is off
	}
	if r.FrequencyPenalty != 0 {
		m["frequency_penalty"] = r.FrequencyPenalty
	}
	if r.PresencePenalty != 0 {
		m["presence_penalty"] = r.PresencePenalty
	}
	if len(r.Stop) > 0 {
		m["stop"] = r.Stop
	}
	g.extend(m, r, llm.ScopeOf(ctx))
	if r.Prompt != "" {
		return g.rawBody(ctx, m, r)
	}
	m["messages"] = messagesOf(r.Messages)
	addTools(m, r)
	g.think(m, r.Thinking)
	switch {
	case r.MaxTokens > 0 && g.newLimit.Load():
		m["max_completion_tokens"] = r.MaxTokens
	case r.MaxTokens > 0:
		m["max_tokens"] = r.MaxTokens
	}
	if len(r.Schema) > 0 {
		m["response_format"] = responseFormat(r.Schema)
	}
	if r.LogProbs {
		m["logprobs"] = true
		if n := g.alternatives(r); n > 0 {
			m["top_logprobs"] = n
		}
	}
	return marshal(m)
}

// rawBody completes the body of a request for POST /completions.
func (g *Generator) rawBody(ctx context.Context, m map[string]any, r llm.Request) ([]byte, error) {
	m["prompt"] = strings.ToValidUTF8(r.Prompt, "\uFFFD")
	limit := r.MaxTokens
	if limit == 0 && g.o.Extensions == VLLM { // its default is 16
		n, err := g.countTokens(ctx, r.Prompt)
		if err != nil {
			return nil, err
		}
		if limit = g.o.ContextSize - n; limit < 1 {
			return nil, &llm.PromptTooLongError{Tokens: n, Limit: g.o.ContextSize - 1}
		}
	}
	if limit > 0 {
		m["max_tokens"] = limit
	}
	if len(r.Schema) > 0 && g.o.Extensions == LlamaServer {
		m["json_schema"] = r.Schema
	} else if len(r.Schema) > 0 {
		m["response_format"] = responseFormat(r.Schema)
	}
	if r.LogProbs {
		m["logprobs"] = g.alternatives(r)
		if g.o.Extensions == LlamaServer {
			m["n_probs"] = g.alternatives(r)
		}
	}
	return marshal(m)
}

// extend adds settings that only some servers know. A server that cannot separate scopes must not use its cache.
func (g *Generator) extend(m map[string]any, r llm.Request, scope *llm.Scope) {
	if g.o.Extensions != NoExtensions && r.Temperature > 0 {
		m["top_k"], m["min_p"] = r.TopK, r.MinP
	}
	switch g.o.Extensions {
	case LlamaServer:
		if scope != nil {
			m["cache_prompt"] = false
		}
		m["repeat_penalty"], m["repeat_last_n"] = cmp.Or(r.RepeatPenalty, 1), repeatWindow
		if r.Grammar != "" {
			m["grammar"] = r.Grammar
		}
	case VLLM:
		if scope != nil {
			m["cache_salt"] = strconv.FormatUint(scope.ID(), 16)
		}
		if m["top_k"] == 0 {
			m["top_k"] = -1 // older versions refuse 0
		}
		m["repetition_penalty"] = cmp.Or(r.RepeatPenalty, 1)
		if r.Grammar != "" { // versions before 0.11 know the second name only; vLLM ignores unknown ones
			m["structured_outputs"] = map[string]any{"grammar": r.Grammar}
			m["guided_grammar"] = r.Grammar
		}
	}
}

// effortField is the name of the reasoning effort in a request and as a variable of gpt-oss's chat template.
const effortField = "reasoning_effort"

// think adds how long the model may think. llama-server and vLLM hand variables to the chat template, which ignores
// those that it does not know; the effort "none" is not known to all versions.
func (g *Generator) think(m map[string]any, t llm.Thinking) {
	effort := cmp.Or(t.Effort, llm.NoEffort)
	switch g.o.Extensions {
	case LlamaServer, VLLM:
		variables := map[string]any{"enable_thinking": t.On(), "thinking": t.On()}
		if t.On() {
			variables[effortField] = effort
		}
		m["chat_template_kwargs"] = variables
		budget := "thinking_budget_tokens"
		if g.o.Extensions == VLLM {
			budget = "thinking_token_budget"
		}
		if t.Tokens > 0 {
			m[budget] = t.Tokens
		}
	default:
		if _, refused := g.refused.Load(effort); !refused {
			m[effortField] = effort
		}
	}
}

// alternatives returns how many to ask for: llama-server sends no probabilities at all when it is asked for 0.
func (g *Generator) alternatives(r llm.Request) int {
	if g.o.Extensions == LlamaServer {
		return max(r.Alternatives, 1)
	}
	return r.Alternatives
}

func responseFormat(schema json.RawMessage) map[string]any {
	return map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "strict": true,
		"schema": schema}}
}

func marshal(m map[string]any) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	return body, nil
}

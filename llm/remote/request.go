package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/llm"
)

const (
	maxSeed         = math.MaxUint32 - 1
	maxAlternatives = 20
	window          = 64 // tokens that a repeat penalty looks back, as llm.Request has it
)

// Check tells with llm.ErrOptions that a request means nothing or needs what the server does not know; Generate calls
// it.
func (g *Generator) Check(req llm.Request) error {
	if err := checkValues(req); err != nil {
		return err
	}
	if err := checkTexts(req); err != nil {
		return err
	}
	return g.checkKnown(req)
}

func checkValues(r llm.Request) error {
	within := func(v, low, high float64) bool { return v >= low && v <= high } // false for NaN
	switch {
	case r.MaxTokens < 0 || r.MaxTokens > math.MaxInt32:
		return optionError("max tokens %d is not between 0 and %d", r.MaxTokens, math.MaxInt32)
	case !within(r.Temperature, 0, 100):
		return optionError("temperature %v is not between 0 and 100", r.Temperature)
	case r.TopK < 0 || r.TopK > math.MaxInt32:
		return optionError("top-k %d is less than 0 or too large", r.TopK)
	case !within(r.TopP, 0, 1):
		return optionError("top-p %v is not between 0 and 1", r.TopP)
	case !within(r.MinP, 0, 1):
		return optionError("min-p %v is not between 0 and 1", r.MinP)
	case !within(r.RepeatPenalty, 0, 100):
		return optionError("repeat penalty %v is not between 0 and 100", r.RepeatPenalty)
	case !within(r.FrequencyPenalty, -2, 2) || !within(r.PresencePenalty, -2, 2):
		return optionError("frequency penalty %v and presence penalty %v are not between -2 and 2",
			r.FrequencyPenalty, r.PresencePenalty)
	case r.Alternatives < 0 || r.Alternatives > maxAlternatives:
		return optionError("%d alternatives are not between 0 and %d", r.Alternatives, maxAlternatives)
	case r.Alternatives > 0 && !r.LogProbs:
		return optionError("%d alternatives need LogProbs", r.Alternatives)
	case r.Seed > maxSeed:
		return optionError("seed %d is above %d", r.Seed, int64(maxSeed))
	}
	return nil
}

func checkTexts(r llm.Request) error {
	switch {
	case (len(r.Messages) > 0) == (r.Prompt != ""):
		return optionError("a request has either messages or a prompt, given %d messages and a prompt of %d bytes",
			len(r.Messages), len(r.Prompt))
	case r.Grammar != "" && len(r.Schema) > 0:
		return optionError("a request has either a grammar or a schema, not both")
	case len(r.Schema) > 0 && (!json.Valid(r.Schema) || !bytes.HasPrefix(bytes.TrimSpace(r.Schema), []byte("{"))):
		return optionError("the schema is not a JSON object")
	}
	for _, s := range r.Stop {
		if s == "" || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return optionError("stop string %q is empty, not UTF-8, or has a NUL", s)
		}
	}
	return r.CheckTools()
}

// checkKnown refuses settings that the server would ignore. At temperature 0 those that truncate are without effect
// anyway.
func (g *Generator) checkKnown(r llm.Request) error {
	unknown := func(what string) error {
		return optionError("%s is not part of OpenAI's API; it can be sent when extensions say that the server is %q or %q", what, LlamaServer, VLLM)
	}
	sampled, raw := r.Temperature > 0, r.Prompt != ""
	if r.NoRepeatNGram != 0 {
		return optionError("no-repeat n-grams (%d) are known to no server", r.NoRepeatNGram)
	}
	if g.o.Extensions != NoExtensions {
		return nil
	}
	switch {
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

// orOne maps a setting's zero value to what servers take for "off".
func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}

// body is a request as JSON. Settings that are off are said, too, where servers have other defaults.
func (g *Generator) body(ctx context.Context, r llm.Request, seed int64) ([]byte, error) {
	m := map[string]any{
		"model": g.model, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"temperature": r.Temperature, "seed": seed,
	}
	if r.Temperature > 0 {
		m["top_p"] = orOne(r.TopP)
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
	if r.MaxTokens > 0 {
		m[g.limitName()] = r.MaxTokens
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
	if limit == 0 && g.o.Extensions == VLLM { // it would take 16
		n, err := g.countTokens(ctx, r.Prompt)
		if err != nil {
			return nil, err
		}
		if limit = g.window - n; limit < 1 {
			return nil, &llm.PromptTooLongError{Tokens: n, Limit: g.window - 1}
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

// extend adds what only some servers know. One that cannot keep the caches of scopes apart has to do without.
func (g *Generator) extend(m map[string]any, r llm.Request, scope *llm.Scope) {
	sampled := r.Temperature > 0
	switch g.o.Extensions {
	case LlamaServer:
		if scope != nil {
			m["cache_prompt"] = false
		}
		if sampled {
			m["top_k"], m["min_p"] = r.TopK, r.MinP
		}
		m["repeat_penalty"], m["repeat_last_n"] = orOne(r.RepeatPenalty), window
		if r.Grammar != "" {
			m["grammar"] = r.Grammar
		}
	case VLLM:
		if scope != nil {
			m["cache_salt"] = strconv.FormatUint(scope.ID(), 16)
		}
		if sampled {
			m["top_k"], m["min_p"] = r.TopK, r.MinP
			if r.TopK == 0 {
				m["top_k"] = -1 // 0 is refused by older ones
			}
		}
		m["repetition_penalty"] = orOne(r.RepeatPenalty)
		if r.Grammar != "" { // the second name is that of versions before 0.11; vLLM ignores what it does not know
			m["structured_outputs"] = map[string]any{"grammar": r.Grammar}
			m["guided_grammar"] = r.Grammar
		}
	}
}

// alternatives are those to ask for: llama-server gives no probabilities at all when asked for none of them.
func (g *Generator) alternatives(r llm.Request) int {
	if g.o.Extensions == LlamaServer {
		return max(r.Alternatives, 1)
	}
	return r.Alternatives
}

func (g *Generator) limitName() string {
	if g.newLimit.Load() {
		return "max_completion_tokens"
	}
	return "max_tokens"
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

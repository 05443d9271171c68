package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/llm"
)

const (
	maxStops     = 16 // OpenAI takes 4
	maxStopBytes = 1 << 10
	// seeds bounds llm.Request's seeds; OpenAI's larger ones are folded into this range.
	seeds = math.MaxUint32
)

// request converts the fields that chat and raw completions share. Missing fields have OpenAI's defaults.
func (s *Sampling) request(l Limits) (out llm.Request, err *Error) {
	if n := s.Choices(); n < 1 || n > l.Choices {
		return out, invalid("n", "%d is not between 1 and %d", n, l.Choices)
	}
	if given(s.LogitBias) && strings.TrimSpace(string(s.LogitBias)) != "{}" {
		return out, unsupported("logit_bias", "it is not supported")
	}
	if s.StreamOptions != nil && !s.Streams() {
		return out, invalid("stream_options", "it needs stream to be true")
	}
	if out.MaxTokens = l.MaxTokens; s.MaxTokens != nil {
		out.MaxTokens = *s.MaxTokens
	}
	for _, x := range []struct {
		given   *float64
		into    *float64
		initial float64
	}{
		{s.Temperature, &out.Temperature, 1},
		{s.TopP, &out.TopP, 1},
		{s.PresencePenalty, &out.PresencePenalty, 0},
		{s.FrequencyPenalty, &out.FrequencyPenalty, 0},
		{s.MinP, &out.MinP, 0},
		{s.RepetitionPenalty, &out.RepeatPenalty, 0},
		{s.RepeatPenalty, &out.RepeatPenalty, 0},
	} {
		switch {
		case x.given != nil:
			*x.into = *x.given
		case *x.into == 0:
			*x.into = x.initial
		}
	}
	if s.TopP != nil && *s.TopP == 0 { // the smallest set: only the most probable token
		out.TopP, out.TopK = 1, 1
	}
	if s.TopK != nil {
		out.TopK = max(*s.TopK, 0) // -1 is vLLM's "off"
	}
	if out.Seed = -1; s.Seed != nil {
		out.Seed = int64(uint64(*s.Seed) % seeds)
	}
	out.Stop, err = stops(s.Stop)
	out.Priority = llm.Interactive
	return out, err
}

// Choices returns the number of completions per prompt.
func (s *Sampling) Choices() int {
	if s.N == nil {
		return 1
	}
	return *s.N
}

// Each returns the request for completion i of n: the first one keeps the seed, so that it equals a single completion,
// and the others use the following seeds.
func Each(r llm.Request, i int) llm.Request {
	if r.Seed >= 0 {
		r.Seed = (r.Seed + int64(i)) % seeds
	}
	return r
}

// stops reads the strings that end a completion: a string, a list, or nothing.
func stops(raw json.RawMessage) ([]string, *Error) {
	if !given(raw) {
		return nil, nil
	}
	list, err := texts("stop", raw, maxStops, "strings")
	if err != nil {
		return nil, err
	}
	for i, s := range list {
		param := "stop"
		if first(raw) == '[' {
			param = fmt.Sprintf("stop[%d]", i)
		}
		switch {
		case s == "":
			return nil, invalid(param, "it is empty")
		case len(s) > maxStopBytes:
			return nil, &Error{Code: CodeLimit, Param: param,
				Message: fmt.Sprintf("%s: it has %d bytes, at most %d are taken", param, len(s), maxStopBytes)}
		case strings.Contains(s, "\x00") || !utf8.ValidString(s):
			return nil, invalid(param, "it holds a NUL, which no answer has")
		}
	}
	return list, nil
}

// format returns the schema of response_format; nil for any text.
func format(raw json.RawMessage) (json.RawMessage, *Error) {
	if !given(raw) {
		return nil, nil
	}
	var f struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"json_schema"`
	}
	if err := object("response_format", raw, &f); err != nil {
		return nil, err
	}
	switch f.Type {
	case "text":
		return nil, nil
	case "json_object":
		return json.RawMessage(`{"type":"object"}`), nil
	case "json_schema":
	case "":
		return nil, missing("response_format.type")
	default:
		return nil, invalid("response_format.type", "%.40q is none of text, json_object and json_schema", f.Type)
	}
	if !given(f.Schema) {
		return nil, missing("response_format.json_schema")
	}
	var s struct {
		Name        string          `json:"name"`
		Description json.RawMessage `json:"description"` // without effect
		Strict      json.RawMessage `json:"strict"`      // without effect: a schema is always followed
		Schema      json.RawMessage `json:"schema"`
	}
	if err := object("response_format.json_schema", f.Schema, &s); err != nil {
		return nil, err
	}
	if !given(s.Schema) {
		return nil, missing("response_format.json_schema.schema")
	}
	if first(s.Schema) != '{' {
		return nil, wrongType("response_format.json_schema.schema", "an object", s.Schema)
	}
	return s.Schema, nil
}

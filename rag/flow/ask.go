package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/llm"
)

// Method selects how a language model is made to return one of several verdicts.
type Method string

// The methods. Tool and Parse are used by Rocha and Pessoa.
const (
	Grammar Method = "grammar" // JSON with an enum, forced by a grammar
	Tool    Method = "tool"    // a tool call; the model's chat template must support tools
	Parse   Method = "parse"   // the prompt asks for JSON, and the completion is parsed
)

// Methods returns all methods.
func Methods() []Method { return []Method{Grammar, Tool, Parse} }

// MaxVerdictTokens limits the completion of a verdict, in tokens.
const MaxVerdictTokens = 48

// Question asks a language model for a verdict.
type Question struct {
	Messages []llm.Message
	Key      string    // of the JSON
	Values   []Verdict // the possible verdicts
	Method   Method    // "" is Grammar
	Score    bool      // fill Said.Probability

	Temperature float64
	Seed        int64
	Priority    int
}

// Said is a model's verdict.
type Said struct {
	Verdict Verdict // "" if unreadable; with Grammar only if the completion was cut off
	Text    string  // what the model wrote
	// Probability of each verdict by the model's own log-probabilities (llm.Choice); nil if they are unknown.
	Probability map[Verdict]float64
}

// Ask asks a model for a verdict. An unreadable completion is not an error; Said.Verdict is "".
func Ask(ctx context.Context, model llm.Generator, q Question) (Said, error) {
	r := llm.Request{Messages: slices.Clone(q.Messages), MaxTokens: MaxVerdictTokens, Temperature: q.Temperature,
		Seed: q.Seed, Priority: q.Priority}
	if q.Score {
		r.LogProbs, r.Alternatives = true, 20
	}
	schema := q.schema()
	switch q.Method {
	case "", Grammar:
		r.Schema = schema
	case Tool:
		r.Tools = []llm.Tool{{Name: "verdict", Description: "gives the verdict", Parameters: schema}}
		r.ToolChoice = "verdict"
	case Parse:
		if len(r.Messages) > 0 {
			r.Messages[len(r.Messages)-1].Content += "\n\n" + q.line()
		}
	default:
		return Said{}, fmt.Errorf("flow: verdicts by %q are not known; by %v", q.Method, Methods())
	}
	result, err := model.Generate(ctx, r, nil)
	if err != nil {
		return Said{}, err
	}
	said := Said{Text: result.Text}
	if len(result.ToolCalls) > 0 {
		said.Text = result.ToolCalls[0].Arguments
	}
	said.Verdict = q.read(said.Text)
	if q.Score && said.Verdict != "" {
		said.Probability = q.probability(result, said.Verdict)
	}
	return said, nil
}

// schema returns a JSON Schema of the verdict.
func (q Question) schema() json.RawMessage {
	text, err := json.Marshal(map[string]any{"type": "object", "additionalProperties": false,
		"properties": map[string]any{q.Key: map[string]any{"enum": q.Values}}, "required": []string{q.Key}})
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}

// line returns the sentence that asks for the JSON.
func (q Question) line() string {
	names := make([]string, len(q.Values))
	for i, v := range q.Values {
		names[i] = fmt.Sprintf("%q", v)
	}
	return fmt.Sprintf("Answer with JSON that has the single key %q with the value %s, and with nothing else.", q.Key,
		strings.Join(names, " or "))
}

var object = regexp.MustCompile(`\{[^{}]*\}`)

// read finds the verdict in what a model wrote: in the first JSON object with the key, or else as the only value that
// occurs as a word. It returns "" if there is no verdict.
func (q Question) read(text string) Verdict {
	for _, m := range object.FindAllString(text, -1) {
		var fields map[string]any
		if json.Unmarshal([]byte(m), &fields) != nil {
			continue
		}
		said, ok := fields[q.Key].(string)
		if !ok {
			continue
		}
		if i := slices.IndexFunc(q.Values, func(v Verdict) bool { return strings.EqualFold(string(v), said) }); i >= 0 {
			return q.Values[i]
		}
	}
	if q.Method != Parse {
		return ""
	}
	var found []Verdict
	for _, v := range q.Values {
		if regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(string(v)) + `\b`).MatchString(text) {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// probability returns the probability of each verdict, nil if the model's alternatives do not determine them.
func (q Question) probability(r llm.Result, said Verdict) map[Verdict]float64 {
	values := make([]string, len(q.Values))
	for i, v := range q.Values {
		values[i] = string(v)
	}
	found, ok := llm.Choice(r, string(said), values)
	if !ok {
		return nil
	}
	p := map[Verdict]float64{}
	for v, share := range found {
		p[Verdict(v)] = share
	}
	return p
}

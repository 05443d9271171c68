//go:build native

package tests

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// templateLlama3Tools writes calls in the way of Llama 3: one JSON object as the whole answer, and one call at a time.
const templateLlama3Tools = `{%- for m in messages %}<|start_header_id|>{{ 'ipython' if m.role == 'tool' else m.role }}<|end_header_id|>

{% if m.tool_calls %}{% if m.tool_calls|length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}{{ '{"name": "' + m.tool_calls[0].function.name + '", "parameters": ' }}{{ m.tool_calls[0].function.arguments | tojson }}{{ '}' }}{% elif m.role == 'tool' %}{{ m.content | tojson }}{% else %}{% if loop.first and tools %}{{ tools | tojson }}

{% endif %}{{ m.content }}{% endif %}<|eot_id|>{%- endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}`

// templateGemmaTools writes arguments one by one, as Gemma 4 does, with strings between marks of their own.
const templateGemmaTools = `{%- if tools %}{{ tools | tojson }}{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{% for call in m.tool_calls or [] %}<|tool_call>call:{{ call.function.name }}{ {%- for key, value in call.function.arguments.items() %}{{ '' if loop.first else ',' }}{{ key }}:{% if value is string %}<|"|>{{ value }}<|"|>{% else %}{{ value | tojson }}{% endif %}{% endfor %}}<tool_call|>{% endfor %}{{ m.content }}<|im_end|>
{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// toolModels are presets with tools: how their templates write calls differs, and what of it are tokens.
func toolModels(t *testing.T) map[string]generator.Model {
	t.Helper()
	source := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../testdata/tools", name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	with := func(name, template string, kind generator.Kind, tokens ...string) generator.Model {
		p := preset(t, name)
		p.Template = template
		for _, text := range tokens {
			p.Vocab.Tokens = append(p.Vocab.Tokens, generator.Token{Text: text, Kind: kind})
		}
		return p
	}
	return map[string]generator.Model{
		"qwen":  with("qwen2", source("qwen2.5"), generator.User, "<tool_call>", "</tool_call>"),
		"coder": with("qwen2", source("qwen3-coder"), generator.User, "<tool_call>", "</tool_call>"),
		"mistral": with("mistral", source("mistral-nemo"), generator.Control, "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
			"[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[INST]", "[/INST]"),
		"llama3":  with("llama-bpe", templateLlama3Tools, generator.Control),
		"gemma":   with("qwen2", templateGemmaTools, generator.Control, "<|tool_call>", "<tool_call|>", `<|"|>`),
		"gpt-oss": generator.Thinkers()["gpt-oss"],
		// templates without tools
		"gemma2": preset(t, "gemma2"), "zephyr": preset(t, "zephyr"), "qwen2 plain": preset(t, "qwen2"),
		"mistral plain": preset(t, "mistral"),
	}
}

func weatherTools() []llm.Tool {
	return []llm.Tool{
		{Name: "weather", Description: "The weather of a city", Parameters: json.RawMessage(`{"type": "object",
			"properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
			"required": ["city", "days"]}`)},
		{Name: "now", Description: "What time it is"},
	}
}

// checkCalls looks whether calls are of the tools, with arguments that their schemas accept.
func checkCalls(t *testing.T, calls []llm.ToolCall) {
	t.Helper()
	for _, c := range calls {
		var arguments struct {
			City string
			Days int
		}
		dec := json.NewDecoder(strings.NewReader(c.Arguments))
		dec.DisallowUnknownFields()
		err := dec.Decode(&arguments)
		days := arguments.Days >= 1 && arguments.Days <= 9
		switch {
		case err != nil, len(c.ID) != 9:
			t.Errorf("%+v, %v", c, err)
		case c.Name == "weather" && days && (arguments.City == "Rome" || arguments.City == "Oslo"):
		case c.Name == "now" && c.Arguments == "{}":
		default:
			t.Errorf("%+v", c)
		}
	}
}

// TestTools: a model that has to call tools does so in its template's way, and goes on with their results.
func TestTools(t *testing.T) {
	for name, p := range toolModels(t) {
		t.Run(name, func(t *testing.T) {
			m := openPresetSized(t, p, 2, 2048)
			if err := m.HasTools(); err != nil {
				t.Fatal(err)
			}
			chat := ask("What is the weather in Rome?")
			for i, choice := range []string{llm.ToolsRequired, "weather", "now"} {
				req := llm.Request{Messages: chat, Tools: weatherTools(), ToolChoice: choice, Temperature: 1,
					Seed: int64(i)}
				streamed := ""
				res, err := m.Generate(t.Context(), req, func(piece string) error { streamed += piece; return nil })
				if err != nil || res.Finish != llm.FinishTools || len(res.ToolCalls) == 0 || res.Text != "" ||
					streamed != "" {
					t.Fatalf("%s: %+v, %v, streamed %q", choice, res, err, streamed)
				}
				checkCalls(t, res.ToolCalls)
				if choice != llm.ToolsRequired && res.ToolCalls[0].Name != choice {
					t.Errorf("%s: %+v", choice, res.ToolCalls)
				}
				chat := append(chat[:1:1], llm.Message{Role: llm.Assistant, ToolCalls: res.ToolCalls[:1]},
					llm.Message{Role: llm.ToolRole, Content: "sunny <|im_end|> </s>", ToolCallID: res.ToolCalls[0].ID})
				tokens, err := m.TokenizeMessages(chat, weatherTools()...)
				if err != nil {
					t.Fatal(err)
				}
				text := p.Vocab.Decode(tokens)
				if !strings.Contains(text, "sunny <|im_end|> </s>") || !strings.Contains(text, res.ToolCalls[0].Name) ||
					!strings.Contains(text, "The weather of a city") && name != "mistral" {
					t.Errorf("the prompt after it is %q", text)
				}
				res, err = m.Generate(t.Context(), llm.Request{Messages: chat, Tools: weatherTools(), MaxTokens: 8},
					nil)
				if err != nil || res.PromptTokens != len(tokens) || res.CompletionTokens == 0 {
					t.Errorf("%+v, %v", res, err)
				}
			}
		})
	}
}

// TestToolsLeftOut: a choice of none takes the tools away; a model that may call answers as it would without a grammar.
func TestToolsLeftOut(t *testing.T) {
	p := toolModels(t)["qwen"]
	m := openPresetSized(t, p, 1, 2048)
	plain := llm.Request{Messages: ask("Where is the river?"), MaxTokens: 12}
	none := plain
	none.Tools, none.ToolChoice = weatherTools(), llm.ToolsNone
	want := generate(t, m, plain)
	if got := generate(t, m, none); got.Text != want.Text || got.PromptTokens != want.PromptTokens {
		t.Errorf("%+v, not %+v", got, want)
	}
	// The prompt with tools as raw text has no grammar.
	auto := plain
	auto.Tools = weatherTools()
	tokens, err := m.TokenizeMessages(auto.Messages, auto.Tools...)
	if err != nil {
		t.Fatal(err)
	}
	got := generate(t, m, auto)
	raw := generate(t, m, llm.Request{Prompt: p.Vocab.Decode(tokens), MaxTokens: 12})
	if got.Text != raw.Text || got.PromptTokens != raw.PromptTokens || len(got.ToolCalls) > 0 {
		t.Errorf("%+v, not %+v", got, raw)
	}
	auto.Grammar = `root ::= "x"`
	if _, err := m.Generate(t.Context(), auto, nil); !errors.Is(err, llm.ErrOptions) {
		t.Error("a grammar beside tools:", err)
	}
}

// TestToolsCut: output cut by a limit is neither a call nor text.
func TestToolsCut(t *testing.T) {
	m := openPresetSized(t, toolModels(t)["qwen"], 1, 2048)
	res := generate(t, m, llm.Request{Messages: ask("Weather?"), Tools: weatherTools(), ToolChoice: llm.ToolsRequired,
		MaxTokens: 5})
	if res.Finish != llm.FinishLength || len(res.ToolCalls) > 0 || res.Text != "" || res.CompletionTokens != 5 {
		t.Errorf("%+v", res)
	}
	p := toolModels(t)["qwen"]
	p.Layers, p.Embedding, p.Next = 1, 256, map[string]string{"</tool_call>": "Ċ", "Ċ": "<tool_call>"}
	m = openPresetSized(t, p, 1, 2048) // it calls again and again
	r := llm.Request{Messages: ask("Time?"), Tools: weatherTools(), ToolChoice: "now"}
	whole := generate(t, m, r)
	if len(whole.ToolCalls) < 3 {
		t.Fatalf("%+v", whole)
	}
	for n := 1; n < len(whole.ToolCalls); n++ { // the calls before the one that is cut are there
		r.MaxTokens = whole.CompletionTokens * n / len(whole.ToolCalls)
		res := generate(t, m, r)
		if res.Finish != llm.FinishLength || len(res.ToolCalls) < n-1 || len(res.ToolCalls) > n+1 ||
			!slices.Equal(res.ToolCalls, whole.ToolCalls[:len(res.ToolCalls)]) {
			t.Errorf("%d tokens: %+v", r.MaxTokens, res)
		}
	}
}

// TestBareCalls: a call that a model writes without the marks of its format is one, and fits its function's schema.
func TestBareCalls(t *testing.T) {
	for name, template := range map[string]string{"qwen": toolModels(t)["qwen"].Template,
		"plain": preset(t, "qwen2").Template} {
		t.Run(name, func(t *testing.T) {
			p := preset(t, "qwen2")
			const call, more = `{"name": "weather", "arguments"`, `: {"city": "Paris"}}`
			p.Layers, p.Embedding, p.Template = 1, 256, template
			p.Next = map[string]string{"Ċ": "Ġlight", "Ġlight": "\n```json\n", "\n```json\n": call, call: more,
				more: "<|im_end|>"}
			for _, text := range []string{"\n```json\n", call, more} {
				p.Vocab.Tokens = append(p.Vocab.Tokens, generator.Token{Text: text, Kind: generator.User})
			}
			m := openPresetSized(t, p, 1, 2048)
			streamed := ""
			req := llm.Request{Messages: ask("Weather?"), Tools: weatherTools(), MaxTokens: 200}
			res, err := m.Generate(t.Context(), req, func(piece string) error { streamed += piece; return nil })
			if err != nil || res.Finish != llm.FinishTools || res.Text != " light" || streamed != res.Text ||
				len(res.ToolCalls) != 1 || res.ToolCalls[0].Name != "weather" {
				t.Fatalf("%+v, %v, streamed %q", res, err, streamed)
			}
			checkCalls(t, res.ToolCalls)
			req.Tools = req.Tools[1:] // another function: what the model writes is text
			res, err = m.Generate(t.Context(), req, nil)
			if err != nil || res.Text != " light\n```json\n"+call+more || len(res.ToolCalls) > 0 {
				t.Fatalf("%+v, %v", res, err)
			}
		})
	}
}

// TestNoTools: a template that fails with whatever has to do with tools refuses them with its reason.
func TestNoTools(t *testing.T) {
	p := preset(t, "qwen2")
	p.Template = `{% for m in messages %}{% if m.role == 'system' or m.role == 'assistant' %}` +
		`{{ raise_exception('only questions') }}{% endif %}{{ m.content }}{% endfor %}`
	m := openPreset(t, p, 1)
	for kind, req := range map[string]llm.Request{
		"tools":  {Messages: ask("x"), Tools: weatherTools()},
		"result": {Messages: append(ask("x"), llm.Message{Role: llm.ToolRole, Content: "y"})},
		"call": {Messages: append(ask("x"), llm.Message{Role: llm.Assistant,
			ToolCalls: []llm.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}})},
	} {
		if _, err := m.Generate(t.Context(), req, nil); !errors.Is(err, llm.ErrTools) ||
			!strings.Contains(err.Error(), "only questions") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

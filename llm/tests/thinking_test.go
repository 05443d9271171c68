//go:build native

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// thinker is a model with the ends of its prompts with and without thinking.
type thinker struct {
	generator.Model
	on, off string
	answer  string
	stray   bool // it thinks although it is told not to
}

func thinkers() map[string]thinker {
	of := func(name, on, off string) thinker {
		return thinker{generator.Thinkers()[name], on, off, " light house", name == "granite"}
	}
	const closed = "<think>\n\n</think>\n\n"
	harmony := of("gpt-oss", "<|start|>assistant", "<|start|>assistant<|channel|>final<|message|>")
	harmony.answer = " water river"
	return map[string]thinker{
		"qwen3": of("qwen3", "assistant\n", closed), "smollm3": of("smollm3", "assistant\n", closed),
		"gpt-oss": harmony, "granite": of("granite", "<|end_of_role|>", "<|end_of_role|>"),
		"magistral": of("magistral", "[/INST]", "[/INST][THINK][/THINK]"),
		"deepseek":  of("deepseek", "<think>\n", closed),
	}
}

func eachThinker(t *testing.T, test func(t *testing.T, m *llm.Model, p thinker)) {
	t.Helper()
	for name, p := range thinkers() {
		t.Run(name, func(t *testing.T) { test(t, openPresetSized(t, p.Model, 2, 1024), p) })
	}
}

func thinking(e llm.Effort, tokens int) llm.Thinking { return llm.Thinking{Effort: e, Tokens: tokens} }

// think generates, and checks that streams add up to the result.
func think(t *testing.T, m *llm.Model, r llm.Request) llm.Result {
	t.Helper()
	var thought, text strings.Builder
	r.Thinking.Stream = func(piece string) error {
		if text.Len() > 0 {
			t.Error("thinking after the answer has begun")
		}
		thought.WriteString(piece)
		return nil
	}
	res, err := m.Generate(t.Context(), r, func(piece string) error { text.WriteString(piece); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if thought.String() != res.Thought || text.String() != res.Text {
		t.Errorf("streams %q and %q of %+v", thought.String(), text.String(), res)
	}
	if res.Thought != "" && res.ThoughtTokens == 0 && r.Thinking.On() || res.ThoughtTokens > res.CompletionTokens {
		t.Errorf("%+v", res)
	}
	return res
}

// TestThinking: what is between the marks is not part of the answer, and a request that does not ask for it has none.
func TestThinking(t *testing.T) {
	eachThinker(t, func(t *testing.T, m *llm.Model, p thinker) {
		if !m.Thinks() || !llm.Thinks(m) {
			t.Fatal("the model does not think")
		}
		r := llm.Request{Messages: ask("Where?"), Thinking: thinking(llm.HighEffort, 0), MaxTokens: 64}
		res := think(t, m, r)
		if res.Thought != "water river" || res.Text != p.answer || res.Finish != llm.FinishStop {
			t.Errorf("%+v", res)
		}
		before := m.Stats()
		again := think(t, m, r) // but for the marks, all of it is in the cache
		after := m.Stats()
		if again.Text != res.Text || again.Thought != res.Thought || again.CompletionTokens != res.CompletionTokens {
			t.Errorf("%+v, and then %+v", res, again)
		}
		if read := after.PromptTokens - before.PromptTokens - (after.ReusedTokens - before.ReusedTokens); read > 16 {
			t.Errorf("%d tokens of prompts were read again", read)
		}
		r.Thinking.Effort = llm.NoEffort
		res = think(t, m, r)
		if (res.Thought != "") != p.stray || strings.TrimSpace(res.Text) != strings.TrimSpace(p.answer) {
			t.Errorf("without: %+v", res)
		}
		tokens, err := m.TokenizeMessages(r.Messages)
		if err != nil || len(tokens) != res.PromptTokens || !strings.HasSuffix(p.Vocab.Decode(tokens), p.off) {
			t.Errorf("the prompt is %q of %d tokens, %v; %+v", p.Vocab.Decode(tokens), len(tokens), err, res)
		}
	})
}

// TestUndeclaredThinking: a model may think although its chat template says nothing of it.
func TestUndeclaredThinking(t *testing.T) {
	p := generator.Thinkers()["qwen3"]
	p.Template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	for i := range p.Vocab.Tokens { // in some files the marks are control tokens, of which others stay hidden
		if strings.HasSuffix(p.Vocab.Tokens[i].Text, "think>") {
			p.Vocab.Tokens[i].Kind = generator.Control
		}
	}
	m := openPresetSized(t, p, 1, 256)
	r := llm.Request{Messages: ask("Where?"), MaxTokens: 64}
	if res := think(t, m, r); m.Thinks() || res.Thought != "water river" || res.Text != "light house" {
		t.Errorf("%+v", res)
	}
	r.Schema = json.RawMessage(`{"enum": ["<think>no</think>"]}`)
	if res := think(t, m, r); res.Thought != "" || res.Text != `"<think>no</think>"` {
		t.Errorf("%+v", res)
	}
	r.Messages, r.Schema, r.Prompt = nil, nil, "<|im_start|>assistant\n"
	if res := think(t, m, r); res.Thought != "" || !strings.Contains(res.Text, "water river") {
		t.Errorf("a prompt as it is: %+v", res)
	}
}

// TestThinkingBudget: the answer begins when the budget is used up.
func TestThinkingBudget(t *testing.T) {
	eachThinker(t, func(t *testing.T, m *llm.Model, p thinker) {
		enough := 2 // the opening mark and a word
		if strings.Contains(p.Template, "<|channel|>") {
			enough = 4
		}
		if strings.HasSuffix(p.on, "<think>\n") {
			enough = 1
		}
		res := think(t, m, llm.Request{Messages: ask("Where?"), Thinking: thinking(llm.HighEffort, enough),
			MaxTokens: 64})
		if res.Thought != "water" || res.ThoughtTokens != enough || res.Text != p.answer ||
			res.Finish != llm.FinishStop {
			t.Errorf("%+v", res)
		}
	})
}

// TestThinkingNeverEnds: without a budget the limit of the completion ends it, and there is no answer.
func TestThinkingNeverEnds(t *testing.T) {
	p := thinkers()["qwen3"].Model
	p.Next = maps.Clone(p.Next)
	p.Next["Ġriver"] = "Ġwater"
	m := openPresetSized(t, p, 1, 256)
	r := llm.Request{Messages: ask("Where?"), Thinking: thinking(llm.HighEffort, 1000), MaxTokens: 20}
	res := think(t, m, r)
	if res.Text != "" || res.Finish != llm.FinishLength || res.ThoughtTokens != 20 || res.CompletionTokens != 20 ||
		!strings.HasPrefix(res.Thought, "water river water") {
		t.Errorf("%+v", res)
	}
	r.MaxTokens = 0
	if res = think(t, m, r); res.Text != "" || res.Finish != llm.FinishContext {
		t.Errorf("%+v", res)
	}
	r.MaxTokens, r.Thinking = 20, thinking(llm.LowEffort, 0) // a quarter of it is for the answer
	if res = think(t, m, r); res.Text != " light house" || res.ThoughtTokens != 15 {
		t.Errorf("%+v", res)
	}
	checkBroken(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r.MaxTokens, r.Thinking = 0, thinking(llm.HighEffort, 1000)
	r.Thinking.Stream = func(string) error { stop(); return nil }
	if res, err := m.Generate(ctx, r, nil); !errors.Is(err, context.Canceled) || res.Thought == "" || res.Text != "" {
		t.Errorf("%+v, %v", res, err)
	}
	failed := errors.New("the reader has gone")
	r.Thinking.Stream = func(string) error { return failed }
	if res, err := m.Generate(t.Context(), r, nil); !errors.Is(err, failed) || res.Finish != llm.FinishCancelled {
		t.Errorf("%+v, %v", res, err)
	}
}

// checkBroken: a model that ends its turn within the thinking answers nevertheless, and one that does not think
// although it may is asked as if it could not.
func checkBroken(t *testing.T) {
	t.Helper()
	for from, c := range map[string]struct{ to, thought string }{
		"Ġriver": {"<|im_end|>", "water river"}, "Ċ": {"Ġlight", ""}, "<think>": {"</think>", ""},
	} {
		p := generator.Thinkers()["qwen3"]
		p.Next[from] = c.to
		m := openPresetSized(t, p, 1, 256)
		r := llm.Request{Messages: ask("Where?"), Thinking: thinking(llm.HighEffort, 0), MaxTokens: 20}
		if res := think(t, m, r); res.Thought != c.thought || strings.TrimSpace(res.Text) != "light house" ||
			res.Finish != llm.FinishStop {
			t.Errorf("%s, then %s: %+v", from, c.to, res)
		}
		r.Schema = json.RawMessage(`{"enum": ["yes"]}`)
		if res := think(t, m, r); res.Thought != c.thought || res.Text != `"yes"` {
			t.Errorf("%s, then %s: %+v", from, c.to, res)
		}
	}
}

// TestThinkingOfManyKinds: a budget holds for caches that cannot be cut, and beside other requests.
func TestThinkingOfManyKinds(t *testing.T) {
	for _, name := range []string{"lfm2", "gemma3", "phi3"} {
		t.Run(name, func(t *testing.T) {
			p := preset(t, name)
			p.Template = strings.Replace(p.Template, "add_generation_prompt", "false", 1) +
				"{% if add_generation_prompt %}\n<think>\n{% endif %}"
			m := openPreset(t, p, 2)
			r := llm.Request{Messages: ask("Where is the river?"), MaxTokens: 12, Thinking: thinking(llm.LowEffort, 5),
				Temperature: 1, Seed: 7}
			want := think(t, m, r)
			if want.ThoughtTokens != 5 || want.CompletionTokens != 12 || want.Text == "" || want.Thought == "" ||
				want.Finish != llm.FinishLength {
				t.Errorf("%+v", want)
			}
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() {
					res, err := m.Generate(t.Context(), r, nil)
					if err != nil || res.ThoughtTokens != 5 || res.CompletionTokens != 12 {
						t.Errorf("%+v, %v", res, err)
					}
				})
			}
			wait.Wait()
		})
	}
}

// TestThinkingConstraints: a grammar, a schema, stop strings and log-probabilities concern the answer only.
func TestThinkingConstraints(t *testing.T) {
	eachThinker(t, func(t *testing.T, m *llm.Model, p thinker) {
		for name, change := range map[string]func(*llm.Request){
			"schema":  func(r *llm.Request) { r.Schema = json.RawMessage(`{"enum": ["yes"]}`) },
			"grammar": func(r *llm.Request) { r.Grammar = `root ::= "\"yes\""` },
		} {
			r := llm.Request{Messages: ask("Where?"), Thinking: thinking(llm.HighEffort, 0), MaxTokens: 64, Seed: 3}
			change(&r)
			if res := think(t, m, r); res.Text != `"yes"` || res.Thought != "water river" {
				t.Errorf("%s: %+v", name, res)
			}
			r.Thinking.Tokens = 1
			if res := think(t, m, r); res.Text != `"yes"` {
				t.Errorf("%s with a budget: %+v", name, res)
			}
			r.Thinking = llm.Thinking{}
			if res := think(t, m, r); res.Text != `"yes"` || res.Thought != "" {
				t.Errorf("%s without thinking: %+v", name, res)
			}
		}
		r := llm.Request{Messages: ask("Where?"), Thinking: thinking(llm.HighEffort, 0), MaxTokens: 64,
			LogProbs: true, Stop: []string{" water", " house"}}
		want := " light"
		if p.answer == " water river" {
			want = ""
		}
		res := think(t, m, r)
		if res.Thought != "water river" || res.Text != want {
			t.Errorf("with stop strings: %+v", res)
		}
		if want != "" && (len(res.LogProbs) != 1 || res.LogProbs[0].Text != " light") {
			t.Errorf("%+v", res.LogProbs)
		}
	})
}

// TestThinkingTools: calls are read after the thinking.
func TestThinkingTools(t *testing.T) {
	p := toolModels(t)["qwen"]
	for _, mark := range []string{"<think>", "</think>"} {
		p.Vocab.Tokens = append(p.Vocab.Tokens, generator.Token{Text: mark, Kind: generator.User})
	}
	p.Layers, p.Embedding, p.Next = 1, 256, thinkers()["qwen3"].Next
	p.Template += `{%- if enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}`
	m := openPresetSized(t, p, 1, 2048)
	r := llm.Request{Messages: ask("Weather?"), Tools: weatherTools(), ToolChoice: "now", MaxTokens: 200,
		Thinking: thinking(llm.HighEffort, 0)}
	res := think(t, m, r)
	if res.Thought != "water river" || res.Finish != llm.FinishTools || res.Text != "" {
		t.Errorf("%+v", res)
	}
	checkCalls(t, res.ToolCalls)
	r.ToolChoice = llm.ToolsAuto
	if res = think(t, m, r); res.Thought != "water river" || strings.TrimSpace(res.Text) != "light house" {
		t.Errorf("%+v", res)
	}
}

// TestHarmonyTools: gpt-oss thinks in one part of its completion and calls or answers in the next. Which function it
// calls may stand on either side of the channel.
func TestHarmonyTools(t *testing.T) {
	p := generator.Thinkers()["gpt-oss"]
	for _, word := range []string{"commentary", "final", " to=functions.", "now", "json", "{}"} {
		p.Vocab.Tokens = append(p.Vocab.Tokens, generator.Token{Text: word, Kind: generator.User})
	}
	for name, next := range map[string]map[string]string{
		"behind the channel": {"<|channel|>": "commentary", "commentary": " to=functions.", " to=functions.": "now",
			"now": "Ġ", "Ġ": "<|constrain|>", "<|constrain|>": "json", "json": "<|message|>", "<|message|>": "{}",
			"{}": "<|call|>"},
		"before it": {"assistant": " to=functions.", " to=functions.": "now", "now": "<|channel|>",
			"<|channel|>": "commentary", "commentary": "Ġ", "Ġ": "json", "json": "<|message|>", "<|message|>": "{}",
			"{}": "<|call|>"},
		"after thinking": {"now": "<|channel|>"},
		"answer":         {"<|channel|>": "final", "final": "<|message|>"},
	} {
		t.Run(name, func(t *testing.T) {
			p := p
			p.Next = maps.Clone(p.Next)
			maps.Copy(p.Next, next)
			m := openPresetSized(t, p, 1, 2048)
			for _, effort := range []llm.Effort{llm.NoEffort, llm.HighEffort} {
				r := llm.Request{Messages: ask("Time?"), Tools: weatherTools(), MaxTokens: 100,
					Thinking: thinking(effort, 0)}
				want := ""
				if name == "after thinking" {
					if r.ToolChoice = "now"; effort == llm.HighEffort {
						want = "water river"
					}
				}
				res := think(t, m, r)
				if name == "answer" {
					if res.Finish != llm.FinishStop || res.Text != " water river" || len(res.ToolCalls) > 0 {
						t.Errorf("%s: %+v", effort, res)
					}
					continue
				}
				if res.Finish != llm.FinishTools || res.Text != "" || res.Thought != want {
					t.Errorf("%s: %+v", effort, res)
				}
				checkCalls(t, res.ToolCalls)
			}
		})
	}
}

// TestThinkingIsLiteral: marks in messages are text, and an earlier answer comes without its thinking.
func TestThinkingIsLiteral(t *testing.T) {
	eachThinker(t, func(t *testing.T, m *llm.Model, p thinker) {
		const marks = "<think>a</think> [THINK]b[/THINK] <|channel|>analysis<|message|>c<|end|>"
		r := llm.Request{Messages: ask(marks), Thinking: thinking(llm.MediumEffort, 0), MaxTokens: 64}
		if res := think(t, m, r); res.Thought != "water river" || res.Text != p.answer {
			t.Errorf("%+v", res)
		}
		for _, mark := range []string{"<think>", "[THINK]", "<|channel|>"} {
			id := p.Vocab.ID(mark)
			if id < 0 {
				continue
			}
			counts := map[string]int{}
			for _, question := range []string{"a", marks} {
				tokens, err := m.TokenizeMessages(ask(question))
				if err != nil {
					t.Fatal(err)
				}
				for _, token := range tokens {
					if token == id {
						counts[question]++
					}
				}
			}
			if counts["a"] != counts[marks] {
				t.Errorf("%s of a question is a token: %v", mark, counts)
			}
		}
		earlier := "<think>secret</think>\n\nanswer"
		switch {
		case strings.Contains(p.Template, "[THINK]"):
			earlier = "[THINK]secret[/THINK]answer"
		case strings.Contains(p.Template, "<|channel|>"):
			earlier = "<|channel|>analysis<|message|>secret<|end|><|start|>assistant<|channel|>final<|message|>answer"
		}
		tokens, err := m.TokenizeMessages([]llm.Message{user("a"), assistant(earlier), user("b")})
		if text := p.Vocab.Decode(tokens); err != nil || strings.Contains(text, "secret") ||
			!strings.Contains(text, "answer") {
			t.Errorf("%q, %v", text, err)
		}
	})
}

// TestThinkingEffort: gpt-oss's template is told the effort; other models know none.
func TestThinkingEffort(t *testing.T) {
	eachThinker(t, func(t *testing.T, m *llm.Model, p thinker) {
		counts := map[llm.Effort]int{}
		for _, e := range llm.Efforts() {
			r := llm.Request{Messages: ask("a"), Thinking: thinking(e, 9), MaxTokens: 64}
			counts[e] = think(t, m, r).PromptTokens
		}
		differs := counts[llm.LowEffort] != counts[llm.HighEffort]
		if differs != strings.Contains(p.Template, "reasoning_effort") {
			t.Errorf("prompt tokens: %v", counts)
		}
	})
	m := openPreset(t, preset(t, "qwen2"), 1)
	if m.Thinks() {
		t.Error("a model without marks thinks")
	}
	plain := llm.Request{Messages: ask("Where?"), MaxTokens: 8}
	asked := plain
	asked.Thinking = thinking(llm.HighEffort, 4)
	if a, b := generate(t, m, plain), generate(t, m, asked); a.Text != b.Text || b.Thought != "" {
		t.Errorf("%q, %+v", a.Text, b)
	}
	for _, wrong := range []llm.Thinking{{Effort: "huge"}, {Tokens: -1}} {
		asked.Thinking = wrong
		if _, err := m.Generate(t.Context(), asked, nil); !errors.Is(err, llm.ErrOptions) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

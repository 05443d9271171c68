//go:build native

package tests

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// What a template sees of a model's tokens, and what is left to the tokenizer.
func TestChatTokensAtTheEnds(t *testing.T) {
	race.Skip(t)
	for name, want := range map[string]string{
		"llama-spm": "|<s>|</s>|Hi|", // its tokenizer begins texts with <s>
		"llama-bpe": "|<|begin_of_text|>|<|eot_id|>|Hi|",
		"qwen2":     "|<|endoftext|>|<|im_end|>|Hi|",
	} {
		p := preset(t, name)
		render := func(template string) (string, error) {
			p.Template = template
			return openPreset(t, p, 1).ApplyTemplate(ask("Hi"))
		}
		got, err := render(`|{{ bos_token }}|{{ eos_token }}|{{ messages[0].content }}|`)
		if err != nil || got != want {
			t.Errorf("%s: %q, not %q, %v", name, got, want, err)
		}
		bos := strings.Split(want, "|H")[0]
		twice, err := render(`{{ bos_token }}{{ messages[0].content }}{{ bos_token }}`)
		want := p.Vocab.BOS + "Hi" + p.Vocab.BOS
		if p.Vocab.AddBOS {
			want = "Hi" + p.Vocab.BOS
		}
		if err != nil || twice != want {
			t.Errorf("%s: %q, not %q, %v (%s)", name, twice, want, err, bos)
		}
	}
}

// A file's template that does not parse does not keep it from opening.
func TestChatTemplateOfFile(t *testing.T) {
	race.Skip(t)
	p := preset(t, "qwen2")
	p.Template = "{{ 1 + }}"
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := generator.Write(path, p); err != nil {
		t.Fatal(err)
	}
	o := llm.Options{ContextSize: 128, Slots: 1, BatchSize: 16, Threads: 1, Logger: slog.New(slog.DiscardHandler)}
	m, err := llm.Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(context.Background(), llm.Request{Messages: ask("Hi"), MaxTokens: 2}, nil)
	if !errors.Is(err, llm.ErrTemplate) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if res := generate(t, m, llm.Request{Prompt: "Hi", MaxTokens: 2}); res.PromptTokens == 0 {
		t.Error("no raw prompt:", res)
	}
	m.Close()
	if _, err := m.ApplyTemplate(ask("Hi")); !errors.Is(err, llm.ErrClosed) {
		t.Error("closed:", err)
	}
	o.ChatTemplate = "{{ 1 + }}"
	if _, err := llm.Open(context.Background(), path, o); !errors.Is(err, llm.ErrTemplate) ||
		!strings.Contains(err.Error(), "Options.ChatTemplate") {
		t.Error("an option that does not parse:", err)
	}
	o.ChatTemplate = "chatml"
	if m, err = llm.Open(context.Background(), path, o); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got, err := m.ApplyTemplate(ask("Hi")); got != "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("%q, %v", got, err)
	}
}

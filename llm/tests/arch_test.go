//go:build native

package tests

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/internal/testmodels/generator"
	"github.com/sluice-rag/sluice/llm"
)

// These tests cover every architecture, tokenizer, chat template and kind of cache that users bring, with models of
// random weights (internal/testmodels/generator). Their output is meaningless but must not depend on how it was
// computed.

// openPreset writes and opens a preset. The context is a multiple of its sliding window; a batch is not.
func openPreset(t *testing.T, m generator.Model, slots int) *llm.Model {
	t.Helper()
	return openPresetSized(t, m, slots, 512)
}

func openPresetSized(t *testing.T, m generator.Model, slots, context int) *llm.Model {
	t.Helper()
	path, err := presetFile(m)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := llm.Open(t.Context(), path,
		llm.Options{ContextSize: context, CacheTokens: 2048, Slots: slots, BatchSize: 40, Threads: testThreads,
			Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	return opened
}

func eachPreset(t *testing.T, test func(t *testing.T, p generator.Model)) {
	t.Helper()
	for _, p := range generator.Presets() {
		t.Run(p.Name, func(t *testing.T) { test(t, p) })
	}
}

func preset(t *testing.T, name string) generator.Model {
	t.Helper()
	p, ok := generator.Preset(name)
	if !ok {
		t.Fatal("no preset", name)
	}
	return p
}

func recurrent(p generator.Model) bool { return p.Arch == "mamba" || p.Arch == "lfm2" }

func TestArchInfo(t *testing.T) {
	race.Skip(t)
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 1)
		info := m.Info()
		if info.Architecture != p.Arch || info.ContextTrained != p.Context || info.ChatTemplate != p.Template ||
			!strings.HasPrefix(info.Description, p.Arch+", ") || len(info.SHA256) != 64 || m.ContextSize() != 512 {
			t.Errorf("%+v", info)
		}
	})
}

// tokenTexts returns the tokens of a text as spelled in the vocabulary, without the beginning-of-sequence token.
func tokenTexts(t *testing.T, m *llm.Model, v generator.Vocab, text string) []string {
	t.Helper()
	ids, err := m.Tokenize(text)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, id := range ids {
		texts = append(texts, v.Tokens[id].Text)
	}
	if v.AddBOS {
		if len(texts) == 0 || texts[0] != v.BOS {
			t.Fatalf("%q does not begin with %s: %q", text, v.BOS, texts)
		}
		texts = texts[1:]
	}
	return texts
}

// TestArchTokens compares with the pieces of sentencepiece 0.2.3 (BPE model, byte fallback) and of Hugging Face's
// tokenizers 0.23.3 (byte-level BPE with each family's published pattern; Llama 3's and LFM2's ignore merges for whole
// words) for the same vocabularies.
func TestArchTokens(t *testing.T) {
	race.Skip(t)
	texts := [3]string{"The capital of 100 countries, 2024: is it's\n\n house?", "  Größe 🜚 naïve\r\n\tthanks <x>!  ",
		"Once upon a time there was a little question"}
	spm := [3]string{
		"▁The|▁capital|▁of|▁|1|0|0|▁countr|i|es|,|▁|2|0|2|4|:|▁is|▁i|t|'|s|<0x0A>|<0x0A>|▁house|?",
		"▁|▁|▁|G|r|<0xC3>|<0xB6>|<0xC3>|<0x9F>|e|▁|<0xF0>|<0x9F>|<0x9C>|<0x9A>|▁na|<0xC3>|<0xAF>|v|e|<0x0D>|<0x0A>|<0x09>|t|h|a|n|k|s|▁|<|x|>|!|▁|▁",
		"▁Once|▁upon|▁a|▁time|▁there|▁was|▁a|▁l|it|t|le|▁question",
	}
	llama3 := [3]string{
		"T|h|e|Ġcapital|Ġof|Ġ|100|Ġc|ou|n|t|r|i|es|,|Ġ|202|4|:|Ġis|Ġi|t|'|s|ĊĊ|Ġhouse|?",
		"Ġ|Ġ|G|r|Ã|¶|Ã|Ł|e|Ġ|ð|Ł|ľ|ļ|Ġna|Ã|¯|v|e|č|Ċ|ĉ|t|h|a|n|k|s|Ġ|<|x|>|!|Ġ|Ġ",
		"O|n|c|e|Ġupon|Ġa|Ġtime|Ġthere|Ġwas|Ġa|Ġl|it|t|le|Ġquestion",
	}
	for name, want := range map[string][3]string{
		"llama-spm": spm, "phi3": spm, "llama-bpe": llama3, "lfm2": llama3,
		"gemma2": {
			"T|h|e|▁capital|▁of|▁|1|0|0|▁countr|i|es|,|▁|2|0|2|4|:|▁is|▁i|t|'|s|\n\n|▁house|?",
			"▁|▁|G|r|<0xC3>|<0xB6>|<0xC3>|<0x9F>|e|▁|<0xF0>|<0x9F>|<0x9C>|<0x9A>|▁na|<0xC3>|<0xAF>|v|e|<0x0D>|\n|<0x09>|t|h|a|n|k|s|▁|<|x|>|!|▁|▁",
			"O|n|c|e|▁upon|▁a|▁time|▁there|▁was|▁a|▁l|it|t|le|▁question",
		},
		"qwen2": {
			"T|h|e|Ġcap|it|al|Ġof|Ġ|1|0|0|Ġc|ou|n|t|r|i|es|,|Ġ|2|0|2|4|:|Ġis|Ġi|t|'|s|ĊĊ|Ġh|ous|e|?",
			llama3[1],
			"O|n|c|e|Ġupon|Ġa|Ġti|me|Ġth|er|e|Ġwas|Ġa|Ġl|it|t|le|Ġqu|es|tion",
		},
		"mamba": {
			"T|h|e|Ġcap|it|al|Ġof|Ġ|100|Ġc|ou|n|t|r|i|es|,|Ġ|2024|:|Ġis|Ġi|t|'|s|ĊĊ|Ġh|ous|e|?",
			llama3[1],
			"O|n|c|e|Ġupon|Ġa|Ġti|me|Ġth|er|e|Ġwas|Ġa|Ġl|it|t|le|Ġqu|es|tion",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := preset(t, name)
			m := openPreset(t, p, 1)
			for i, text := range texts {
				if got := strings.Join(tokenTexts(t, m, p.Vocab, text), "|"); got != want[i] {
					t.Errorf("%q:\n  %q, not\n  %q", text, got, want[i])
				}
			}
		})
	}
}

// TestArchTokensSpellAnything checks that the tokens of any text spell the text.
func TestArchTokensSpellAnything(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(7, 7))
	texts := []string{"", "\x00", " ", "\n\n\n", "a  b", "▁ and Ġ", "日本語 مرحبا 👩‍👩‍👧 \U0010FFFF"}
	for range 40 {
		var s strings.Builder
		for range 1 + rng.IntN(30) {
			s.WriteString(string(rune(rng.IntN([]int{0x80, 0x800, 0xd800, 0x10ffff}[rng.IntN(4)]))))
		}
		texts = append(texts, strings.ToValidUTF8(s.String(), ""))
	}
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 1)
		for _, text := range texts {
			ids, err := m.Tokenize(text)
			if err != nil {
				t.Fatal(err)
			}
			want := text
			if p.Vocab.Model == "llama" {
				want = strings.ReplaceAll(text, "▁", " ") // this kind of vocabulary does not distinguish the two
			}
			if p.Vocab.SpacePrefix && text != "" {
				want = " " + want
			}
			if p.Vocab.AddBOS {
				want = p.Vocab.BOS + want
			}
			if got := p.Vocab.Decode(ids); got != want {
				t.Errorf("%q is %q again", want, got)
			}
			if n, err := m.CountTokens(text); n != len(ids) || err != nil {
				t.Errorf("%q: %d tokens counted, %d there, %v", text, n, len(ids), err)
			}
		}
	})
}

// conversations holds the conversations of the golden prompts below.
var conversations = map[string][]llm.Message{
	"user":   {user("Hi there")},
	"system": {system("Be brief."), user("Hi there")},
	"turns":  {user("Hi there"), assistant("Hello."), user(" Bye\n")},
	"all":    {system("Be brief."), user("Hi there"), assistant("Hello."), user(" Bye\n")},
}

// prompts holds the output of Jinja2 3.1.6 for the presets' templates, as published, with the settings of Hugging
// Face's transformers (trim_blocks, lstrip_blocks), for conversations that the template accepts.
var prompts = map[string]map[string]string{
	"llama-spm": {
		"user":   "<s>[INST] Hi there [/INST]",
		"system": "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi there [/INST]",
		"turns":  "<s>[INST] Hi there [/INST] Hello. </s><s>[INST] Bye [/INST]",
		"all":    "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi there [/INST] Hello. </s><s>[INST] Bye [/INST]",
	},
	"llama-bpe": {
		"user":   "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"system": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
		"all":    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
	},
	"qwen2": {
		"user":   "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
		"system": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
		"all":    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n Bye\n<|im_end|>\n<|im_start|>assistant\n",
	},
	"mistral": {
		"user":  "<s>[INST] Hi there [/INST]",
		"turns": "<s>[INST] Hi there [/INST]Hello.</s>[INST]  Bye\n [/INST]",
	},
	"zephyr": {
		"user":   "<|user|>\nHi there</s>\n<|assistant|>\n",
		"system": "<|system|>\nBe brief.</s>\n<|user|>\nHi there</s>\n<|assistant|>\n",
		"all":    "<|system|>\nBe brief.</s>\n<|user|>\nHi there</s>\n<|assistant|>\nHello.</s>\n<|user|>\n Bye\n</s>\n<|assistant|>\n",
	},
	"gemma2": {
		"user":  "<bos><start_of_turn>user\nHi there<end_of_turn>\n<start_of_turn>model\n",
		"turns": "<bos><start_of_turn>user\nHi there<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
	},
	"gemma3": {
		"user":   "<bos><start_of_turn>user\nHi there<end_of_turn>\n<start_of_turn>model\n",
		"system": "<bos><start_of_turn>user\nBe brief.\n\nHi there<end_of_turn>\n<start_of_turn>model\n",
		"all":    "<bos><start_of_turn>user\nBe brief.\n\nHi there<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
	},
	"phi3": {
		"user":   "<|user|>\nHi there<|end|>\n<|assistant|>\n",
		"system": "<|system|>\nBe brief.<|end|>\n<|user|>\nHi there<|end|>\n<|assistant|>\n",
		"all":    "<|system|>\nBe brief.<|end|>\n<|user|>\nHi there<|end|>\n<|assistant|>\nHello.<|end|>\n<|user|>\n Bye\n<|end|>\n<|assistant|>\n",
	},
	"lfm2": {
		"user": "<|startoftext|><|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n",
		"all":  "<|startoftext|><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\n Bye\n<|im_end|>\n<|im_start|>assistant\n",
	},
}

func TestArchTemplates(t *testing.T) {
	race.Skip(t)
	for name, golden := range prompts {
		p := preset(t, name)
		m := openPreset(t, p, 1)
		for kind, want := range golden {
			t.Run(name+"/"+kind, func(t *testing.T) {
				if p.Vocab.AddBOS {
					want = strings.TrimPrefix(want, p.Vocab.BOS) // the tokenizer adds it
				}
				got, err := m.ApplyTemplate(conversations[kind])
				if err != nil || got != want {
					t.Errorf("%q, not %q, %v", got, want, err)
				}
			})
		}
	}
}

// TestArchTemplateTokens checks that control tokens in a prompt of messages are single tokens, in order, with a single
// beginning-of-sequence token.
func TestArchTemplateTokens(t *testing.T) {
	race.Skip(t)
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 1)
		if p.Template == "" {
			if _, err := m.ApplyTemplate(ask("Hi")); !errors.Is(err, llm.ErrTemplate) {
				t.Error("a model without template:", err)
			}
			return
		}
		text, err := m.ApplyTemplate(conversations["turns"])
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for rest := text; rest != ""; {
			i := slices.IndexFunc(p.Vocab.Tokens, func(k generator.Token) bool {
				return k.Kind == generator.Control && strings.HasPrefix(rest, k.Text)
			})
			if i < 0 {
				rest = rest[1:]
				continue
			}
			want = append(want, p.Vocab.Tokens[i].Text)
			rest = rest[len(p.Vocab.Tokens[i].Text):]
		}
		for _, text := range tokenTexts(t, m, p.Vocab, text) {
			if p.Vocab.Tokens[p.Vocab.ID(text)].Kind == generator.Control {
				got = append(got, text)
			}
		}
		if len(want) == 0 && p.Name != "zephyr" && p.Name != "mistral" || !slices.Equal(got, want) {
			t.Errorf("%q of %q, not %q", got, text, want)
		}
	})
}

// prose returns n words of the presets' vocabularies; the words depend on the seed.
func prose(seed uint64, n int) string {
	words := strings.Fields("the river house night morning mountain city answer question language sentence number people " +
		"world time king queen castle forest garden window letter after before first second would could about there")
	rng := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteString("Once")
	for range n - 1 {
		b.WriteString(" " + words[rng.IntN(len(words))])
	}
	return b.String()
}

func greedy(prompt string, tokens int) llm.Request {
	return llm.Request{Prompt: prompt, MaxTokens: tokens, LogProbs: true, Alternatives: 5}
}

// nearTie is the difference of log-probabilities up to which rounding may decide: batches of different sizes sum in a
// different order, and the cache rounds to 16 bits.
const nearTie = .05

// sameCompletion compares tokens and their log-probabilities up to the first difference, which must be a near-tie.
func sameCompletion(t *testing.T, what string, got, want llm.Result) {
	t.Helper()
	sameWithin(t, nearTie, what, got, want)
}

// tolerance returns nearTie, or a larger value if the model selects experts: a near-tie there sends a token through
// other weights.
func tolerance(p generator.Model) float64 {
	if p.Experts > 0 {
		return 10 * nearTie
	}
	return nearTie
}

func sameWithin(t *testing.T, tolerance float64, what string, got, want llm.Result) {
	t.Helper()
	if len(want.LogProbs) == 0 || len(got.LogProbs) == 0 {
		t.Fatalf("%s: no log-probabilities: %+v, %+v", what, got, want)
	}
	for i := range min(len(got.LogProbs), len(want.LogProbs)) {
		g, w := got.LogProbs[i], want.LogProbs[i]
		if g.Token == w.Token {
			if math.Abs(g.LogProb-w.LogProb) > tolerance {
				t.Errorf("%s: token %d, %q, has log-probability %v, not %v", what, i, g.Text, g.LogProb, w.LogProb)
				return
			}
			continue
		}
		for _, other := range w.Top {
			if other.Token == g.Token && w.LogProb-other.LogProb < tolerance {
				t.Logf("%s: token %d is a near-tie: %v and %v", what, i, w.LogProb, other.LogProb)
				return
			}
		}
		t.Errorf("%s: token %d is %q (%v), not %q (%v)\n  %q, not\n  %q",
			what, i, g.Text, g.LogProb, w.Text, w.LogProb, got.Text, want.Text)
		return
	}
	if len(got.LogProbs) != len(want.LogProbs) || got.Finish != want.Finish || got.Text != want.Text {
		t.Errorf("%s: %q (%s), not %q (%s)", what, got.Text, got.Finish, want.Text, want.Finish)
	}
}

// fresh generates with a newly opened model, whose cache is empty.
func fresh(t *testing.T, p generator.Model, r llm.Request) llm.Result {
	t.Helper()
	res := generate(t, openPreset(t, p, 1), r)
	if res.CachedTokens != 0 {
		t.Fatalf("%d cached tokens in a new model", res.CachedTokens)
	}
	return res
}

func TestArchGenerate(t *testing.T) {
	race.Skip(t)
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 2)
		first := generate(t, m, greedy(prose(1, 90), 24))
		if first.Finish != llm.FinishLength || first.CompletionTokens != 24 || first.PromptTokens < 90 {
			t.Fatalf("%+v", first)
		}
		sameWithin(t, tolerance(p), "again", generate(t, m, greedy(prose(1, 90), 24)), first)
		distinct := map[int32]bool{}
		for _, p := range first.LogProbs {
			distinct[p.Token] = true
		}
		if len(distinct) < 6 {
			t.Errorf("it repeats itself: %q", first.Text)
		}
		// The same end after a different beginning that lies outside of every window.
		other := generate(t, m, greedy("Tell me, river:"+strings.TrimPrefix(prose(1, 90), "Once"), 24))
		if other.Text == first.Text {
			t.Errorf("the beginning of the prompt does not matter: %q", other.Text)
		}
	})
}

// TestArchPrefix checks that a prompt whose beginning is cached gives the same result as one that is read completely.
func TestArchPrefix(t *testing.T) {
	race.Skip(t)
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 3)
		head := prose(2, 80) // longer than every window
		shared, err := m.CountTokens(head)
		if err != nil {
			t.Fatal(err)
		}
		read := generate(t, m, greedy(head, 1)) // leaves only the prompt in the cache
		if read.CachedTokens != 0 || read.PromptTokens != shared {
			t.Fatalf("%+v", read)
		}
		for _, c := range []struct {
			what, prompt string
			reused       int // minimum; a recurrent state cannot be rewound
		}{
			{"goes on", head + " the castle", shared},
			{"goes on in another way", head + " a letter before", shared},
			{"goes on further", head + " the castle garden window " + prose(3, 50), shared},
			{"leaves early", strings.Join(strings.Fields(head)[:40], " ") + " people would answer", 30},
			{"is shorter", strings.Join(strings.Fields(head)[:60], " "), 50},
			{"is another one", prose(4, 70), 0},
			{"comes again", head + " the castle", 50}, // from what the other requests have left
		} {
			got := generate(t, m, greedy(c.prompt, 20))
			sameWithin(t, tolerance(p), c.what, got, fresh(t, p, greedy(c.prompt, 20)))
			if got.CachedTokens < c.reused && !recurrent(p) {
				t.Errorf("%s: %d of %d tokens were in the cache, not %d",
					c.what, got.CachedTokens, got.PromptTokens, c.reused)
			}
		}
	})
}

// TestArchStateIsReused checks that a prompt that continues from the position of a recurrent state reuses it, in a
// slot and in a pin. The state is of use only at that position.
func TestArchStateIsReused(t *testing.T) {
	race.Skip(t)
	for _, name := range []string{"mamba", "lfm2"} {
		t.Run(name, func(t *testing.T) {
			m := openPreset(t, preset(t, name), 1)
			read := generate(t, m, greedy(prose(5, 60), 1))
			res := generate(t, m, greedy(prose(5, 60)+" the castle", 8))
			if res.CachedTokens != read.PromptTokens {
				t.Errorf("%d tokens of the slot's state are used, not %d", res.CachedTokens, read.PromptTokens)
			}
			pin, err := m.PinPrompt(t.Context(), prose(9, 50))
			if err != nil {
				t.Fatal(err)
			}
			defer pin.Release()
			for range 2 {
				if res := generate(t, m, greedy(prose(9, 50)+" the castle", 8)); res.CachedTokens != pin.Tokens {
					t.Errorf("%d of %d pinned tokens are used", res.CachedTokens, pin.Tokens)
				}
			}
		})
	}
}

// TestArchPin checks that pinned content stays, and that a prompt that continues from it gives the same result as one
// that is read completely.
func TestArchPin(t *testing.T) {
	race.Skip(t)
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 1)
		head := prose(9, 60)
		pin, err := m.PinPrompt(t.Context(), head)
		if err != nil {
			t.Fatal(err)
		}
		defer pin.Release()
		for _, prompt := range []string{prose(10, 100), head + " the castle", prose(11, 50), head + " about people"} {
			got := generate(t, m, greedy(prompt, 16))
			sameWithin(t, tolerance(p), prompt[len(prompt)-12:], got, fresh(t, p, greedy(prompt, 16)))
			if strings.HasPrefix(prompt, head) && got.CachedTokens != pin.Tokens && !recurrent(p) {
				t.Errorf("%d of %d pinned tokens are used", got.CachedTokens, pin.Tokens)
			}
		}
	})
}

// TestArchTogether checks that requests decoded together, with prompts and answers mixed, do not affect each other.
func TestArchTogether(t *testing.T) {
	eachPreset(t, func(t *testing.T, p generator.Model) {
		m := openPreset(t, p, 3)
		requests := []llm.Request{greedy(prose(6, 70), 20), greedy(prose(6, 40)+" people", 24),
			greedy(prose(7, 100), 16)}
		want := make([]llm.Result, len(requests))
		for i, r := range requests {
			want[i] = fresh(t, p, r)
		}
		for round := range 2 { // in the second round all prompts are cached
			got, errs := make([]llm.Result, len(requests)), make([]error, len(requests))
			var wg sync.WaitGroup
			for i, r := range requests {
				wg.Go(func() { got[i], errs[i] = m.Generate(context.Background(), r, nil) })
			}
			wg.Wait()
			for i := range requests {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				sameWithin(t, tolerance(p), []string{"cold", "warm"}[round], got[i], want[i])
			}
		}
	})
}

// TestArchLoRA checks that an adapter changes the output, reproducibly.
func TestArchLoRA(t *testing.T) {
	race.Skip(t)
	p := preset(t, "qwen2")
	dir := t.TempDir()
	path, adapter, stranger := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "a.gguf"), filepath.Join(dir, "b.gguf")
	err := errors.Join(generator.Write(path, p), generator.WriteLoRA(adapter, p, 4, 1),
		generator.WriteLoRA(stranger, preset(t, "mamba"), 4, 1))
	if err != nil {
		t.Fatal(err)
	}
	o := llm.Options{ContextSize: 256, Slots: 1, Threads: testThreads, Logger: slog.New(slog.DiscardHandler)}
	answer := func(adapter string) string {
		o.LoRA = adapter
		m, err := llm.Open(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return generate(t, m, llm.Request{Prompt: prose(8, 12), MaxTokens: 8}).Text
	}
	plain, with := answer(""), answer(adapter)
	if plain == with || with == "" {
		t.Errorf("the adapter changes nothing: %q", with)
	}
	if again := answer(adapter); again != with {
		t.Errorf("with the adapter %q, then %q", with, again)
	}
	if again := answer(""); again != plain {
		t.Errorf("without it %q, afterwards %q", plain, again)
	}
	o.LoRA = stranger
	if _, err := llm.Open(t.Context(), path, o); !errors.Is(err, llm.ErrModel) {
		t.Errorf("the adapter of another architecture: %v", err)
	}
}

//go:build native

package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/llm"
)

func TestGenerateAnswers(t *testing.T) {
	m := sharedModel(t)
	res := generate(t, m, llm.Request{Messages: []llm.Message{system("Be brief."),
		user("What is the capital of France?")}, MaxTokens: 40})
	if !strings.Contains(res.Text, "Paris") || res.Finish != llm.FinishStop {
		t.Errorf("%q, %s", res.Text, res.Finish)
	}
	n, err := m.CountTokens(res.Text)
	if err != nil || n != res.CompletionTokens {
		t.Errorf("%d completion tokens; the text has %d (%v)", res.CompletionTokens, n, err)
	}
	if res.PromptTokens < 10 || res.PromptTime <= 0 || res.DecodeTime <= 0 {
		t.Errorf("%+v", res)
	}
}

func TestGenerateStreams(t *testing.T) {
	m := sharedModel(t)
	var pieces []string
	req := llm.Request{Messages: ask("Write one sentence about Zürich, the Café de Flore and 日本 with an emoji 🎉."),
		MaxTokens: 60, Temperature: 1.2, Seed: 5}
	res, err := m.Generate(context.Background(), req, func(p string) error {
		pieces = append(pieces, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(pieces, ""); got != res.Text || len(pieces) < 2 {
		t.Errorf("%d pieces make %q, the text is %q", len(pieces), got, res.Text)
	}
	for _, p := range pieces {
		if p == "" || !utf8.ValidString(p) {
			t.Errorf("piece %q", p)
		}
	}
}

// Selecting the best candidates before llama.cpp's samplers see them changes nothing: a negative frequency penalty that
// is too small to change a logit switches the selection off.
func TestSelectionIsExact(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	for name, req := range map[string]llm.Request{
		"top-k":             {Temperature: 1, TopK: 40, TopP: .95},
		"penalties":         {Temperature: 1.3, TopK: 20, RepeatPenalty: 1.3, PresencePenalty: .1},
		"greedy, penalties": {RepeatPenalty: 1.3},
		"greedy":            {},
	} {
		for seed := range int64(2) {
			req.Prompt, req.Seed, req.MaxTokens = "My favourite things are", seed, 16
			selected := generate(t, m, req)
			req.FrequencyPenalty = -1e-30
			all := generate(t, m, req)
			if req.FrequencyPenalty = 0; selected.Text != all.Text || selected.CompletionTokens < 4 {
				t.Errorf("%s, seed %d: %q of the best, %q of all", name, seed, selected.Text, all.Text)
			}
		}
	}
}

func TestGenerateSeed(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	req := llm.Request{Prompt: "Once upon a time there was", MaxTokens: 24, Temperature: 1, TopK: 40, TopP: .95,
		MinP: .02, Seed: 7}
	a, b := generate(t, m, req), generate(t, m, req)
	if a.Text != b.Text || a.Seed != 7 {
		t.Errorf("the same seed gave %q and %q", a.Text, b.Text)
	}
	req.Seed = 8
	if c := generate(t, m, req); c.Text == a.Text {
		t.Errorf("another seed gave the same %q", c.Text)
	}
	req.Seed = -1
	d := generate(t, m, req)
	req.Seed = d.Seed
	if e := generate(t, m, req); d.Seed < 0 || e.Text != d.Text {
		t.Errorf("the seed reported, %d, gives %q instead of %q", d.Seed, e.Text, d.Text)
	}
}

func TestGenerateLimits(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	req := llm.Request{Prompt: "Once upon a time", MaxTokens: 9}
	nine := generate(t, m, req)
	if nine.CompletionTokens != 9 || nine.Finish != llm.FinishLength {
		t.Errorf("max tokens: %+v", nine)
	}
	// Stop strings within a piece, across pieces, and the earliest of several.
	req.MaxTokens = 40
	long := generate(t, m, req).Text
	for _, stop := range []string{long[20:23], long[15:35], long[40:41]} {
		at := strings.Index(long, stop)
		var streamed strings.Builder
		r := req
		r.Stop = []string{"never comes", stop}
		res, err := m.Generate(context.Background(), r, func(p string) error { streamed.WriteString(p); return nil })
		if err != nil || res.Text != long[:at] || streamed.String() != res.Text || res.Finish != llm.FinishStop {
			t.Errorf("stop %q: got %q (streamed %q), want %q; %s, %v",
				stop, res.Text, streamed.String(), long[:at], res.Finish, err)
		}
	}
}

func TestGenerateContextFull(t *testing.T) {
	race.Skip(t)
	m := openModel(t, llm.Options{ContextSize: 32, Slots: 1})
	res := generate(t, m, llm.Request{Prompt: "Once upon a time"})
	if res.Finish != llm.FinishContext || res.PromptTokens+res.CompletionTokens != 32 {
		t.Errorf("%+v", res)
	}
	_, err := m.Generate(context.Background(), llm.Request{Prompt: strings.Repeat("word ", 50)}, nil)
	var long *llm.PromptTooLongError
	if !errors.As(err, &long) || long.Limit != 31 || long.Tokens < 50 || !errors.Is(err, llm.ErrPromptTooLong) {
		t.Errorf("prompt too long: %v", err)
	}
	// The handle and its slot are free again.
	if res := generate(t, m, llm.Request{Prompt: "Once", MaxTokens: 1}); res.CompletionTokens != 1 {
		t.Errorf("%+v", res)
	}
}

func TestGenerateRepeatPenalty(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	req := llm.Request{Prompt: "na na na na na na na na na na na na na", MaxTokens: 24}
	plain := strings.Count(generate(t, m, req).Text, "na")
	req.RepeatPenalty = 1.6
	if penalised := strings.Count(generate(t, m, req).Text, "na"); penalised >= plain {
		t.Errorf("%d repetitions, %d with a penalty", plain, penalised)
	}
}

func TestGenerateOddPrompts(t *testing.T) {
	race.Skip(t)
	m := sharedModel(t)
	for name, prompt := range map[string]string{
		"empty": "", "NUL": "a\x00b", "only NUL": "\x00", "not UTF-8": "a\xff\xfe", "spaces": "   \n", "emoji": "🎉🎉",
	} {
		res, err := m.Generate(context.Background(), llm.Request{Prompt: prompt, MaxTokens: 3}, nil)
		if err != nil || res.PromptTokens < 1 || !utf8.ValidString(res.Text) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	// A NUL does not end the prompt.
	short, _ := m.CountTokens("a")
	long, _ := m.CountTokens("a\x00 and what follows it")
	res := generate(t, m, llm.Request{Prompt: "a\x00 and what follows it", MaxTokens: 1})
	if long <= short+1 || res.PromptTokens != long {
		t.Errorf("%d tokens before the NUL, %d counted, %d read", short, long, res.PromptTokens)
	}
	if _, err := m.Generate(context.Background(), llm.Request{Temperature: -1}, nil); !errors.Is(err, llm.ErrOptions) {
		t.Error("bad option:", err)
	}
}

// Eight requests at once, each in its own stream.
func TestGenerateConcurrent(t *testing.T) {
	m := sharedModel(t)
	capitals := [][2]string{{"France", "Paris"}, {"Germany", "Berlin"}, {"Italy", "Rome"}, {"Japan", "Tokyo"},
		{"Spain", "Madrid"}, {"Russia", "Moscow"}, {"England", "London"}, {"Greece", "Athens"}}
	before := m.Stats()
	var wg sync.WaitGroup
	for _, c := range capitals {
		wg.Go(func() {
			var streamed strings.Builder
			// Without the template's own system message, with which so small a model knows less.
			req := llm.Request{Prompt: "<|im_start|>user\nWhat is the capital of " + c[0] +
				"?<|im_end|>\n<|im_start|>assistant\n", MaxTokens: 32}
			res, err := m.Generate(context.Background(), req, func(p string) error {
				streamed.WriteString(p)
				return nil
			})
			if err != nil || streamed.String() != res.Text {
				t.Errorf("%s: streamed %q, text %q, %v", c[0], streamed.String(), res.Text, err)
			}
			for _, other := range capitals {
				if strings.Contains(res.Text, other[1]) != (other == c) {
					t.Errorf("%s: %q", c[0], res.Text)
				}
			}
		})
	}
	wg.Wait()
	after := m.Stats()
	if decodes, tokens := after.Decodes-before.Decodes, after.Tokens-before.Tokens; decodes >= tokens {
		t.Errorf("%d decodes for %d tokens: nothing was batched", decodes, tokens)
	}
	if after.Active != 0 || after.Queued != 0 {
		t.Errorf("slots are still in use: %+v", after)
	}
}

// A prefix that an earlier request read is not read again, and changes nothing in the answer.
func TestGeneratePrefixReuse(t *testing.T) {
	race.Skip(t)
	m := openModel(t, llm.Options{Slots: 2, ContextSize: 1024, CacheTokens: 2048})
	common := strings.Repeat("You are a careful assistant who answers in short sentences. ", 12)
	req := func(q string) llm.Request {
		return llm.Request{Messages: []llm.Message{system(common), user(q)}, MaxTokens: 12}
	}
	first := generate(t, m, req("What is the capital of France?"))
	second := generate(t, m, req("What is the capital of Italy?"))
	if first.CachedTokens != 0 || second.CachedTokens < second.PromptTokens*8/10 {
		t.Errorf("cached %d of %d, then %d of %d",
			first.CachedTokens, first.PromptTokens, second.CachedTokens, second.PromptTokens)
	}
	again := generate(t, m, req("What is the capital of France?"))
	if again.Text != first.Text || again.CachedTokens < again.PromptTokens*8/10 {
		t.Errorf("%q, with a cached prefix (%d tokens) %q", first.Text, again.CachedTokens, again.Text)
	}
	if got := m.Stats().ReusedTokens; got != int64(second.CachedTokens+again.CachedTokens) {
		t.Errorf("%d tokens reused in all", got)
	}
}

// More requests than slots and more cells than the cache has: they wait, and all end well.
func TestGenerateQueues(t *testing.T) {
	m := openModel(t, llm.Options{Slots: 2, ContextSize: 64, CacheTokens: 64})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			res, err := m.Generate(context.Background(),
				llm.Request{Prompt: fmt.Sprintf("%d is a number that", i), MaxTokens: 30}, nil)
			if err != nil || res.CompletionTokens == 0 {
				t.Errorf("%d: %+v, %v", i, res, err)
			}
		})
	}
	wg.Wait()
}

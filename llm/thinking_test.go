package llm

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/test/doubling"
)

// split reads a completion in pieces of n bytes, cut at runes.
func split(r *ThinkReader, text string, n int) (thought, answer string) {
	for text != "" {
		size := min(n, len(text))
		for size < len(text) && !utf8.RuneStart(text[size]) {
			size++
		}
		t, a := r.Push(text[:size])
		thought, answer, text = thought+t, answer+a, text[size:]
	}
	t, a := r.Finish()
	return thought + t, answer + a
}

func TestThinkReader(t *testing.T) {
	for _, c := range []struct{ text, thought, answer string }{
		{"", "", ""},
		{" plain\n", "", " plain\n"},
		{"<think>\nHm,  so.\n</think>\n\nYes. \n", "Hm,  so.", "Yes. \n"},
		{"\n <think></think> Yes.", "", "Yes."},
		{"<think>", "", ""},
		{"<think>It never ends </thin", "It never ends </thin", ""},
		{"<think>a</think>\n ", "a", ""},
		{"<think>a</think>b</think>c", "a", "b</think>c"},
		{"<think>a</think></think>\nc", "a", "c"}, // said twice
		{"</think>c", "", "</think>c"},
		{"<think><think>a</think>b</think>c", "<think>a", "b</think>c"},
		{"<think>a</think>\n<think>b</think>c", "a\nb", "c"},
		{"<think>a [/THINK] <|end|> b</think>[THINK]c", "a [/THINK] <|end|> b", "[THINK]c"},
		{"Use <think>x</think> here", "", "Use <think>x</think> here"},
		{"<thinking is hard", "", "<thinking is hard"},
		{"<thi", "", "<thi"},
		{"<think>Größe\u2028</think>É", "Größe", "É"},
		{"[THINK]a[/THINK]b", "a", "b"},
		{"[THIN]", "", "[THIN]"},
		{"<think>a</think>\n<response>b</response>\n", "a", "b\n"},
		{"<think>a</think><answer>\nb\n</answer>", "a", "\nb\n"},
		{"<think>a</think>the <response>b</response>", "a", "the <response>b</response>"},
		{"<response>b</response>", "", "<response>b</response>"},
		{"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|end|>", "a", "b"},
		{"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=f<|message|>{}<|end|>" +
			"<|start|>assistant<|channel|>final<|message|>b", "a\n{}", "b"},
		{"<|channel|>final<|message|>b", "", "b"},
		{"<|start|>assistant<|message|>b", "", "b"},
		{"<|START_THINKING|>a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>", "a", "b"},
		{"<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a", "b"},
		{"<|think|>a<|end|><|begin|>assistant<|content|>b<|end|>", "a", "b"},
		{"Here are my reasoning steps: b", "", "Here are my reasoning steps: b"},
		{"<|channel|>ana", "<|channel|>ana", ""},
		{"<|channel|>" + strings.Repeat("x", 300), "", "<|channel|>" + strings.Repeat("x", 300)},
	} {
		for _, n := range []int{1, 2, 7, 1000} {
			thought, answer := split(NewThinkReader(false), c.text, n)
			if thought != c.thought || answer != c.answer {
				t.Errorf("%q by %d: %q, %q", c.text, n, thought, answer)
			}
		}
	}
	thought, answer := split(NewThinkReader(true), "\na\n</think>\n\nb", 1)
	if thought != "a" || answer != "b" {
		t.Errorf("opened: %q, %q", thought, answer)
	}
	var none *ThinkReader
	if thought, answer = split(none, "<think>a</think>", 3); thought != "" || answer != "<think>a</think>" {
		t.Errorf("none: %q, %q", thought, answer)
	}
}

// thinkBlocks is the form of Qwen3 as a regular expression: an independent reading of whole texts.
var thinkBlocks = regexp.MustCompile(`^\s*<think>(?s:(.*?))(?:</think>\s*(?:</think>\s*)*|$)`)

func FuzzThinkReader(f *testing.F) {
	f.Add("<think>\na\n</think>\n\nb", 1)
	f.Add("<think><think>a</think> <think>b</think></think>c", 3)
	f.Add("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", 5)
	f.Add(" </think><response>\xff", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = max(1, min(n, 64))
		text = strings.ToValidUTF8(text, "?")
		thought, answer := split(NewThinkReader(false), text, len(text)+1)
		if a, b := split(NewThinkReader(false), text, n); a != thought || b != answer {
			t.Fatalf("%q in pieces of %d: %q, %q; whole: %q, %q", text, n, a, b, thought, answer)
		}
		if !strings.Contains(text, "<") && !strings.Contains(text, "[") && (thought != "" || answer != text) {
			t.Fatalf("%q without marks: %q, %q", text, thought, answer)
		}
		if strings.ContainsAny(text, "|\v\u0085\u00a0\u2028") || strings.Contains(text, "response>") ||
			strings.Contains(text, "answer>") || strings.Contains(text, "THINK") || strings.Contains(text, "seed:") {
			return
		}
		var thoughts []string
		rest := text
		for m := thinkBlocks.FindStringSubmatch(rest); m != nil; m = thinkBlocks.FindStringSubmatch(rest) {
			if block := strings.TrimSpace(m[1]); block != "" {
				thoughts = append(thoughts, block)
			}
			rest = rest[len(m[0]):]
		}
		if want := strings.Join(thoughts, "\n"); want != thought || rest != answer {
			t.Fatalf("%q: %q, %q; by the expression %q, %q", text, thought, answer, want, rest)
		}
	})
}

// thinkSteps reads a text in pieces of a byte, and counts the bytes that are looked at again.
func thinkSteps(text string) (steps int) {
	r := NewThinkReader(false)
	for i := range len(text) {
		steps += len(r.held) + 1
		r.Push(text[i : i+1])
	}
	r.Finish()
	return steps
}

func TestThinkReaderIsLinear(t *testing.T) {
	for _, in := range []doubling.Input{
		{Head: "<think>", Unit: "</thin", Second: "\n"}, {Unit: "<think>", Second: "</think>"}, {Unit: " \n"},
		{Unit: "<|channel|>", Second: "<|message|>"}, {Head: "<think>", Unit: " <|end|", Second: "x"},
	} {
		doubling.Linear(t, in, thinkSteps)
	}
}

func TestDoubling(t *testing.T) {
	doubling.Search(t, []string{"<think>", "</think>", "<", "<|channel|>", "final", "<|message|>", "<|end|>", " ", "\n",
		"</thin", "[THINK]", "<response>", "x"}, func(text string) { thinkSteps(text) })
}

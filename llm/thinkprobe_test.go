//go:build native

package llm

import (
	"os"
	"strings"
	"testing"
)

// TestProbeThinking asks templates, most of them written for this test in the ways of families.
func TestProbeThinking(t *testing.T) {
	qwen3, err := os.ReadFile("testdata/chat/qwen3.jinja")
	if err != nil {
		t.Fatal(err)
	}
	const turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
	for name, c := range map[string]struct {
		template       string
		open           string // "": it does not think
		toggle, effort string
		soft, opened   bool
		off            string // end of a prompt without thinking
	}{
		"qwen3":  {string(qwen3), "<think>", "enable_thinking", "", false, false, "<think>\n\n</think>\n\n"},
		"none":   {turns + "<a>", "", "", "", false, false, "<a>"},
		"opened": {turns + "<a><think>\n", "<think>", "", "", false, true, "<a><think>\n\n</think>\n\n"},
		"deepseek v3.1": {turns + "{{ '<think>' if thinking else '</think>' }}", "<think>", "thinking", "", false, true,
			"One?</think>"},
		"history only": {turns + "{# drops what ends with </think> #}<a>", "<think>", "", "", false, false,
			"<a><think>\n\n</think>\n\n"},
		"soft": {turns + "{% if not '/no_think' in messages[0].content %}<think>\n{% else %}<think></think>{% endif %}",
			"<think>", "", "", true, true, "<system>/no_think<user>One?<think></think>"},
		"effort and toggle": {turns + "{{ reasoning_effort }}{% if not enable_thinking %}[THINK][/THINK]{% endif %}",
			"[THINK]", "enable_thinking", "reasoning_effort", false, false, "low[THINK][/THINK]"},
		"gemma 4": {turns + "{% if not enable_thinking %}<|channel>thought\n<channel|>{% endif %}", "<|channel>thought",
			"enable_thinking", "", false, false, "<|channel>thought\n<channel|>"},
		"tool responses": {turns + "<response>{}</response> <think>\n", "<think>", "", "", false, true,
			"<think>\n\n</think>\n\n"},
		"gpt-oss": {turns + "<|channel|>analysis<|message|> {{ reasoning_effort }}<|start|>assistant",
			"<|channel|>", "",
			"reasoning_effort", false, false, "low<|start|>assistant<|channel|>final<|message|>"},
		"cohere": {"<|START_TEXT|>{}<|END_TEXT|>" + turns +
			"<|START_THINKING|>{% if not reasoning %}<|END_THINKING|>{% endif %}",
			"<|START_THINKING|>", "reasoning", "", false, true, "<|START_THINKING|><|END_THINKING|>"},
		"solar": {turns + "{# <|content|> #}{% if reasoning_effort == 'low' %}<|begin|>assistant<|think|><|end|>" +
			"{% endif %}<|begin|>assistant", "<|think|>", "", "reasoning_effort", false, false,
			"One?<|begin|>assistant<|think|><|end|><|begin|>assistant"},
		"apriel": {turns + "{# [BEGIN FINAL RESPONSE] #}<a>\nHere are my reasoning steps:\n",
			"Here are my reasoning steps:", "", "", false, true,
			"<a>\nHere are my reasoning steps:\n\n[BEGIN FINAL RESPONSE]\n"},
		"words":  {turns + "Here are my reasoning steps:", "", "", "", false, false, "reasoning steps:"},
		"raises": {"{{ raise_exception('</think>') }}", "", "", "", false, false, ""},
		"raises for a switch": {turns + "</think>{% if enable_thinking is defined %}{{ raise_exception('no') }}{% endif %}",
			"<think>", "", "", false, false, "</think>"},
	} {
		t.Run(name, func(t *testing.T) {
			render := func(x chat) (string, error) { return renderChat(new(handle), c.template, x, nil) }
			f := probeThinking(c.template, render)
			if f.toggle != c.toggle || f.effort != c.effort || f.soft != c.soft || (f.form == nil) != (c.open == "") {
				t.Fatalf("%+v", f)
			}
			if f.form == nil {
				return
			}
			asked := chat{messages: []Message{{Role: User, Content: "One?"}}}
			on, err := render(f.chat(asked, HighEffort))
			if err != nil || f.form.open != c.open || f.opened(on) != c.opened {
				t.Errorf("%q, %v, form %q", on, err, f.form.open)
			}
			off, err := render(f.chat(asked, NoEffort))
			if off = f.closeOff(off); err != nil || !strings.HasSuffix(off, c.off) {
				t.Errorf("without thinking: %q, %v", off, err)
			}
			if len(asked.messages) != 1 || asked.messages[0].Content != "One?" {
				t.Errorf("the conversation was changed: %+v", asked)
			}
		})
	}
}

package generator

import "maps"

// Chat templates in the forms of families that think; none is a copy of a family's own.
const (
	chatMLTurns = `{%- for m in messages %}{%- if m.role != 'system' %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}{%- endfor %}`

	// Qwen3: a closed block switches thinking off, which is on by default.
	templateThinkQwen = chatMLTurns + `{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}{%- endif %}`

	// SmolLM3: a mode in the system message, too.
	templateThinkSmol = `{%- set on = enable_thinking | default(true) -%}<|im_start|>system
Mode: {{ '/think' if on else '/no_think' }}<|im_end|>
` + chatMLTurns + `{%- if add_generation_prompt %}<|im_start|>assistant
{% if not on %}<think>

</think>

{% endif %}{%- endif %}`

	// gpt-oss: channels and an effort, and calls that have a recipient. It has no switch.
	templateThinkHarmony = `{%- set called = namespace(name='') -%}<|start|>system<|message|>Reasoning: {{ reasoning_effort | default('medium') }}
# Valid channels: analysis, commentary, final.{% if tools %}{{ tools | tojson }}{% endif %}<|end|>{%- for m in messages %}{% if m.tool_calls %}{% set called.name = m.tool_calls[0].function.name %}<|start|>assistant to=functions.{{ called.name }}<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{% elif m.role == 'tool' %}<|start|>functions.{{ called.name }} to=assistant<|channel|>commentary<|message|>{{ m.content | tojson }}<|end|>{% else %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>{% endif %}{%- endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}`

	// Granite: the system message asks for thinking, which is off by default.
	templateThinkGranite = `{%- if thinking %}<|start_of_role|>system<|end_of_role|>Write your thoughts between <think></think> and your response between <response></response>.<|end_of_text|>
{% endif %}{%- for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content }}<|end_of_text|>
{% endfor %}{%- if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}`

	// Magistral: no switch.
	templateThinkMistral = `{%- for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}</s>{% elif m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }} Think between [THINK] and [/THINK].[/SYSTEM_PROMPT]{% else %}[INST]{{ m.content }}[/INST]{% endif %}{%- endfor %}`

	// DeepSeek R1: the prompt opens the thinking.
	templateThinkOpened = chatMLTurns + `{%- if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}`
)

// Thinkers returns a model for each form: it thinks " water river", and answers " light house", but for gpt-oss's,
// which says " water river" in both.
func Thinkers() map[string]Model {
	with := func(template string, next map[string]string, kind Kind, tokens ...string) Model {
		p, _ := Preset("qwen2")
		p.Name, p.Template, p.Layers, p.Embedding, p.Next = "thinker", template, 1, 256, next
		for _, text := range tokens {
			p.Vocab.Tokens = append(p.Vocab.Tokens, Token{Text: text, Kind: kind})
		}
		return p
	}
	chatML := map[string]string{"Ċ": "<think>", "<think>": "Ġwater", "Ġwater": "Ġriver", "Ġriver": "</think>",
		"</think>": "ĊĊ", "ĊĊ": "Ġlight", "Ġlight": "Ġhouse", "Ġhouse": "<|im_end|>"}
	opened := maps.Clone(chatML)
	opened["Ċ"] = "Ġwater"
	harmony := with(templateThinkHarmony, map[string]string{"assistant": "<|channel|>", "<|channel|>": "analysis",
		"analysis": "<|message|>", "<|message|>": "Ġwater", "Ġwater": "Ġriver", "Ġriver": "<|end|>"},
		Control, "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>",
		"<|constrain|>")
	for _, word := range []string{"assistant", "analysis"} { // one token each, as with gpt-oss
		harmony.Vocab.Tokens = append(harmony.Vocab.Tokens, Token{Text: word, Kind: User})
	}
	return map[string]Model{
		"qwen3":   with(templateThinkQwen, chatML, User, "<think>", "</think>"),
		"smollm3": with(templateThinkSmol, chatML, User, "<think>", "</think>"),
		"gpt-oss": harmony,
		"granite": with(templateThinkGranite, map[string]string{"<|end_of_role|>": "<think>", "<think>": "Ġwater",
			"Ġwater": "Ġriver", "Ġriver": "</think>", "</think>": "<response>", "<response>": "Ġlight",
			"Ġlight": "Ġhouse", "Ġhouse": "</response>"}, User, "<think>", "</think>", "<response>",
			"</response>", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"),
		"magistral": with(templateThinkMistral, map[string]string{"[/INST]": "[THINK]", "[THINK]": "Ġwater",
			"Ġwater": "Ġriver", "Ġriver": "[/THINK]", "[/THINK]": "Ġlight", "Ġlight": "Ġhouse",
			"Ġhouse": "<|im_end|>"}, Control, "[THINK]", "[/THINK]", "[INST]", "[/INST]", "[SYSTEM_PROMPT]",
			"[/SYSTEM_PROMPT]", "</s>"),
		"deepseek": with(templateThinkOpened, opened, User, "<think>", "</think>"),
	}
}

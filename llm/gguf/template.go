package gguf

import (
	"slices"
	"strings"
)

// chatTemplate says what the source of a family's templates contains; the first match in the list counts.
type chatTemplate struct {
	name string
	has  []string
}

// chatTemplates follows llm_chat_detect_template of llama.cpp's llama-chat.cpp.
func chatTemplates() []chatTemplate {
	return []chatTemplate{
		{"phi4", []string{"<|im_start|>", "<|im_sep|>"}},
		{"smolvlm", []string{"<|im_start|>", "<end_of_utterance>"}},
		{"chatml", []string{"<|im_start|>"}},
		{"mistral-v7", []string{"[INST]", "[SYSTEM_PROMPT]"}},
		{"mistral-v1", []string{"' [INST] ' + system_message"}},
		{"mistral-v1", []string{" [INST]", "[AVAILABLE_TOOLS]"}},
		{"mistral-v3-tekken", []string{`"[INST]"`, "[AVAILABLE_TOOLS]"}},
		{"mistral-v3", []string{"[INST]", "[AVAILABLE_TOOLS]"}},
		{"llama2-sys-strip", []string{"[INST]", "content.strip()"}},
		{"llama2-sys-bos", []string{"bos_token + '[INST]"}},
		{"llama2-sys", []string{"[INST]", "<<SYS>>"}},
		{"llama2", []string{"[INST]"}},
		{"phi3", []string{"<|assistant|>", "<|end|>"}},
		{"chatglm4", []string{"[gMASK]<sop>"}},
		{"exaone-moe", []string{"<|assistant|>", "<|user|>", "<|tool_declare|>"}},
		{"falcon3", []string{"<|assistant|>", "<|user|>", "</s>"}},
		{"glmedge", []string{"<|assistant|>", "<|user|>"}},
		{"glmedge", []string{"<|{{ item['role'] }}|>", "<|begin_of_image|>"}},
		{"zephyr", []string{"<|user|>", "<|endoftext|>"}},
		{"monarch", []string{"bos_token + message['role']"}},
		{"gemma", []string{"<start_of_turn>"}},
		{"orion", []string{`'\n\nAssistant: ' + eos_token`}},
		{"openchat", []string{"GPT4 Correct "}},
		{"vicuna-orca", []string{"USER: ", "ASSISTANT: ", "SYSTEM: "}},
		{"vicuna", []string{"USER: ", "ASSISTANT: "}},
		{"deepseek", []string{"### Instruction:", "<|EOT|>"}},
		{"command-r", []string{"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"}},
		{"llama3", []string{"<|start_header_id|>", "<|end_header_id|>"}},
		{"chatglm3", []string{"[gMASK]sop"}},
		{"minicpm", []string{"<用户>"}},
		{"deepseek2", []string{"'Assistant: ' + message['content'] + eos_token"}},
		{"deepseek3", []string{"<｜Assistant｜>", "<｜User｜>", "<｜end▁of▁sentence｜>"}},
		{"exaone4", []string{"[|system|]", "[|assistant|]", "[|endofturn|]", "[|tool|]"}},
		{"exaone3", []string{"[|system|]", "[|assistant|]", "[|endofturn|]"}},
		{"rwkv-world", []string{"rwkv-world"}},
		{"rwkv-world", []string{`{{- 'User: ' + message['content']|trim + '\n\n' -}}`}},
		{"granite-4.0", []string{"<|start_of_role|>", "<tool_call>", "g4_default_system_message"}},
		{"granite-4.0", []string{"<|start_of_role|>", "<tools>", "g4_default_system_message"}},
		{"granite-4.1", []string{"<|start_of_role|>", "<tool_call>"}},
		{"granite-4.1", []string{"<|start_of_role|>", "<tools>"}},
		{"granite", []string{"<|start_of_role|>"}},
		{"gigachat", []string{"message['role'] + additional_special_tokens[0] + message['content'] + additional_special_tokens[1]"}},
		{"megrez", []string{"<|role_start|>"}},
		{"yandex", []string{" Ассистент:"}},
		{"bailing", []string{"<role>ASSISTANT</role>", "'HUMAN'"}},
		{"bailing-think", []string{"<role>ASSISTANT</role>", `"HUMAN"`, "<think>"}},
		{"bailing2", []string{"<role>ASSISTANT</role>", "<role>HUMAN</role>", "<|role_end|>"}},
		{"llama4", []string{"<|header_start|>", "<|header_end|>"}},
		{"dots1", []string{"<|endofuserprompt|>"}},
		{"hunyuan-moe", []string{"<|extra_0|>", "<|extra_4|>"}},
		{"gpt-oss", []string{"<|start|>", "<|channel|>"}},
		{"hunyuan-vl", []string{"<｜hy_Assistant｜>", "<｜hy_begin▁of▁sentence｜>"}},
		{"hunyuan-dense", []string{"<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁3｜>"}},
		{"kimi-k2", []string{"<|im_assistant|>assistant<|im_middle|>"}},
		{"seed_oss", []string{"<seed:bos>"}},
		{"grok-2", []string{"'Assistant: '  + message['content'] + '<|separator|>"}},
		{"pangu-embedded", []string{"[unused9]系统：[unused10]"}},
		{"solar-open", []string{"<|begin|>", "<|end|>", "<|content|>"}},
	}
}

// TemplateNames returns the names of the chat templates that llama.cpp has built in.
func TemplateNames() []string {
	var names []string
	for _, t := range chatTemplates() {
		// llama.cpp recognises dots1 and has no name for it
		if t.name != "dots1" && !slices.Contains(names, t.name) {
			names = append(names, t.name)
		}
	}
	return names
}

// TemplateName returns llama.cpp's name of the built-in template that this model's chat template resembles or names; ""
// for other templates, which work all the same, and without a template.
func (m Model) TemplateName() string {
	for _, t := range chatTemplates() {
		if m.ChatTemplate == t.name {
			return t.name
		}
	}
	for _, t := range chatTemplates() {
		lacks := func(part string) bool { return !strings.Contains(m.ChatTemplate, part) }
		if !slices.ContainsFunc(t.has, lacks) {
			return t.name
		}
	}
	return ""
}

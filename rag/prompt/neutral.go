package prompt

import (
	"regexp"
	"strings"
)

// controls are the control tokens of the chat formats that are in use: written out in a text, a
// tokenizer reads them as the tokens themselves, and a passage could end its turn and speak for the system.
// The first two patterns cover ChatML, Llama 3, Phi, Zephyr, Command R, GPT-OSS and DeepSeek; then come
// Llama 2 and Mistral, Gemma, SentencePiece, BERT, and the tokens that SmolLM and StarCoder share.
var controls = regexp.MustCompile(`<\|[^<>|\s]{1,64}\|>` + `|<｜[^<>｜\s]{1,64}｜>` +
	`|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|IMG|ARGS|CALL_ID)\]|<</?SYS>>` +
	`|</?(?:s|start_of_turn|end_of_turn|bos|eos|pad|unk|mask|tool_call|tool_response|think|turn)>|\[(?:CLS|SEP|PAD|UNK|MASK|gMASK|sMASK)\]` +
	`|<(?:repo_name|reponame|file_sep|filename|gh_stars|issue_start|issue_comment|issue_closed|jupyter_start|jupyter_text|jupyter_code|jupyter_output|jupyter_script|empty_output|fim_prefix|fim_middle|fim_suffix|fim_pad)>`)

// readable returns a text that a template can show: without NUL and invalid UTF-8.
func readable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd")
}

// neutralise makes user text harmless: a space behind the first bracket of a control token makes plain
// characters of it, which stay readable; NUL and invalid UTF-8 are replaced. Servers and prompts without a
// chat format need it, not models that take contents literally (Options.Literal).
func neutralise(s string) string {
	return controls.ReplaceAllStringFunc(readable(s), func(token string) string { return token[:1] + " " + token[1:] })
}

package generator

// The chat templates below are taken from the families' tokenizer_config.json files if they are short; of longer ones
// (Gemma 3, LFM2), the part that formats texts without tools and images is used.
const (
	templateLlama2 = `{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' '  + eos_token }}{% endif %}{% endfor %}`

	templateLlama3 = `{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>

'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>

' }}{% endif %}`

	templateQwen2 = `{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful assistant.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`

	templateMistral = `{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}`

	templateZephyr = `{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}`

	templateGemma = `{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}`

	templateGemma3 = `{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '

' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '
' + (first_user_prefix if loop.first else "") }}
    {{- message['content'] | trim }}
    {{- '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model
' }}
{%- endif -%}`

	templatePhi3 = `{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}`

	templateLFM2 = `{{- bos_token -}}{%- for message in messages -%}{{- "<|im_start|>" + message["role"] + "
" + message["content"] + "<|im_end|>
" -}}{%- endfor -%}{%- if add_generation_prompt -%}{{- "<|im_start|>assistant
" -}}{%- endif -%}`
)

// Presets returns a model of each family: its architecture, tokenizer and chat template, and its kind of cache.
func Presets() []Model {
	llama2 := SPM([]string{"<unk>", "<s>", "</s>"}, nil)
	llama2.BOS, llama2.EOS, llama2.UNK = "<s>", "</s>", "<unk>"

	phi := SPM([]string{"<unk>", "<s>", "</s>"}, []string{"<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>",
		"<|user|>"})
	phi.BOS, phi.EOS, phi.UNK, phi.PAD = "<s>", "<|endoftext|>", "<unk>", "<|endoftext|>"

	gemma := SPM([]string{"<pad>", "<eos>", "<bos>", "<unk>"}, []string{"<start_of_turn>", "<end_of_turn>"}, "\n\n")
	gemma.BOS, gemma.EOS, gemma.UNK, gemma.PAD = "<bos>", "<eos>", "<unk>", "<pad>"
	gemma.SpacePrefix = false

	llama3 := BPE("llama-bpe", "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
		"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
	llama3.BOS, llama3.EOS, llama3.AddBOS = "<|begin_of_text|>", "<|eot_id|>", true

	qwen := BPE("qwen2", "<|endoftext|>", "<|im_start|>", "<|im_end|>")
	qwen.BOS, qwen.EOS, qwen.PAD = "<|endoftext|>", "<|im_end|>", "<|endoftext|>"

	neox := BPE("mpt", "<|endoftext|>")
	neox.BOS, neox.EOS = "<|endoftext|>", "<|endoftext|>"

	lfm := BPE("lfm2", "<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>")
	lfm.BOS, lfm.EOS, lfm.PAD, lfm.AddBOS = "<|startoftext|>", "<|im_end|>", "<|pad|>", true

	base := Model{Arch: "llama", Layers: 4, Embedding: 128, Heads: 4, HeadsKV: 2, FF: 256, Context: 2048}
	with := func(name string, v Vocab, template string, change func(*Model)) Model {
		m := base
		m.Name, m.Vocab, m.Template = name, v, template
		change(&m)
		return m
	}
	arch := func(a string) func(*Model) { return func(m *Model) { m.Arch = a } }
	return []Model{
		with("llama-spm", llama2, templateLlama2, arch("llama")),
		with("llama-bpe", llama3, templateLlama3, func(m *Model) { m.Type = "F16" }),
		with("qwen2", qwen, templateQwen2, arch("qwen2")),
		with("mistral", llama2, templateMistral, func(m *Model) { m.Seed = 1 }),
		with("mixtral", llama2, templateMistral, func(m *Model) { m.Experts, m.Used, m.FF = 4, 2, 96 }),
		with("zephyr", llama2, templateZephyr, func(m *Model) { m.Seed = 2 }),
		with("gemma2", gemma, templateGemma, func(m *Model) { m.Arch, m.HeadDim, m.Window = "gemma2", 64, 32 }),
		with("gemma3", gemma, templateGemma3, func(m *Model) {
			m.Arch, m.HeadDim, m.Window = "gemma3", 64, 32
			m.Layers, m.HeadsKV = 6, 1 // five of six layers have the window
		}),
		with("phi3", phi, templatePhi3, func(m *Model) { m.Arch, m.HeadsKV = "phi3", 4 }),
		with("mamba", neox, "", func(m *Model) { m.Arch, m.Heads, m.HeadsKV, m.FF = "mamba", 0, 0, 0 }),
		with("lfm2", lfm, templateLFM2, func(m *Model) { m.Arch, m.Layers, m.AttentionEvery = "lfm2", 6, 3 }),
	}
}

// Preset returns the preset of the given name; ok is false if there is no such preset.
func Preset(name string) (m Model, ok bool) {
	for _, p := range Presets() {
		if p.Name == name {
			return p, true
		}
	}
	return Model{}, false
}

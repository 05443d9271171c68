// Package generator writes small language models of random weights as GGUF files, so that tests can run every
// tokenizer, chat template and kind of cache that llama.cpp has without a download.
//
// A model has the tensors, header and vocabulary that llama.cpp asks of its architecture (src/models/*.cpp there says
// which), about a million parameters, and between 500 and 900 tokens that can spell any text. Its output is nonsense
// that depends on the whole prompt: weights are scaled so that logits have a spread of about 3, attention looks at few
// tokens, and control tokens, or tokens that are not whole runes, are never the most probable ones. The same Model
// gives the same bytes.
package generator

import (
	"errors"
	"fmt"
	"os"
)

// Model describes a model to write. It must be one that llama.cpp opens; nothing here checks it.
type Model struct {
	Name     string
	Arch     string // llama, qwen2, gemma2, gemma3, phi3, mamba or lfm2
	Vocab    Vocab
	Template string // Jinja source of the chat template; empty: none

	Layers, Embedding int
	Heads, HeadsKV    int // of attention
	HeadDim           int // even; 0: Embedding / Heads
	FF                int // width of the feed-forward layers, of each expert if there are experts
	Context           int // tokens
	Window            int // tokens that a layer with sliding-window attention sees
	Experts, Used     int // of each layer, llama only; Used of them per token
	AttentionEvery    int // lfm2: every n-th layer has attention, the others a short convolution

	// Next makes a model that says what a test expects: the token to follow a token, by their texts in the vocabulary.
	// It is the most probable one, whatever comes before. With one layer, and not for gemma2 and gemma3.
	Next map[string]string

	Type string // of matrices: F32 (also if empty), F16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K or IQ4_XS
	Seed uint64
}

func (m Model) headDim() int {
	if m.HeadDim > 0 || m.Heads == 0 {
		return m.HeadDim
	}
	return m.Embedding / m.Heads
}

// Write writes a model file, replacing what is there.
func Write(path string, m Model) error { return create(path, m.file()) }

// WriteSplit writes a model as several files, the tensors dealt out in order, as llama.cpp's gguf-split does. It
// returns the path of the first, which is prefix-00001-of-0000N.gguf.
func WriteSplit(prefix string, m Model, files int) (first string, err error) {
	whole := m.file()
	name := func(part int) string { return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, part+1, files) }
	tensors := whole.tensors
	n := len(tensors)
	for part := range files {
		f := &file{}
		if part == 0 {
			f = whole
		}
		f.u16("split.no", part)
		f.u16("split.count", files)
		f.i32("split.tensors.count", n)
		f.tensors = tensors[part*n/files : (part+1)*n/files]
		if err := create(name(part), f); err != nil {
			return "", err
		}
	}
	return name(0), nil
}

func (m Model) file() *file {
	f := &file{}
	m.header(f)
	m.Vocab.header(f)
	if m.Template != "" {
		f.text("tokenizer.chat_template", m.Template)
	}
	f.tensors = m.plan()
	return f
}

func create(path string, f *file) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("generator: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := f.writeTo(out); err != nil {
		return fmt.Errorf("generator: %s: %w", path, err)
	}
	return nil
}

// header writes the hyperparameters under the names of llama.cpp's src/llama-arch.cpp.
func (m Model) header(f *file) {
	f.text("general.architecture", m.Arch)
	f.text("general.type", "model")
	f.text("general.name", m.Name)
	key := func(name string) string { return m.Arch + "." + name }
	f.u32(key("context_length"), m.Context)
	f.u32(key("embedding_length"), m.Embedding)
	f.u32(key("block_count"), m.Layers)
	f.u32(key("feed_forward_length"), m.FF)
	f.u32(key("vocab_size"), len(m.Vocab.Tokens))
	f.f32(key("attention.layer_norm_rms_epsilon"), 1e-6)
	if m.Arch == "mamba" {
		f.u32(key("attention.head_count"), 0)
		f.u32(key("ssm.conv_kernel"), mambaConv)
		f.u32(key("ssm.inner_size"), 2*m.Embedding)
		f.u32(key("ssm.state_size"), mambaState)
		f.u32(key("ssm.time_step_rank"), m.Embedding/16)
		return
	}
	f.u32(key("attention.head_count"), m.Heads)
	f.u32(key("rope.dimension_count"), m.headDim())
	f.f32(key("rope.freq_base"), 10000)
	if m.Arch == "lfm2" {
		f.u32(key("shortconv.l_cache"), lfm2Conv)
		heads := make([]int32, m.Layers)
		for i := range heads {
			if m.hasAttention(i) {
				heads[i] = int32(m.HeadsKV)
			}
		}
		f.i32s(key("attention.head_count_kv"), heads)
		return
	}
	f.u32(key("attention.head_count_kv"), m.HeadsKV)
	if m.Experts > 0 {
		f.u32(key("expert_count"), m.Experts)
		f.u32(key("expert_used_count"), m.Used)
	}
	switch m.Arch {
	case "gemma2":
		f.f32(key("attn_logit_softcapping"), 50)
		f.f32(key("final_logit_softcapping"), 30)
		fallthrough
	case "gemma3":
		f.u32(key("attention.key_length"), m.headDim())
		f.u32(key("attention.value_length"), m.headDim())
		f.u32(key("attention.sliding_window"), m.Window)
	}
}

// hasAttention reports whether a layer of a hybrid model has attention.
func (m Model) hasAttention(layer int) bool {
	return m.Arch != "mamba" && (m.Arch != "lfm2" || (layer+1)%m.AttentionEvery == 0)
}

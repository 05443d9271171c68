package generator

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/safetensors"
)

// bertNames are llama.cpp's names of a BERT checkpoint's tensors, without .weight and .bias. Those of layers follow
// encoder.layer.N. and blk.N.
var bertNames = map[string]string{
	"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
	"embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
	"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
	"attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
	"intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}

// ConvertBERT writes the BERT encoder of a Hugging Face folder (config.json, tokenizer.json with WordPiece,
// model.safetensors in float32) as a GGUF file of the same weights. pooling is GGUF's number, 0 leaves it out.
func ConvertBERT(path, dir string, pooling int) error {
	var c struct {
		Hidden    int     `json:"hidden_size"`
		Layers    int     `json:"num_hidden_layers"`
		Heads     int     `json:"num_attention_heads"`
		FF        int     `json:"intermediate_size"`
		Positions int     `json:"max_position_embeddings"`
		Epsilon   float32 `json:"layer_norm_eps"`
	}
	if err := readJSON(filepath.Join(dir, "config.json"), &c); err != nil {
		return err
	}
	f := &file{}
	f.text("general.architecture", "bert")
	f.text("general.type", "model")
	f.text("general.name", filepath.Base(dir))
	f.u32("bert.context_length", c.Positions)
	f.u32("bert.embedding_length", c.Hidden)
	f.u32("bert.block_count", c.Layers)
	f.u32("bert.feed_forward_length", c.FF)
	f.u32("bert.attention.head_count", c.Heads)
	f.f32("bert.attention.layer_norm_epsilon", c.Epsilon)
	f.flag("bert.attention.causal", false)
	if pooling != 0 {
		f.u32("bert.pooling_type", pooling)
	}
	if err := f.wordPiece(filepath.Join(dir, "tokenizer.json")); err != nil {
		return err
	}
	var err error
	if f.tensors, err = bertTensors(filepath.Join(dir, "model.safetensors")); err != nil {
		return err
	}
	return create(path, f)
}

func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		return fmt.Errorf("generator: %s: %w", path, err)
	}
	return nil
}

// wordPiece writes a vocabulary as llama.cpp has it: the beginnings of words are marked instead of their further parts.
func (f *file) wordPiece(path string) error {
	var t struct {
		Model struct{ Vocab map[string]int }
	}
	if err := readJSON(path, &t); err != nil {
		return err
	}
	tokens, kinds := make([]string, len(t.Model.Vocab)), make([]int32, len(t.Model.Vocab))
	for s, id := range t.Model.Vocab {
		part, further := strings.CutPrefix(s, "##")
		switch {
		case len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']':
			tokens[id], kinds[id] = s, 3 // control
		case further:
			tokens[id], kinds[id] = part, 1
		default:
			tokens[id], kinds[id] = "\u2581"+s, 1
		}
	}
	f.text("tokenizer.ggml.model", "bert")
	f.u32("tokenizer.ggml.token_type_count", 2)
	f.texts("tokenizer.ggml.tokens", tokens)
	f.i32s("tokenizer.ggml.token_type", kinds)
	for key, token := range map[string]string{"bos": "[CLS]", "eos": "[SEP]", "seperator": "[SEP]", // as GGUF spells it
		"unknown": "[UNK]", "padding": "[PAD]", "mask": "[MASK]", "cls": "[CLS]"} {
		f.u32("tokenizer.ggml."+key+"_token_id", t.Model.Vocab[token])
	}
	return nil
}

// bertTensors reads the tensors that llama.cpp takes, sorted by name.
func bertTensors(path string) (list []tensor, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := safetensors.ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	for name, t := range all {
		name = strings.TrimPrefix(name, "bert.")
		layer := ""
		if rest, ok := strings.CutPrefix(name, "encoder.layer."); ok {
			var number string
			number, name, _ = strings.Cut(rest, ".")
			layer = "blk." + number + "."
		}
		dot := max(strings.LastIndexByte(name, '.'), 0)
		to, ok := bertNames[name[:dot]]
		if !ok {
			continue // the pooler's
		}
		data := raw[t.Offset : t.Offset+t.Length]
		dims := make([]int, len(t.Shape))
		for i, n := range t.Shape {
			dims[len(dims)-1-i] = int(n)
		}
		list = append(list, tensor{layer + to + name[dot:], dims, float32s(), func(yield func(float32)) {
			for i := 0; i < len(data); i += 4 {
				yield(math.Float32frombits(binary.LittleEndian.Uint32(data[i:])))
			}
		}})
	}
	slices.SortFunc(list, func(a, b tensor) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

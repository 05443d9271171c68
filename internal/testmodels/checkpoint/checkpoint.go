// Package checkpoint writes small random checkpoints of every supported family for tests: config.json,
// model.safetensors, tokenizer.json and model.yaml. Its tensor names are written down here once more,
// independent of package onnx.
package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Spec describes a checkpoint. The zero value of a field takes the default in brackets.
type Spec struct {
	Family    string // model_type
	Prefixed  bool   // tensors carry the family's prefix
	DType     string // F32 (F32), F16, BF16
	Hidden    int    // (32)
	Heads     int    // (4)
	Layers    int    // (2)
	Positions int    // (80)
	Act       string // (gelu)
	Old       bool   // LayerNorm.gamma and .beta
	Labels    []string
	Kind      string // model.yaml's (encoder; classifier with Labels)
	Unnamed   bool   // config.json has no id2label
	Problem   string // config.json's problem_type
	Bare      bool   // as published by Hugging Face for BERT: vocab.txt and tokenizer_config.json, no model.yaml
	Deberta   Deberta
	Pooling   string // (mean)
	Normalise bool
	MaxTokens int // model.yaml's; 0 = not given
}

// Shifted reports whether the family's positions start after pad_token_id.
func (s Spec) Shifted() bool {
	return slices.Contains([]string{"roberta", "xlm-roberta", "camembert", "mpnet"}, s.Family)
}

// Write puts the checkpoint into dir.
func Write(dir string, s Spec) error {
	s.Hidden, s.Heads, s.Layers = cmp.Or(s.Hidden, 32), cmp.Or(s.Heads, 4), cmp.Or(s.Layers, 2)
	s.Positions = cmp.Or(s.Positions, 80)
	s.DType, s.Act, s.Pooling = cmp.Or(s.DType, "F32"), cmp.Or(s.Act, "gelu"), cmp.Or(s.Pooling, "mean")
	if s.Deberta.Kinds == nil {
		s.Deberta.Kinds = []string{"p2c", "c2p"}
	}
	s.Deberta.Buckets = cmp.Or(s.Deberta.Buckets, 16)
	vocabulary := s.vocabulary()
	files := map[string]any{"config.json": s.config(len(vocabulary)), "tokenizer.json": s.tokenizer(vocabulary)}
	if s.Bare {
		delete(files, "tokenizer.json")
		files["tokenizer_config.json"] = map[string]any{"do_lower_case": true, "model_max_length": s.Positions}
	}
	for name, v := range files {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return err
		}
	}
	if err := s.writeSettings(dir, vocabulary); err != nil {
		return err
	}
	raw, err := Safetensors(s.tensors(len(vocabulary)), s.DType)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "model.safetensors"), raw, 0o644)
}

// writeSettings writes model.yaml, or the vocabulary of a bare folder.
func (s Spec) writeSettings(dir string, vocabulary []string) error {
	if s.Bare {
		return os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(strings.Join(vocabulary, "\n")+"\n"), 0o644)
	}
	kind := cmp.Or(s.Kind, "encoder")
	if s.Kind == "" && len(s.Labels) > 0 {
		kind = "classifier"
	}
	settings := fmt.Sprintf("name: random-%s\nkind: %s\npooling: %s\nnormalise: %t\nmax_tokens: %d\n", s.Family, kind,
		s.Pooling, s.Normalise, s.MaxTokens)
	if kind != "token-classifier" && kind != "reader" {
		settings += "query_prefix: \"ask: \"\n"
	}
	return os.WriteFile(filepath.Join(dir, "model.yaml"), []byte(settings), 0o644)
}

func (s Spec) architectures() []string {
	name := map[string]string{"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta", "mpnet": "MPNet",
		"xlm-roberta": "XLMRoberta", "camembert": "Camembert", "deberta-v2": "DebertaV2"}[s.Family]
	switch {
	case s.Kind == "reader":
		return []string{name + "ForQuestionAnswering"}
	case s.Kind == "token-classifier":
		return []string{name + "ForTokenClassification"}
	case len(s.Labels) > 0:
		return []string{name + "ForSequenceClassification"}
	}
	return []string{name + "Model"}
}

func (s Spec) config(vocab int) map[string]any {
	c := map[string]any{"model_type": s.Family, "vocab_size": vocab, "max_position_embeddings": s.Positions,
		"pad_token_id": 0, "architectures": s.architectures()}
	if s.Family == "distilbert" {
		maps.Copy(c,
			map[string]any{"dim": s.Hidden, "n_layers": s.Layers, "n_heads": s.Heads, "hidden_dim": 2 * s.Hidden,
				"activation": s.Act})
	} else {
		maps.Copy(c,
			map[string]any{"hidden_size": s.Hidden, "num_hidden_layers": s.Layers, "num_attention_heads": s.Heads,
				"intermediate_size": 2 * s.Hidden, "hidden_act": s.Act, "layer_norm_eps": 1e-5, "type_vocab_size": 2})
	}
	if s.Shifted() {
		c["pad_token_id"] = 1
	}
	if s.Family == "mpnet" {
		c["relative_attention_num_buckets"] = 32
		delete(c, "type_vocab_size")
	}
	if s.Family == "deberta-v2" {
		maps.Copy(c, s.Deberta.config())
	}
	if s.Problem != "" {
		c["problem_type"] = s.Problem
	}
	if len(s.Labels) > 0 && !s.Unnamed {
		labels := map[string]string{}
		for i, l := range s.Labels {
			labels[fmt.Sprint(i)] = l
		}
		c["id2label"] = labels
	}
	return c
}

// vocabulary starts with the family's special tokens.
func (s Spec) vocabulary() []string {
	v := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	if s.Shifted() {
		v = []string{"<s>", "<pad>", "</s>", "<unk>"}
	}
	words := strings.Fields("the gate opens when a context of knowledge base is near enough to query 1 2 3 . , ?")
	letters := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	next := "##"
	if s.unigram() {
		v, next = append(v, "▁"), ""
		for i, w := range words {
			words[i] = "▁" + w
		}
	} else {
		v = append(v, letters...)
	}
	for _, l := range letters {
		v = append(v, next+l)
	}
	for _, w := range words {
		if !slices.Contains(v, w) {
			v = append(v, w)
		}
	}
	return v
}

func (s Spec) unigram() bool { return s.Shifted() && s.Family != "mpnet" }

func (s Spec) tokenizer(vocabulary []string) map[string]any {
	ids := map[string]int{}
	for i, w := range vocabulary {
		ids[w] = i
	}
	first, last, pad, unknown := "[CLS]", "[SEP]", "[PAD]", "[UNK]"
	if s.Shifted() {
		first, last, pad, unknown = "<s>", "</s>", "<pad>", "<unk>"
	}
	special := func(t string, kind int) map[string]any {
		return map[string]any{"SpecialToken": map[string]any{"id": t, "type_id": kind}}
	}
	sequence := func(id string, kind int) map[string]any {
		return map[string]any{"Sequence": map[string]any{"id": id, "type_id": kind}}
	}
	pair := []any{special(first, 0), sequence("A", 0), special(last, 0), sequence("B", 1), special(last, 1)}
	if s.Shifted() {
		pair = []any{special(first, 0), sequence("A", 0), special(last, 0), special(last, 0), sequence("B", 0),
			special(last, 0)}
	}
	about := func(t string) map[string]any {
		return map[string]any{"id": t, "ids": []int{ids[t]}, "tokens": []string{t}}
	}
	var added []any
	for _, t := range []string{first, last, pad, unknown} {
		added = append(added, map[string]any{"id": ids[t], "content": t, "special": true, "single_word": false,
			"lstrip": false, "rstrip": false, "normalized": false})
	}
	out := map[string]any{
		"version": "1.0", "added_tokens": added, "decoder": nil,
		"truncation": map[string]any{"max_length": 9, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
		"padding": map[string]any{"strategy": map[string]int{"Fixed": 40}, "direction": "Right",
			"pad_to_multiple_of": nil,
			"pad_id":             ids[pad], "pad_type_id": 0, "pad_token": pad},
		"post_processor": map[string]any{"type": "TemplateProcessing", "pair": pair,
			"single":         []any{special(first, 0), sequence("A", 0), special(last, 0)},
			"special_tokens": map[string]any{first: about(first), last: about(last)}},
	}
	if s.unigram() {
		pieces := make([][]any, len(vocabulary))
		for i, w := range vocabulary {
			pieces[i] = []any{w, -float64(20-len([]rune(w))) / 2}
		}
		out["normalizer"] = nil
		out["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
			"split": true}
		out["model"] = map[string]any{"type": "Unigram", "unk_id": ids[unknown], "vocab": pieces,
			"byte_fallback": false}
		return out
	}
	out["normalizer"] = map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
		"strip_accents": nil, "lowercase": true}
	out["pre_tokenizer"] = map[string]any{"type": "BertPreTokenizer"}
	out["model"] = map[string]any{"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
		"max_input_chars_per_word": 100, "vocab": ids}
	return out
}

// Tensor is one tensor of a checkpoint.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// tensors are random but well-behaved: unit embeddings, products that keep the scale, norms near one.
func (s Spec) tensors(vocab int) []Tensor {
	r := rand.New(rand.NewPCG(7, uint64(len(s.Family))))
	var out []Tensor
	add := func(name string, mean, spread float64, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(mean + spread*r.NormFloat64())
		}
		out = append(out, Tensor{name, shape, data})
	}
	prefix := map[string]string{"bert": "bert.", "distilbert": "distilbert.", "mpnet": "mpnet.",
		"deberta-v2": "deberta."}[s.Family]
	if prefix == "" {
		prefix = "roberta."
	}
	if !s.Prefixed {
		prefix = ""
	}
	linear := func(name string, in, to int) {
		add(name+".weight", 0, 1/math.Sqrt(float64(in)), to, in)
		add(name+".bias", 0, .1, to)
	}
	norm := func(name string) {
		weight, bias := ".weight", ".bias"
		if s.Old {
			weight, bias = ".gamma", ".beta"
		}
		add(name+weight, 1, .1, s.Hidden)
		add(name+bias, 0, .1, s.Hidden)
	}
	h := s.Hidden
	if s.Family != "deberta-v2" {
		add(prefix+"embeddings.word_embeddings.weight", 0, 1, vocab, h)
		add(prefix+"embeddings.position_embeddings.weight", 0, .3, s.Positions, h)
	}
	norm(prefix + "embeddings.LayerNorm")
	layer, names := prefix+"encoder.layer.", []string{"attention.self.query", "attention.self.key",
		"attention.self.value", "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
		"output.dense", "output.LayerNorm"}
	switch s.Family {
	case "distilbert":
		layer = prefix + "transformer.layer."
		names = []string{"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm",
			"ffn.lin1", "ffn.lin2", "output_layer_norm"}
	case "deberta-v2":
		copy(names, []string{"attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"})
		s.debertaTensors(prefix, vocab, add, norm)
	case "mpnet":
		copy(names, []string{"attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o",
			"attention.LayerNorm"})
		add(prefix+"encoder.relative_attention_bias.weight", 0, 1, 32, s.Heads)
	default:
		add(prefix+"embeddings.token_type_embeddings.weight", 0, .5, 2, h)
	}
	for i := range s.Layers {
		p := fmt.Sprint(layer, i, ".")
		for _, n := range names[:4] {
			linear(p+n, h, h)
		}
		norm(p + names[4])
		linear(p+names[5], h, 2*h)
		linear(p+names[6], 2*h, h)
		norm(p + names[7])
		if s.Family == "deberta-v2" {
			s.Deberta.projections(p+"attention.self.", h, linear)
		}
	}
	s.head(prefix, linear)
	return out
}

func (s Spec) head(prefix string, linear func(name string, in, to int)) {
	h, n := s.Hidden, len(s.Labels)
	switch {
	case s.Kind == "reader":
		linear("qa_outputs", h, 2)
	case n == 0:
	case s.Kind == "token-classifier":
		linear("classifier", h, n)
	case s.Family == "bert":
		linear(prefix+"pooler.dense", h, h)
		linear("classifier", h, n)
	case s.Family == "deberta-v2":
		linear("pooler.dense", h, h)
		linear("classifier", h, n)
	case s.Family == "distilbert":
		linear("pre_classifier", h, h)
		linear("classifier", h, n)
	default:
		linear("classifier.dense", h, h)
		linear("classifier.out_proj", h, n)
	}
}

// Safetensors encodes tensors in one dtype (F32, F16 or BF16; halves by truncation of the mantissa).
func Safetensors(tensors []Tensor, dtype string) ([]byte, error) {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data bytes.Buffer
	for _, t := range tensors {
		start := data.Len()
		for _, v := range t.Data {
			switch dtype {
			case "F32":
				_ = binary.Write(&data, binary.LittleEndian, v)
			case "BF16":
				_ = binary.Write(&data, binary.LittleEndian, uint16(math.Float32bits(v)>>16))
			case "F16":
				_ = binary.Write(&data, binary.LittleEndian, half(v))
			default:
				return nil, fmt.Errorf("checkpoint: dtype %q", dtype)
			}
		}
		header[t.Name] = map[string]any{"dtype": dtype, "shape": t.Shape, "data_offsets": []int{start, data.Len()}}
	}
	raw, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.AppendUint64(nil, uint64(len(raw)))
	return slices.Concat(size, raw, data.Bytes()), nil
}

// half returns the float16 of a normal value by truncation; what is too small becomes zero.
func half(v float32) uint16 {
	b := math.Float32bits(v)
	exponent := int(b>>23&255) - 127 + 15
	if exponent <= 0 {
		return uint16(b >> 16 & 0x8000)
	}
	return uint16(b>>16&0x8000) | uint16(min(exponent, 30))<<10 | uint16(b>>13&0x3ff)
}

// SpoilWeights makes every weight of the checkpoint in dir a NaN: all its bits are set, in each float type.
func SpoilWeights(dir string) error {
	path := filepath.Join(dir, "model.safetensors")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i := 8 + int(binary.LittleEndian.Uint64(raw)); i < len(raw); i++ {
		raw[i] = 0xff
	}
	return os.WriteFile(path, raw, 0o644)
}

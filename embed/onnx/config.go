package onnx

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/sluice-rag/sluice/internal/regular"
)

// Config is what of a config.json decides the shape and arithmetic of the graph.
type Config struct {
	Common
	Disentangled *Disentangled // DeBERTa only
}

// Common is the configuration of all families. Its fields are part of the digests of models as they are printed here.
type Common struct {
	ModelType    string // bert, distilbert, roberta, xlm-roberta, camembert, mpnet, deberta-v2
	Hidden       int64
	Layers       int64
	Heads        int64
	Intermediate int64
	Vocab        int64
	Positions    int64 // rows of the position table
	TypeVocab    int64
	PadID        int64
	Epsilon      float64
	Activation   string   // gelu (erf), relu, gelu_new (tanh)
	Buckets      int64    // MPNet's relative position buckets
	Labels       []string // classification only: by class id
	Problem      string   // problem_type: single_label_classification, multi_label_classification or ""
}

// Identity returns all of the configuration that changes what a graph computes, as text: it is part of a model's
// digest, so it stays what it was for the families that were there before.
func (c *Config) Identity() string {
	text := fmt.Sprintf("%+v", c.Common)
	if c.Disentangled != nil {
		text += fmt.Sprintf(" disentangled %+v", *c.Disentangled)
	}
	return text
}

// rawConfig has the keys of all families; DistilBERT names its sizes differently.
type rawConfig struct {
	ModelType    string            `json:"model_type"`
	Hidden       *int64            `json:"hidden_size"`
	Layers       *int64            `json:"num_hidden_layers"`
	Heads        *int64            `json:"num_attention_heads"`
	Intermediate *int64            `json:"intermediate_size"`
	Act          string            `json:"hidden_act"`
	Dim          *int64            `json:"dim"`
	NLayers      *int64            `json:"n_layers"`
	NHeads       *int64            `json:"n_heads"`
	HiddenDim    *int64            `json:"hidden_dim"`
	Activation   string            `json:"activation"`
	Vocab        *int64            `json:"vocab_size"`
	Positions    *int64            `json:"max_position_embeddings"`
	TypeVocab    *int64            `json:"type_vocab_size"`
	PadID        *int64            `json:"pad_token_id"`
	Epsilon      *float64          `json:"layer_norm_eps"`
	Buckets      *int64            `json:"relative_attention_num_buckets"`
	PositionType string            `json:"position_embedding_type"`
	Decoder      bool              `json:"is_decoder"`
	Labels       map[string]string `json:"id2label"`
	Problem      string            `json:"problem_type"`
}

// Supported reports whether the writer knows the family that config.json names.
func Supported(modelType string) bool { _, ok := families[modelType]; return ok }

// maxConfig is the largest config.json that is read: label maps make real ones large, up to some megabytes.
const maxConfig = 64 << 20

// ReadConfig reads and checks a config.json.
func ReadConfig(path string) (*Config, error) {
	raw, err := regular.ReadFile(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	c, err := ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig checks what the writer needs of a config.json: every size positive and bounded, heads
// dividing the hidden size, a known activation, absolute positions. Other keys are the model's own and ignored.
func ParseConfig(raw []byte) (*Config, error) {
	var r rawConfig
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	f, ok := families[r.ModelType]
	if !ok {
		return nil, fmt.Errorf("%w: model_type %q; known are %v", ErrModel, r.ModelType,
			slices.Sorted(maps.Keys(families)))
	}
	c := &Config{Common: Common{ModelType: r.ModelType, Activation: r.Act, Epsilon: f.epsilon, PadID: f.padID,
		TypeVocab: f.typeVocab, Buckets: 32, Problem: r.Problem}}
	if f.distil {
		r.Hidden, r.Layers, r.Heads, r.Intermediate = r.Dim, r.NLayers, r.NHeads, r.HiddenDim
		c.Activation, r.Epsilon = r.Activation, nil
	}
	for _, s := range []struct {
		key      string
		v        *int64
		to       *int64
		low, top int64
		optional bool
	}{
		{"hidden_size", r.Hidden, &c.Hidden, 1, 1 << 16, false},
		{"num_hidden_layers", r.Layers, &c.Layers, 1, 1 << 10, false},
		{"num_attention_heads", r.Heads, &c.Heads, 1, 1 << 10, false},
		{"intermediate_size", r.Intermediate, &c.Intermediate, 1, 1 << 20, false},
		{"vocab_size", r.Vocab, &c.Vocab, 1, 1 << 26, false},
		{"max_position_embeddings", r.Positions, &c.Positions, 1, 1 << 20, false},
		{"type_vocab_size", r.TypeVocab, &c.TypeVocab, 0, 1 << 10, true},
		{"pad_token_id", r.PadID, &c.PadID, 0, 1 << 26, true},
		{"relative_attention_num_buckets", r.Buckets, &c.Buckets, 4, 1 << 8, true},
	} {
		if s.v != nil {
			*s.to = *s.v
		} else if !s.optional {
			return nil, fmt.Errorf("%w: %s of a %s model is missing", ErrModel, s.key, r.ModelType)
		}
		if *s.to < s.low || *s.to > s.top {
			return nil, fmt.Errorf("%w: %s = %d, expected %d to %d", ErrModel, s.key, *s.to, s.low, s.top)
		}
	}
	if r.Epsilon != nil {
		c.Epsilon = *r.Epsilon
	}
	var err error
	if c.Labels, err = labels(r.Labels); err != nil {
		return nil, err
	}
	if err := c.check(f, &r); err != nil || !f.disentangled {
		return c, err
	}
	return c, parseDisentangled(raw, c)
}

func (c *Config) check(f *family, r *rawConfig) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrModel, fmt.Sprintf(format, a...))
	}
	c.Activation = cmp.Or(c.Activation, "gelu")
	if !slices.Contains([]string{"gelu", "relu", "gelu_new", "gelu_pytorch_tanh"}, c.Activation) {
		return bad("activation %q; known are gelu, relu, gelu_new", c.Activation)
	}
	switch {
	case c.Hidden%c.Heads != 0:
		return bad("hidden_size %d is not divisible by num_attention_heads %d", c.Hidden, c.Heads)
	case c.Epsilon <= 0 || c.Epsilon > 1 || math.IsNaN(c.Epsilon):
		return bad("layer_norm_eps %g, expected above 0 and at most 1", c.Epsilon)
	case c.PadID >= c.Vocab:
		return bad("pad_token_id %d is not below vocab_size %d", c.PadID, c.Vocab)
	case f.offsetPositions && c.Positions <= c.PadID+1:
		return bad("max_position_embeddings %d leaves no position behind pad_token_id %d", c.Positions, c.PadID)
	case c.Buckets%4 != 0:
		return bad("relative_attention_num_buckets %d is not a multiple of 4", c.Buckets)
	case r.PositionType != "" && r.PositionType != "absolute":
		return bad("position_embedding_type %q; only absolute is known", r.PositionType)
	case r.Decoder:
		return bad("is_decoder is true: not an encoder")
	}
	return nil
}

// MaxTokens returns how many tokens the position table can place.
func (c *Config) MaxTokens() int {
	if families[c.ModelType].offsetPositions {
		return int(c.Positions - c.PadID - 1)
	}
	return int(c.Positions)
}

// PlaceTokens writes the position ids of a text's tokens: 0, 1, 2 …, or, for families with an offset, from behind the
// pad's own position on, where pads stay and do not count.
func (c *Config) PlaceTokens(ids []uint32, to []int64) {
	offset := families[c.ModelType].offsetPositions
	next := int64(0)
	if offset {
		next = c.PadID + 1
	}
	for i, id := range ids {
		if offset && int64(id) == c.PadID {
			to[i] = c.PadID
			continue
		}
		to[i] = next
		next++
	}
}

// labels orders id2label by id; the ids must be 0 … n−1.
func labels(m map[string]string) ([]string, error) {
	out := make([]string, len(m))
	for k, v := range m {
		i, err := strconv.Atoi(k)
		if err != nil || i < 0 || i >= len(m) || strconv.Itoa(i) != k {
			return nil, fmt.Errorf("%w: id2label has the id %q, expected 0 to %d", ErrModel, k, len(m)-1)
		}
		out[i] = v
	}
	return out, nil
}

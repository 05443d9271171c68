package onnx

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
)

// debertaConfig returns a config.json like DeBERTa-v3's with changes.
func debertaConfig(t testing.TB, changes map[string]any) []byte {
	t.Helper()
	c := map[string]any{"model_type": "deberta-v2", "hidden_size": 32, "num_hidden_layers": 2,
		"num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 50, "max_position_embeddings": 512,
		"relative_attention": true, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": true,
		"pos_att_type": "p2c|c2p", "position_biased_input": false, "max_relative_positions": -1, "type_vocab_size": 0}
	maps.Copy(c, changes)
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParseDeberta(t *testing.T) {
	c, err := ParseConfig(debertaConfig(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := Disentangled{Embedding: 32, Buckets: 256, Farthest: 512, Shared: true, ToKeys: true, ToQueries: true,
		Normed: true, Pooler: "gelu"}
	if *c.Disentangled != want || c.Epsilon != 1e-7 || c.MaxTokens() != 512 || c.Disentangled.Span() != 256 {
		t.Errorf("%+v %+v", *c.Disentangled, *c)
	}
	c, err = ParseConfig(debertaConfig(t, map[string]any{"pos_att_type": []string{"c2p"}, "position_buckets": -1,
		"max_relative_positions": 100, "embedding_size": 8, "position_biased_input": nil}))
	if err != nil || c.Disentangled.ToQueries || !c.Disentangled.ToKeys || c.Disentangled.Span() != 100 ||
		c.Disentangled.Embedding != 8 || !c.Disentangled.Biased {
		t.Errorf("%+v, %v", c, err)
	}
	for key, bad := range map[string]struct {
		value any
		says  string
	}{
		"conv_kernel_size":    {3, "convolution"},
		"relative_attention":  {false, "relative_attention"},
		"attention_head_size": {16, "attention_head_size"},
		"pooler_hidden_size":  {16, "pooler_hidden_size"},
		"pooler_hidden_act":   {"swish", `"swish"`},
		"pos_att_type":        {[]string{"p2p"}, `"p2p"`},
		"position_buckets":    {1 << 20, "position_buckets"},
		"norm_rel_ebd":        {7, "norm_rel_ebd"},
		"share_att_key":       {"yes", "share_att_key"},
	} {
		_, err := ParseConfig(debertaConfig(t, map[string]any{key: bad.value}))
		if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s = %v: %v", key, bad.value, err)
		}
	}
	if _, err := ParseConfig(debertaConfig(t, map[string]any{"pos_att_type": 3})); !errors.Is(err, ErrModel) {
		t.Errorf("pos_att_type 3: %v", err)
	}
}

// The identity is part of the digests that stores keep.
func TestIdentityOfOtherFamilies(t *testing.T) {
	c, err := ParseConfig([]byte(`{"model_type":"bert","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,
		"intermediate_size":64,"vocab_size":50,"max_position_embeddings":80}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "{ModelType:bert Hidden:32 Layers:2 Heads:4 Intermediate:64 Vocab:50 Positions:80 TypeVocab:2 PadID:0 " +
		"Epsilon:1e-12 Activation:gelu Buckets:32 Labels:[] Problem:}"
	if c.Identity() != want {
		t.Errorf("%s", c.Identity())
	}
	d, err := ParseConfig(debertaConfig(t, nil))
	if err != nil || !strings.Contains(d.Identity(), "disentangled {Embedding:32") {
		t.Errorf("%s, %v", d.Identity(), err)
	}
}

func FuzzDeberta(f *testing.F) {
	f.Add(debertaConfig(f, nil))
	f.Add(debertaConfig(f, map[string]any{"pos_att_type": []string{"c2p"}, "position_buckets": 2}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseConfig(raw)
		if err != nil {
			if !errors.Is(err, ErrModel) {
				t.Fatal(err)
			}
			return
		}
		if d := c.Disentangled; d != nil && (d.Span() < 1 || d.Embedding < 1 || d.Buckets == 1) {
			t.Fatalf("%+v", *d)
		}
	})
}

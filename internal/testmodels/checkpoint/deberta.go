package checkpoint

import (
	"cmp"
	"slices"
)

// Deberta holds the settings in which DeBERTa-v2 checkpoints differ; the zero value has the settings of DeBERTa-v3.
type Deberta struct {
	Embedding int      // embedding_size; 0: the hidden size
	Biased    bool     // position_biased_input: absolute positions are added
	Types     int      // type_vocab_size
	Buckets   int      // position_buckets (16); -1: no buckets
	Farthest  int      // max_relative_positions; 0: -1, the positions
	Separate  bool     // share_att_key is false: positions have their own projections
	Kinds     []string // pos_att_type (p2c, c2p)
	Plain     bool     // norm_rel_ebd is "none"
}

func (d Deberta) config() map[string]any {
	c := map[string]any{"relative_attention": true, "position_biased_input": d.Biased, "type_vocab_size": d.Types,
		"position_buckets": d.Buckets, "max_relative_positions": cmp.Or(d.Farthest, -1),
		"share_att_key": !d.Separate, "pos_att_type": d.Kinds, "norm_rel_ebd": "layer_norm",
		"pooler_hidden_act": "gelu", "layer_norm_eps": 1e-7}
	if d.Embedding > 0 {
		c["embedding_size"] = d.Embedding
	}
	if d.Plain {
		c["norm_rel_ebd"] = "none"
	}
	return c
}

// debertaTensors adds the embeddings, without their normalisation.
func (s Spec) debertaTensors(
	prefix string, vocab int, add func(name string, mean, spread float64, shape ...int), norm func(string),
) {
	d, width := s.Deberta, s.Hidden
	if d.Embedding > 0 {
		width = d.Embedding
		add(prefix+"embeddings.embed_proj.weight", 0, .2, s.Hidden, width)
	}
	add(prefix+"embeddings.word_embeddings.weight", 0, 1, vocab, width)
	if d.Biased {
		add(prefix+"embeddings.position_embeddings.weight", 0, .3, s.Positions, width)
	}
	if d.Types > 0 {
		add(prefix+"embeddings.token_type_embeddings.weight", 0, .5, d.Types, width)
	}
	span := cmp.Or(d.Farthest, s.Positions)
	if d.Buckets > 0 {
		span = d.Buckets
	}
	add(prefix+"encoder.rel_embeddings.weight", 0, .7, 2*span, s.Hidden)
	if !d.Plain {
		norm(prefix + "encoder.LayerNorm")
	}
}

func (d Deberta) projections(prefix string, hidden int, linear func(name string, in, to int)) {
	if !d.Separate {
		return
	}
	if slices.Contains(d.Kinds, "c2p") {
		linear(prefix+"pos_key_proj", hidden, hidden)
	}
	if slices.Contains(d.Kinds, "p2c") {
		linear(prefix+"pos_query_proj", hidden, hidden)
	}
}

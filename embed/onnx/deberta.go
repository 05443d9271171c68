package onnx

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Disentangled is what of a DeBERTa-v2's or -v3's config.json decides its embeddings and its attention.
type Disentangled struct {
	Embedding int64 // columns of the word embeddings; projected to the hidden size where that is another
	Biased    bool  // absolute positions are added to the words
	Buckets   int64 // of relative positions; 0: none, each distance has its own
	Farthest  int64 // the longest distance that is told apart
	Shared    bool  // positions are projected by the layer's own keys and queries
	ToKeys    bool  // content to position (c2p)
	ToQueries bool  // position to content (p2c)
	Normed    bool  // the position table is normalised
	Pooler    string
}

// Span returns how many rows of the position table are on each side of distance 0.
func (d *Disentangled) Span() int64 {
	if d.Buckets > 0 {
		return d.Buckets
	}
	return d.Farthest
}

// parseDisentangled reads a DeBERTa's own keys.
func parseDisentangled(raw []byte, c *Config) error {
	var r struct {
		Relative  bool            `json:"relative_attention"`
		Biased    bool            `json:"position_biased_input"`
		Embedding *int64          `json:"embedding_size"`
		Buckets   *int64          `json:"position_buckets"`
		Farthest  *int64          `json:"max_relative_positions"`
		Shared    bool            `json:"share_att_key"`
		Kinds     json.RawMessage `json:"pos_att_type"`
		Norm      string          `json:"norm_rel_ebd"`
		Conv      *int64          `json:"conv_kernel_size"`
		HeadSize  *int64          `json:"attention_head_size"`
		Pooler    string          `json:"pooler_hidden_act"`
		PoolSize  *int64          `json:"pooler_hidden_size"`
	}
	r.Biased, r.Pooler = true, "gelu" // unless the keys are there
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	value := func(p *int64, v int64) int64 {
		if p != nil && *p > 0 {
			return *p
		}
		return v
	}
	d := &Disentangled{Embedding: value(r.Embedding, c.Hidden), Biased: r.Biased,
		Buckets: value(r.Buckets, 0), Farthest: value(r.Farthest, c.Positions), Shared: r.Shared,
		Normed: slices.Contains(strings.Split(strings.ToLower(r.Norm), "|"), "layer_norm"), Pooler: r.Pooler}
	kinds, err := attentionKinds(r.Kinds)
	if err != nil {
		return err
	}
	d.ToKeys, d.ToQueries = slices.Contains(kinds, "c2p"), slices.Contains(kinds, "p2c")
	switch {
	case !r.Relative:
		return fmt.Errorf("%w: relative_attention is not true; only DeBERTa with relative positions is known", ErrModel)
	case value(r.Conv, 0) > 0:
		return fmt.Errorf("%w: conv_kernel_size %d: a convolution layer, as in DeBERTa-v2-xlarge, is not known", ErrModel,
			*r.Conv)
	case value(r.HeadSize, c.Hidden/c.Heads) != c.Hidden/c.Heads || value(r.PoolSize, c.Hidden) != c.Hidden:
		return fmt.Errorf("%w: attention_head_size and pooler_hidden_size must be %d and %d, as the hidden size says",
			ErrModel, c.Hidden/c.Heads, c.Hidden)
	case d.Embedding > 1<<16 || d.Buckets > 1<<16 || d.Farthest > 1<<20 || d.Buckets == 1 ||
		d.Buckets > 0 && d.Farthest <= d.Buckets/2+1:
		return fmt.Errorf("%w: embedding_size %d, position_buckets %d, max_relative_positions %d cannot be", ErrModel,
			d.Embedding, d.Buckets, d.Farthest)
	case activations[d.Pooler] == 0:
		return fmt.Errorf("%w: pooler_hidden_act %q; known are gelu, relu, tanh", ErrModel, d.Pooler)
	}
	c.Disentangled = d
	return nil
}

// attentionKinds reads pos_att_type: a list, or "c2p|p2c".
func attentionKinds(raw json.RawMessage) (kinds []string, err error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		err = json.Unmarshal(raw, &text)
		kinds = strings.Split(text, "|")
	} else if len(raw) > 0 {
		err = json.Unmarshal(raw, &kinds)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: pos_att_type: %w", ErrModel, err)
	}
	for i, k := range kinds {
		kinds[i] = strings.ToLower(strings.TrimSpace(k))
		if k = kinds[i]; k != "" && k != "c2p" && k != "p2c" {
			return nil, fmt.Errorf("%w: pos_att_type %q; known are c2p and p2c", ErrModel, k)
		}
	}
	return kinds, nil
}

// disentangledEmbeddings is embeddings for DeBERTa.
func (e *encoder) disentangledEmbeddings() string {
	d, p := e.Disentangled, e.prefix+"embeddings."
	x := e.op("Gather", e.tensor([]int64{e.Vocab, d.Embedding}, p+"word_embeddings.weight"), InputIDs)
	if d.Biased {
		table := e.tensor([]int64{e.Positions, d.Embedding}, p+"position_embeddings.weight")
		x = e.op("Add", x, e.positions(table))
	}
	types := p + "token_type_embeddings.weight"
	switch {
	case e.types:
		x = e.op("Add", x, e.op("Gather", e.tensor([]int64{e.TypeVocab, d.Embedding}, types), TokenTypes))
	case e.TypeVocab > 0:
		x = e.op("Add", x, e.firstRow(e.TypeVocab, d.Embedding, types))
	}
	if d.Embedding != e.Hidden {
		x = e.op("MatMul", x, e.transposed(p+"embed_proj.weight", d.Embedding, e.Hidden))
	}
	return e.norm(x, p+"LayerNorm", e.Hidden, e.Epsilon)
}

// positionTable returns the vectors of relative positions, [2·span, hidden]: a constant, which ONNX Runtime computes
// when the session is made, as it does the projections.
func (e *encoder) positionTable() string {
	p := e.prefix + "encoder."
	table := e.tensor([]int64{2 * e.Disentangled.Span(), e.Hidden}, p+"rel_embeddings.weight")
	if e.Disentangled.Normed {
		table = e.norm(table, p+"LayerNorm", e.Hidden, e.Epsilon)
	}
	return table
}

// disentangled returns the attention of a layer over its queries, keys and values.
func (e *encoder) disentangled(qkv, p string) string {
	d := e.Disentangled
	keys, queries := e.positionKeys(p)
	in := []string{qkv, Starts}
	if d.ToKeys {
		in = append(in, e.product(e.table, keys, e.Hidden, e.Hidden))
	}
	if d.ToQueries {
		in = append(in, e.product(e.table, queries, e.Hidden, e.Hidden))
	}
	return e.own("DisentangledAttention", in, attrInt("heads", e.Heads), attrInt("span", d.Span()),
		attrInt("buckets", d.Buckets), attrInt("farthest", d.Farthest), attrBool("keys", d.ToKeys),
		attrBool("queries", d.ToQueries))
}

// positionKeys returns the names of the layers that make keys and queries of positions.
func (e *encoder) positionKeys(p string) (keys, queries string) {
	if e.Disentangled.Shared {
		return p + e.family.Key, p + e.family.Query
	}
	return p + "attention.self.pos_key_proj", p + "attention.self.pos_query_proj"
}

// Row returns the row of the position table for a distance, query − key: the distance itself, or with buckets the
// distance up to half of them and logarithmic from there to the farthest; shifted to begin at 0 and held within the
// table. The logarithms are taken in float32 step by step, as DeBERTa-v2's published model definition does.
func (d *Disentangled) Row(distance int) int64 {
	if d.Buckets > 0 {
		distance = logBucket(distance, int(d.Buckets), int(d.Farthest))
	}
	return min(max(int64(distance)+d.Span(), 0), 2*d.Span()-1)
}

func logBucket(distance, buckets, farthest int) int {
	mid := buckets / 2
	n := max(distance, -distance)
	if n <= mid {
		return distance
	}
	log := func(v float64) float32 { return float32(math.Log(float64(float32(v)))) }
	ratio := log(float64(float32(n)/float32(mid))) / log(float64(farthest-1)/float64(mid))
	far := int(math.Ceil(float64(ratio*float32(mid-1)))) + mid
	if distance < 0 {
		return -far
	}
	return far
}

package gguf

import "cmp"

// Footprint is the memory that a model needs, by its header.
type Footprint struct {
	Weights  int64 // bytes of the tensors
	Repacked int64 // bytes of the tensors that llama.cpp copies in an order for its instruction set
	Extra    int64 // bytes of copies beside their originals: a token embedding that is also the output comes twice
	Token    int64 // bytes of the KV cache that one token takes over all layers, in float16
	State    int64 // bytes of the recurrent state of one sequence, in float32; 0 when the model has only attention
	Scratch  int64 // bytes that one token of a batch needs at most between two operations
	Layers   int64 // that can be offloaded, besides the output
	Vocab    int64 // tokens, hence values of a row of logits
}

// copies returns the bytes of weights that llama.cpp copies (its ggml-cpu/repack.cpp, which packs weights for
// llm/ggml/products.h, and ggml-cpu/amx; a few matrices of odd shapes are not copied), and what the copies take in
// addition.
func (h *header) copies(isa string) (repacked, extra int64) {
	types := []string{"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}
	switch isa {
	case "avx2", "avxvnni":
		types = append(types, "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q5_K", "Q6_K")
	case "avx512vnni":
		types = append(types, "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q5_K", "Q6_K", "Q2_K")
	case "amx":
		types = append(types, "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q5_K", "Q6_K", "Q2_K", "IQ4_XS", "F16")
	}
	for _, t := range types {
		n := int64(h.matrices[t])
		repacked += n
		if t == h.tokens.typ && !h.tokens.output {
			extra += int64(h.tokens.bytes)
			n += int64(h.tokens.bytes)
		}
		if t == "Q8_0" && isa == "amx" {
			extra += n * 64 / (16 * 34) // a sum of 4 bytes for each of 16 rows of 34
		}
	}
	return repacked, extra
}

// footprint follows llama.cpp's llama_kv_cache, llama_memory_recurrent and llama_hparams.
func (h *header) footprint(arch string) Footprint {
	f := Footprint{Weights: int64(h.bytes), Vocab: int64(h.arrays["tokenizer.ggml.tokens"])}
	layers := h.number(arch + ".block_count")
	f.Layers = int64(min(max(layers, 0), maxLayers))
	embedding := int64(h.number(arch + ".embedding_length"))
	state := h.state(arch, embedding)
	// Gemma 3n and 4: the last layers use the cache of earlier ones
	withCache := layers - h.number(arch+".attention.shared_kv_layers")
	var widest int64
	for il := range min(layers, maxLayers) {
		key, value := h.attention(arch, il, embedding)
		recurrent := h.recurrent(arch, il)
		if recurrent {
			f.State = sum(f.State, state)
		}
		if il < withCache && (!recurrent || arch == "falcon-h1") { // falcon-h1's layers have both
			f.Token = sum(f.Token, mul(2, sum(key, value)))
		}
		heads := int64(h.layer(arch+".attention.head_count", il, 0))
		kv := max(1, int64(h.layer(arch+".attention.head_count_kv", il, int(heads))))
		inner := mul(int64(h.layer(arch+".feed_forward_length", il, 0)), 3)
		if experts := int64(h.layer(arch+".expert_used_count", il, 0)); experts > 0 {
			width := int64(h.number(arch + ".expert_feed_forward_length"))
			if width == 0 { // Mixtral: its experts are as wide as feed_forward_length
				width = inner / 3
			}
			inner = sum(inner, mul(experts, sum(mul(width, 3), embedding)))
		}
		widest = max(widest, sum(mul(4, max(1, heads/kv), sum(key, value)), inner))
	}
	// Values are float32: a few rows of the hidden state, queries, keys and values with their rotated copies, and the
	// inner rows of the feed-forward net. ggml's allocator shares their place between operations, so that less is used.
	f.Scratch = mul(4, sum(mul(8, embedding), widest, 2*int64(h.number(arch+".ssm.inner_size"))))
	return f
}

// layer returns a setting that has one value for all layers or one for each.
func (h *header) layer(key string, il, missing int) int {
	if list, ok := h.layers[key]; ok {
		if il < len(list) {
			return list[il]
		}
		return missing
	}
	if _, ok := h.values[key]; ok {
		return h.number(key)
	}
	return missing
}

// attention returns how many values the cache of a layer keeps for a token: keys and values.
func (h *header) attention(arch string, il int, embedding int64) (key, value int64) {
	prefix := arch + ".attention."
	heads := h.layer(prefix+"head_count", il, 0)
	kv := int64(h.layer(prefix+"head_count_kv", il, heads))
	width := 0
	if first := h.layer(prefix+"head_count", 0, 0); first > 0 {
		width = int(embedding) / first
	}
	// Gemma 4 gives its layers with a sliding window heads of another size: the larger one is counted.
	k := max(h.layer(prefix+"key_length", il, width), h.number(prefix+"key_length_swa"))
	v := max(h.layer(prefix+"value_length", il, width), h.number(prefix+"value_length_swa"))
	if h.number(prefix+"key_length_mla") > 0 { // DeepSeek: keys and values are one compressed row
		v = 0
	}
	return mul(kv, int64(k)), mul(kv, int64(v))
}

// recurrent reports whether a layer keeps a state instead of a cache.
func (h *header) recurrent(arch string, il int) bool {
	switch arch {
	case "mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7", "falcon-h1":
		return true
	case "qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01":
		if list, ok := h.layers[arch+".attention.recurrent_layers"]; ok {
			return il < len(list) && list[il] != 0
		}
		every := 4
		if arch == "minimax-01" {
			every = 8
		}
		if n := h.number(arch + ".full_attention_interval"); n > 0 {
			every = n
		}
		return (il+1)%every != 0
	case "nemotron_h", "nemotron_h_moe":
		return h.layer(arch+".attention.head_count_kv", il, 0) == 0 && h.layer(arch+".feed_forward_length", il, 0) == 0
	case "jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next":
		return h.layer(arch+".attention.head_count_kv", il, h.layer(arch+".attention.head_count", il, 0)) == 0
	}
	return false
}

// state returns the bytes of one recurrent layer for one sequence: the tail of its convolution and the state proper.
func (h *header) state(arch string, embedding int64) int64 {
	number := func(key string) int64 { return int64(h.number(arch + "." + key)) }
	heads := int64(h.layer(arch+".attention.head_count", 0, 0))
	conv := max(0, number("ssm.conv_kernel")-1)
	if size := number("wkv.head_size"); size > 0 { // RWKV
		shifts := int64(2)
		if n := number("token_shift_count"); n > 0 {
			shifts = n
		}
		return mul(4, embedding, sum(shifts, size))
	}
	if n := number("shortconv.l_cache"); n > 0 { // LFM2
		return mul(4, embedding, n-1)
	}
	if size := number("kda.head_dim"); size > 0 { // Kimi
		conv = cmp.Or(conv, 3)
		return mul(4, heads, size, sum(mul(3, conv), size))
	}
	if arch == "minimax-01" {
		key := number("attention.key_length")
		return mul(4, heads, key, key)
	}
	inner, size := number("ssm.inner_size"), number("ssm.state_size") // Mamba and its like
	return mul(4, sum(mul(conv, sum(inner, mul(2, number("ssm.group_count"), size))), mul(size, inner)))
}

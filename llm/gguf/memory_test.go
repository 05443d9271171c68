package gguf

import (
	"math"
	"testing"
)

// footprint returns that of a header with these numbers: "heads" is short for attention.head_count and so on.
func footprint(arch string, numbers map[string]any) Footprint {
	h := &header{values: map[string]any{}, layers: map[string][]int{},
		arrays: map[string]uint64{"tokenizer.ggml.tokens": 1000}, bytes: 12345}
	for key, v := range numbers {
		switch v := v.(type) {
		case int:
			h.values[arch+"."+key] = uint64(v)
		case []int:
			h.layers[arch+"."+key] = v
		}
	}
	return h.footprint(arch)
}

// Bytes per token as llama.cpp prints them for these models, or as their published shapes give: layers × KV heads ×
// (key + value width) × 2.
func TestFootprint(t *testing.T) {
	for name, c := range map[string]struct {
		arch         string
		numbers      map[string]any
		token, state int64
	}{
		"Llama 3.1 8B: 128 KiB a token": {"llama",
			map[string]any{"block_count": 32, "embedding_length": 4096, "attention.head_count": 32,
				"attention.head_count_kv": 8, "feed_forward_length": 14336}, 128 << 10, 0},
		"Qwen2.5 7B: 56 KiB": {"qwen2", map[string]any{"block_count": 28, "embedding_length": 3584,
			"attention.head_count": 28, "attention.head_count_kv": 4}, 56 << 10, 0},
		"Gemma 2 9B: heads are wider than their share": {"gemma2",
			map[string]any{"block_count": 42, "embedding_length": 3584, "attention.head_count": 16,
				"attention.head_count_kv": 8, "attention.key_length": 256, "attention.value_length": 256},
			42 * 8 * (256 + 256) * 2, 0},
		"no head_count_kv: as many as heads": {"gpt2",
			map[string]any{"block_count": 12, "embedding_length": 768, "attention.head_count": 12}, 12 * 2 * 768 * 2,
			0},
		"DeepSeek: one compressed row": {"deepseek2",
			map[string]any{"block_count": 27, "embedding_length": 2048, "attention.head_count": 16,
				"attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512,
				"attention.key_length_mla": 192}, 27 * 576 * 2, 0},
		"Gemma 3n: layers that share": {"gemma3n",
			map[string]any{"block_count": 30, "embedding_length": 2048, "attention.head_count": 8,
				"attention.head_count_kv": 2, "attention.shared_kv_layers": 10}, 20 * 2 * 2 * 256 * 2, 0},
		"heads of each layer": {"deci", map[string]any{"block_count": 3, "embedding_length": 64,
			"attention.head_count": []int{8, 8, 8}, "attention.head_count_kv": []int{4, 0, 2}}, 6 * 2 * 8 * 2, 0},
		"Mamba: a state and no cache": {"mamba", map[string]any{"block_count": 24, "embedding_length": 768,
			"ssm.conv_kernel": 4, "ssm.inner_size": 1536, "ssm.state_size": 16}, 0, 24 * 4 * (3*1536 + 16*1536)},
		"RWKV": {"rwkv6", map[string]any{"block_count": 24, "embedding_length": 2048, "wkv.head_size": 64}, 0,
			24 * 4 * (2*2048 + 2048*64)},
		"LFM2: both, by layer": {"lfm2", map[string]any{"block_count": 3, "embedding_length": 1024,
			"attention.head_count": 16, "attention.head_count_kv": []int{0, 0, 8}, "shortconv.l_cache": 3},
			8 * 2 * 64 * 2, 2 * 4 * 1024 * 2},
		"Qwen3-Next: every fourth layer": {"qwen3next",
			map[string]any{"block_count": 8, "embedding_length": 2048, "attention.head_count": 16,
				"attention.head_count_kv": 2, "attention.key_length": 256, "attention.value_length": 256,
				"ssm.conv_kernel": 4,
				"ssm.inner_size":  4096, "ssm.state_size": 128, "ssm.group_count": 16}, 2 * 2 * 512 * 2,
			6 * 4 * (3*(4096+2*16*128) + 128*4096)},
		"Falcon H1: both in each": {"falcon-h1", map[string]any{"block_count": 2, "embedding_length": 64,
			"attention.head_count": 4, "ssm.inner_size": 10, "ssm.state_size": 3}, 2 * 2 * 64 * 2, 2 * 4 * 30},
	} {
		t.Run(name, func(t *testing.T) {
			f := footprint(c.arch, c.numbers)
			if f.Token != c.token || f.State != c.state || f.Weights != 12345 || f.Vocab != 1000 {
				t.Errorf("%+v; want token %d, state %d", f, c.token, c.state)
			}
		})
	}
	f := footprint("llama", map[string]any{"block_count": 512, "embedding_length": math.MaxInt32,
		"attention.head_count": math.MaxInt32, "attention.key_length": math.MaxInt32,
		"attention.value_length": math.MaxInt32, "feed_forward_length": math.MaxInt32})
	if f.Token != math.MaxInt64 {
		t.Errorf("absurd numbers wrap round: %+v", f)
	}
}

func TestMemory(t *testing.T) {
	// Llama 3.1 8B in Q4_K_M
	f := Footprint{Weights: 4.9e9, Token: 128 << 10, Scratch: 400 << 10, Vocab: 128256, State: 1e6}
	sizes := Sizes{Cells: 4096, Batch: 64, Slots: 4, Sequences: 12}
	m := f.Memory(sizes)
	if m.Weights != 4.9e9 || m.Cache != 4096*128<<10 || m.State != 12e6 ||
		m.Total() != m.Weights+m.Cache+m.State+m.Compute {
		t.Errorf("%+v", m)
	}
	for name, more := range map[string]Sizes{
		"cells": {4097, 64, 4, 12, 0}, "batch": {4096, 65, 4, 12, 0}, "slots": {4096, 64, 5, 12, 0},
		"sequences": {4096, 64, 4, 13, 0},
	} {
		if n := f.Memory(more); n.Total() <= m.Total() {
			t.Errorf("more %s do not need more: %+v", name, n)
		}
	}
	if n := f.Memory(Sizes{Cells: 4097, Batch: 64, Slots: 4, Sequences: 12}); n.Cache != (4096+256)*128<<10 {
		t.Errorf("cells come in 256s: %d bytes", n.Cache)
	}
	for _, c := range []struct{ repacked, extra, mapped, weights int64 }{{0, 0, 4.9e9, 4.9e9}, {1e9, 0, 3.9e9, 4.9e9},
		{4e9, 1e8, 0, 5e9}} {
		f.Repacked, f.Extra = c.repacked, c.extra
		if n := f.Memory(sizes); n.Mapped != c.mapped || n.Weights != c.weights || f.Mapped() != (c.mapped > 0) {
			t.Errorf("%d bytes repacked, %d extra: %+v", c.repacked, c.extra, n)
		}
	}
	if n := (Footprint{}).Memory(Sizes{-1, -5, -3, -1, 0}); n.Total() < 0 || n != (Footprint{}).Memory(Sizes{1, 1, 1,
		1, 0}) {
		t.Errorf("sizes below 1: %+v", n)
	}
}

package llm

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
)

// header returns the footprint of a header with these numbers: "heads" is short for attention.head_count and so on.
func header(arch string, numbers map[string]any) Footprint {
	h := &ggufHeader{values: map[string]any{}, layers: map[string][]int{}, arrays: map[string]uint64{"tokenizer.ggml.tokens": 1000}, bytes: 12345}
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

// Bytes per token as llama.cpp prints them for these models, or as their published shapes give: layers × KV heads × (key + value
// width) × 2.
func TestFootprint(t *testing.T) {
	for name, c := range map[string]struct {
		arch         string
		numbers      map[string]any
		token, state int64
	}{
		"Llama 3.1 8B: 128 KiB a token": {"llama", map[string]any{"block_count": 32, "embedding_length": 4096, "attention.head_count": 32,
			"attention.head_count_kv": 8, "feed_forward_length": 14336}, 128 << 10, 0},
		"Qwen2.5 7B: 56 KiB": {"qwen2", map[string]any{"block_count": 28, "embedding_length": 3584, "attention.head_count": 28,
			"attention.head_count_kv": 4}, 56 << 10, 0},
		"Gemma 2 9B: heads are wider than their share": {"gemma2", map[string]any{"block_count": 42, "embedding_length": 3584,
			"attention.head_count": 16, "attention.head_count_kv": 8, "attention.key_length": 256, "attention.value_length": 256},
			42 * 8 * (256 + 256) * 2, 0},
		"no head_count_kv: as many as heads": {"gpt2", map[string]any{"block_count": 12, "embedding_length": 768, "attention.head_count": 12}, 12 * 2 * 768 * 2, 0},
		"DeepSeek: one compressed row": {"deepseek2", map[string]any{"block_count": 27, "embedding_length": 2048, "attention.head_count": 16,
			"attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192}, 27 * 576 * 2, 0},
		"Gemma 3n: layers that share": {"gemma3n", map[string]any{"block_count": 30, "embedding_length": 2048, "attention.head_count": 8,
			"attention.head_count_kv": 2, "attention.shared_kv_layers": 10}, 20 * 2 * 2 * 256 * 2, 0},
		"heads of each layer": {"deci", map[string]any{"block_count": 3, "embedding_length": 64, "attention.head_count": []int{8, 8, 8},
			"attention.head_count_kv": []int{4, 0, 2}}, 6 * 2 * 8 * 2, 0},
		"Mamba: a state and no cache": {"mamba", map[string]any{"block_count": 24, "embedding_length": 768, "ssm.conv_kernel": 4,
			"ssm.inner_size": 1536, "ssm.state_size": 16}, 0, 24 * 4 * (3*1536 + 16*1536)},
		"RWKV": {"rwkv6", map[string]any{"block_count": 24, "embedding_length": 2048, "wkv.head_size": 64}, 0, 24 * 4 * (2*2048 + 2048*64)},
		"LFM2: both, by layer": {"lfm2", map[string]any{"block_count": 3, "embedding_length": 1024, "attention.head_count": 16,
			"attention.head_count_kv": []int{0, 0, 8}, "shortconv.l_cache": 3}, 8 * 2 * 64 * 2, 2 * 4 * 1024 * 2},
		"Qwen3-Next: every fourth layer": {"qwen3next", map[string]any{"block_count": 8, "embedding_length": 2048, "attention.head_count": 16,
			"attention.head_count_kv": 2, "attention.key_length": 256, "attention.value_length": 256, "ssm.conv_kernel": 4,
			"ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.group_count": 16}, 2 * 2 * 512 * 2, 6 * 4 * (3*(4096+2*16*128) + 128*4096)},
		"Falcon H1: both in each": {"falcon-h1", map[string]any{"block_count": 2, "embedding_length": 64, "attention.head_count": 4,
			"ssm.inner_size": 10, "ssm.state_size": 3}, 2 * 2 * 64 * 2, 2 * 4 * 30},
	} {
		t.Run(name, func(t *testing.T) {
			f := header(c.arch, c.numbers)
			if f.Token != c.token || f.State != c.state || f.Weights != 12345 || f.Vocab != 1000 {
				t.Errorf("%+v; want token %d, state %d", f, c.token, c.state)
			}
		})
	}
	if f := header("llama", map[string]any{"block_count": 512, "embedding_length": math.MaxInt32, "attention.head_count": math.MaxInt32,
		"attention.key_length": math.MaxInt32, "attention.value_length": math.MaxInt32, "feed_forward_length": math.MaxInt32}); f.Token != math.MaxInt64 {
		t.Errorf("absurd numbers wrap round: %+v", f)
	}
}

// eight is about Llama 3.1 8B in Q4_K_M.
func eight() Info {
	return Info{Name: "eight", ContextTrained: 131072, Footprint: Footprint{Weights: 4.9e9, Token: 128 << 10, Scratch: 400 << 10, Vocab: 128256}}
}

func TestMemory(t *testing.T) {
	i := eight()
	m := i.Memory(Options{})
	if m.Weights != 4.9e9 || m.Cache != 4096*128<<10 || m.State != 0 || m.Total() != m.Weights+m.Cache+m.Compute {
		t.Errorf("defaults: %+v", m)
	}
	if n := i.Memory(Options{ContextSize: 4097}); n.Cache != (4096+256)*128<<10 {
		t.Errorf("cells come in 256s: %d bytes", n.Cache)
	}
	for name, o := range map[string]Options{"context": {ContextSize: 8192}, "cache": {CacheTokens: 8192}, "batch": {BatchSize: 512}, "slots": {Slots: 32}} {
		if n := i.Memory(o); n.Total() <= m.Total() {
			t.Errorf("more %s does not need more: %+v", name, n)
		}
	}
	i.Footprint.State = 1e6
	if n := i.Memory(Options{Slots: 4}); n.State != 12e6 {
		t.Errorf("state of 4 slots and 8 pins: %d", n.State)
	}
	for _, c := range []struct{ repacked, extra, mapped, weights int64 }{{0, 0, 4.9e9, 4.9e9}, {1e9, 0, 3.9e9, 4.9e9}, {4e9, 1e8, 0, 5e9}} {
		i.Footprint.Repacked, i.Footprint.Extra = c.repacked, c.extra
		if n := i.Memory(Options{}); n.Mapped != c.mapped || n.Weights != c.weights {
			t.Errorf("%d bytes repacked, %d extra: %+v", c.repacked, c.extra, n)
		}
	}
	if n := (Info{}).Memory(Options{Slots: -1, CacheTokens: -5, BatchSize: -3}); n.Total() < 0 {
		t.Errorf("options that Open refuses: %+v", n)
	}
}

func TestCheckMemorySaysWhatToLower(t *testing.T) {
	i, copied := eight(), eight()
	copied.Footprint.Repacked = 4.5e9
	for name, c := range map[string]struct {
		info      Info
		o         Options
		available int64
		says      []string
		lacks     string
	}{
		"smaller cache":   {i, Options{ContextSize: 4096, CacheTokens: 65536}, 7e9, []string{"lower CacheTokens to ", "KV cache of 65536 tokens 8.6 GB", "7.0 GB are available (here)"}, "ContextSize"},
		"smaller context": {i, Options{ContextSize: 65536}, 7e9, []string{"lower ContextSize from 65536 to ", " are missing"}, "CacheTokens to"},
		"both":            {i, Options{ContextSize: 32768, CacheTokens: 65536}, 6e9, []string{"lower ContextSize from 32768 and CacheTokens to "}, "Slots"},
		"another model":   {i, Options{}, 4e9, []string{"take a smaller model", "mapped"}, "lower"},
		"nothing fits":    {i, Options{}, 4e8, []string{"take a smaller model"}, "mapped"},
		"slots":           {Info{Name: "r", ContextTrained: 4096, Footprint: Footprint{Weights: 1e9, State: 1e8}}, Options{Slots: 16}, 26e8, []string{"lower Slots from 16 to ", "state of 16 slots"}, "ContextSize"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkMemory(c.info, c.o, c.available, "here")
			var e *MemoryError
			if !errors.Is(err, ErrMemory) || !errors.As(err, &e) || e.Need.Total() <= e.Available || e.Available != c.available {
				t.Fatalf("%v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("does not say %q: %v", s, err)
				}
			}
			if strings.Contains(err.Error(), c.lacks) {
				t.Errorf("says %q: %v", c.lacks, err)
			}
			with := c.o
			switch {
			case e.FitTokens > 0:
				with.CacheTokens, with.ContextSize = e.FitTokens, min(e.FitTokens, e.ContextSize)
			case e.FitSlots > 0:
				with.Slots = e.FitSlots
			default:
				return
			}
			if err := checkMemory(c.info, with, c.available, "here"); err != nil {
				t.Errorf("its own advice does not help: %v", err)
			}
		})
	}
	if err := checkMemory(i, Options{}, 1e10, "here"); err != nil {
		t.Error(err)
	}
}

func TestCheckMemoryOfThisMachine(t *testing.T) {
	if _, _, ok := cores.AvailableMemory(); !ok {
		t.Skip("SKIP: this system does not say how much memory is available")
	}
	i := eight()
	i.Footprint.Weights = math.MaxInt64
	if err := CheckMemory(i, Options{}); !errors.Is(err, ErrMemory) {
		t.Errorf("eight exabytes fit: %v", err)
	}
	if err := CheckMemory(Info{Name: "tiny", ContextTrained: 64}, Options{ContextSize: 64}); err != nil {
		t.Errorf("a tiny model does not fit: %v", err)
	}
}

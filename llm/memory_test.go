package llm

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/llm/gguf"
)

// eight is about Llama 3.1 8B in Q4_K_M.
func eight() gguf.Model {
	return gguf.Model{Name: "eight", ContextTrained: 131072,
		Footprint: gguf.Footprint{Weights: 4.9e9, Token: 128 << 10, Scratch: 400 << 10, Vocab: 128256}}
}

func TestEstimateMemory(t *testing.T) {
	i := eight()
	m := EstimateMemory(i, Options{})
	if m.Weights != 4.9e9 || m.Cache != 4096*128<<10 || m.State != 0 || m.Total() != m.Weights+m.Cache+m.Compute {
		t.Errorf("defaults: %+v", m)
	}
	for name, o := range map[string]Options{"context": {ContextSize: 8192}, "cache": {CacheTokens: 8192},
		"batch": {BatchSize: 512}, "slots": {Slots: 32}} {
		if n := EstimateMemory(i, o); n.Total() <= m.Total() {
			t.Errorf("more %s does not need more: %+v", name, n)
		}
	}
	i.Footprint.State = 1e6
	if n := EstimateMemory(i, Options{Slots: 4}); n.State != 12e6 {
		t.Errorf("state of 4 slots and 8 pins: %d", n.State)
	}
	if n := EstimateMemory(gguf.Model{}, Options{Slots: -1, CacheTokens: -5, BatchSize: -3}); n.Total() < 0 {
		t.Errorf("options that Open refuses: %+v", n)
	}
}

func TestCheckMemorySaysWhatToLower(t *testing.T) {
	i, copied := eight(), eight()
	copied.Footprint.Repacked = 4.5e9
	for name, c := range map[string]struct {
		file      gguf.Model
		o         Options
		available int64
		says      []string
		lacks     string
	}{
		"smaller cache": {i, Options{ContextSize: 4096, CacheTokens: 65536}, 7e9,
			[]string{"lower CacheTokens to ", "KV cache of 65536 tokens 8.6 GB", "7.0 GB are available (here)"},
			"ContextSize"},
		"smaller context": {i, Options{ContextSize: 65536}, 7e9,
			[]string{"lower ContextSize from 65536 to ", " are missing"}, "CacheTokens to"},
		"both": {i, Options{ContextSize: 32768, CacheTokens: 65536}, 6e9,
			[]string{"lower ContextSize from 32768 and CacheTokens to "}, "Slots"},
		"another model": {i, Options{}, 4e9, []string{"take a smaller model", "mapped"}, "lower"},
		"nothing fits":  {i, Options{}, 4e8, []string{"take a smaller model"}, "mapped"},
		"slots": {gguf.Model{Name: "r", ContextTrained: 4096,
			Footprint: gguf.Footprint{Weights: 1e9, State: 1e8}}, Options{Slots: 16}, 26e8,
			[]string{"lower Slots from 16 to ", "state of 16 slots"}, "ContextSize"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkMemory(c.file, c.o, c.available, "here")
			var e *MemoryError
			if !errors.Is(err, ErrMemory) || !errors.As(err, &e) || e.Need.Total() <= e.Available ||
				e.Available != c.available {
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
			if err := checkMemory(c.file, with, c.available, "here"); err != nil {
				t.Errorf("its own advice does not help: %v", err)
			}
		})
	}
	if err := checkMemory(i, Options{}, 1e10, "here"); err != nil {
		t.Error(err)
	}
}

func TestCheckMemoryOfThisMachine(t *testing.T) {
	available, source, known := cores.AvailableMemory()
	if !known {
		t.Skip("SKIP: this system does not say how much memory is available")
	}
	i := eight()
	i.Footprint.Weights = math.MaxInt64
	if err := checkMemory(i, Options{}, available, source); !errors.Is(err, ErrMemory) {
		t.Errorf("eight exabytes fit: %v", err)
	}
	tiny := gguf.Model{Name: "tiny", ContextTrained: 64}
	if err := checkMemory(tiny, Options{ContextSize: 64}, available, source); err != nil {
		t.Errorf("a tiny model does not fit: %v", err)
	}
}

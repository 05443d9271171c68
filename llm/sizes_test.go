package llm

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm/gguf"
)

func TestChooseSizes(t *testing.T) {
	small := gguf.Model{Name: "small", ContextTrained: 8192, Types: []string{"Q4_1", "Q8_0"},
		Footprint: gguf.Footprint{Weights: 85e6, Token: 23 << 10, Scratch: 30 << 10, Vocab: 49152}}
	short, mixed, other := small, small, small
	short.ContextTrained, mixed.Types, other.Types = 512, []string{"Q4_K", "Q6_K"}, []string{"Q4_K", "Q3_K"}
	for name, c := range map[string]struct {
		file      gguf.Model
		o         Options
		threads   int
		available int64
		isa       string
		want      Sizes
		says      string
	}{
		"one core":         {small, Options{}, 1, 8e9, "avx2", Sizes{4, 8192, 64, 4, ""}, "4 slots a thread of 1"},
		"two cores":        {small, Options{}, 2, 8e9, "avx2", Sizes{8, 16384, 64, 8, ""}, "a thread of 2"},
		"many cores":       {small, Options{}, 64, 8e9, "avx2", Sizes{16, 32768, 128, 16, ""}, "4 to 16"},
		"memory not known": {small, Options{}, 2, 0, "avx2", Sizes{8, 16384, 64, 8, ""}, "a thread of 2"},
		"little memory":    {small, Options{}, 2, 15e8, "avx2", Sizes{4, 8192, 64, 4, ""}, "a quarter of 1.5 GB"},
		"no memory":        {small, Options{}, 2, 1e8, "avx2", Sizes{1, 4096, 64, 1, ""}, "a quarter of 100 MB"},
		"short context":    {short, Options{}, 2, 8e9, "avx2", Sizes{8, 4096, 64, 8, ""}, ""},
		"wide context": {small, Options{ContextSize: 8192, Slots: 1}, 2, 8e9, "avx2", Sizes{1, 8192, 64, 1, ""},
			""},
		"as set": {small, Options{Slots: 3, CacheTokens: 5000, BatchSize: 32}, 2, 1e8, "avx2",
			Sizes{3, 5000, 32, 3, ""}, "slots as set"},
		"types whose bits depend on the batch": {other, Options{}, 2, 8e9, "avx512vnni", Sizes{8, 16384, 64, 1, ""},
			"other types than Q4_0, Q4_1, Q8_0, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K may"},
		"K types":        {mixed, Options{}, 2, 8e9, "avx2", Sizes{8, 16384, 64, 8, ""}, "a thread of 2"},
		"K types on AMX": {mixed, Options{}, 2, 8e9, "amx", Sizes{8, 16384, 64, 8, ""}, "a thread of 2"},
		"K types on Arm": {mixed, Options{}, 2, 8e9, "dotprod", Sizes{8, 16384, 64, 1, ""}, "one request at a time"},
		"types not known": {gguf.Model{ContextTrained: 8192}, Options{}, 2, 8e9, "amx",
			Sizes{8, 16384, 64, 1, ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ChooseSizes(c.file, c.o, c.threads, c.available, c.isa)
			if !strings.Contains(got.Reason, c.says) {
				t.Errorf("the reason %q does not say %q", got.Reason, c.says)
			}
			if got.Reason = ""; got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			o := c.o
			o.Slots, o.CacheTokens, o.BatchSize = got.Slots, got.CacheTokens, got.BatchTokens
			if _, err := o.withDefaults(c.file); err != nil {
				t.Errorf("Open would refuse it: %v", err)
			}
		})
	}
}

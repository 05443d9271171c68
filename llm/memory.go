package llm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/sluice-rag/sluice/llm/gguf"
)

// ErrMemory: the model with these options needs more memory than there is; see MemoryError.
var ErrMemory = errors.New("not enough memory")

// EnvGPULibrary names the environment variable that Options.GPULibrary is taken from where that is "".
const EnvGPULibrary = "SLUICE_LLAMA_CUDA"

func (o Options) gpuLibrary() string {
	return cmp.Or(o.GPULibrary, os.Getenv(EnvGPULibrary), "libggml-cuda.so")
}

// maxPins is how many sequences the binding keeps beside the slots (kPins of llm/binding/engine.h).
const maxPins = 8

// EstimateMemory returns what a model holds when it is opened with these options. Options that Open would refuse are
// taken as they are. The share of the layers that is offloaded counts as GPU memory (Memory.GPU), not in Total.
func EstimateMemory(m gguf.Model, o Options) gguf.Memory {
	o, _ = o.withDefaults(m)
	return m.Footprint.Memory(gguf.Sizes{Cells: o.CacheTokens, Batch: o.BatchSize, Slots: o.Slots,
		Sequences: max(o.Slots, 1) + maxPins, GPULayers: o.GPULayers})
}

// MemoryError says what a model needs, what there is, and what to lower. It unwraps to ErrMemory.
type MemoryError struct {
	Model     string
	Need      gguf.Memory
	Available int64  // bytes
	Source    string // what Available is: "free memory of the machine", "memory limit of the control group"
	// The options, and the value to lower one of them to; both zero: no value would fit.
	ContextSize, CacheTokens, Slots int
	FitTokens, FitSlots             int
}

func (e *MemoryError) Unwrap() error { return ErrMemory }

func (e *MemoryError) Error() string {
	var b strings.Builder
	n, total := e.Need, e.Need.Total()
	fmt.Fprintf(&b, "llm: %s: %v: it needs about %s (weights %s, KV cache of %d tokens %s",
		e.Model, ErrMemory, bytesText(total), bytesText(n.Weights), e.CacheTokens, bytesText(n.Cache))
	if n.State > 0 {
		fmt.Fprintf(&b, ", state of %d slots %s", e.Slots, bytesText(n.State))
	}
	fmt.Fprintf(&b, ", scratch %s), %s are available (%s), %s are missing; ",
		bytesText(n.Compute), bytesText(e.Available), e.Source, bytesText(total-e.Available))
	switch {
	case e.FitTokens >= e.ContextSize && e.FitTokens > 0:
		fmt.Fprintf(&b, "lower CacheTokens to %d", e.FitTokens)
	case e.FitTokens > 0 && e.CacheTokens > e.ContextSize:
		fmt.Fprintf(&b, "lower ContextSize from %d and CacheTokens to %d", e.ContextSize, e.FitTokens)
	case e.FitTokens > 0:
		fmt.Fprintf(&b, "lower ContextSize from %d to %d", e.ContextSize, e.FitTokens)
	case e.FitSlots > 0:
		fmt.Fprintf(&b, "lower Slots from %d to %d", e.Slots, e.FitSlots)
	default:
		b.WriteString("take a smaller model or one with fewer bits per weight")
	}
	if total-n.Mapped <= e.Available {
		fmt.Fprintf(&b, " (%s of the weights are mapped from the file, as page cache: without this check the model would open, and "+
			"read them from the disk again and again)", bytesText(n.Mapped))
	}
	return b.String()
}

// minHintTokens is the smallest context that a hint proposes: a smaller one holds no question with passages.
const minHintTokens = 512

// checkMemory returns a *MemoryError for a model that does not fit the available memory. Weights that are in the page
// cache already count as available.
func checkMemory(m gguf.Model, o Options, available int64, source string) error {
	o, _ = o.withDefaults(m)
	need := EstimateMemory(m, o)
	if need.Total() <= available {
		return nil
	}
	e := &MemoryError{Model: m.Name, Need: need, Available: available, Source: source,
		ContextSize: o.ContextSize, CacheTokens: o.CacheTokens, Slots: o.Slots}
	fits := func(change func(*Options, int), n int) bool {
		with := o
		change(&with, n)
		return EstimateMemory(m, with).Total() <= available
	}
	tokens := func(o *Options, n int) {
		o.CacheTokens, o.ContextSize = n, min(n, o.ContextSize)
		o.BatchSize = min(o.BatchSize, n)
	}
	slots := func(o *Options, n int) { o.Slots = n }
	if n := largestFitting(o.CacheTokens/gguf.CellMultiple, func(n int) bool {
		return fits(tokens, n*gguf.CellMultiple)
	}) * gguf.CellMultiple; n >= minHintTokens {
		e.FitTokens = n
	} else {
		e.FitSlots = largestFitting(o.Slots-1, func(n int) bool { return fits(slots, n) })
	}
	return e
}

// largestFitting returns the largest n from 1 to limit that is good, where everything below a good one is good, else 0.
func largestFitting(limit int, good func(int) bool) int {
	return sort.Search(limit, func(smaller int) bool { return !good(smaller + 1) })
}

// bytesText writes a size for people.
func bytesText(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.0f MB", float64(n)/1e6)
}

package llm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/llm/gguf"
)

var (
	// ErrPooling: neither the file nor the options say how the vectors of tokens become one of the text.
	ErrPooling = errors.New("the pooling is not known")
	// ErrEncode: llama.cpp failed while it computed vectors, or they are not finite.
	ErrEncode = errors.New("encoding failed")
)

// poolings are the kinds of pooling by their numbers in GGUF's <architecture>.pooling_type and llama.cpp.
var poolings = []string{"", "mean", "cls", "last"}

// EncoderTexts is the most texts of one decode of an Encoder.
const EncoderTexts = 32

// EncoderOptions say how to run a model for vectors of texts. Zero values are defaults.
type EncoderOptions struct {
	Pooling     string        // mean, cls or last; "": what the file says (<architecture>.pooling_type)
	MaxTokens   int           // of a text; 0: what the model was trained for, at most 2048
	BatchTokens int           // of one decode, at least MaxTokens; 0: the larger one of 512 and MaxTokens
	Threads     int           // of one decode; 0: every core this process may use
	Cores       *cores.Budget // of the process; each decode takes its threads from it. nil: no budget
}

const (
	defaultMaxTokens   = 2048
	defaultBatchTokens = 512
	maxEncoderTokens   = 1 << 16
)

func (o EncoderOptions) withDefaults(m gguf.Model) (EncoderOptions, error) {
	if o.Pooling == "" {
		switch {
		case m.Pooling == 4:
			return o, fmt.Errorf("llm: %s: %w: it is a reranker (%s.pooling_type rank), which gives no vectors", m.Path,
				ErrPooling, m.Architecture)
		case m.Pooling < 1:
			return o, fmt.Errorf("llm: %s: %w: the file has no %s.pooling_type, as generators have none; "+
				"write pooling: mean, cls or last in the model.yaml of its folder", m.Path, ErrPooling, m.Architecture)
		}
		if m.Pooling < len(poolings) {
			o.Pooling = poolings[m.Pooling]
		}
	}
	if slices.Index(poolings, o.Pooling) < 1 {
		return o, fmt.Errorf("llm: %s: %w: %q; mean, cls or last expected", m.Path, ErrPooling,
			cmp.Or(o.Pooling, fmt.Sprint(m.Pooling)))
	}
	o.MaxTokens = cmp.Or(o.MaxTokens, min(m.ContextTrained, defaultMaxTokens))
	o.BatchTokens = cmp.Or(o.BatchTokens, max(o.MaxTokens, defaultBatchTokens))
	o.Threads = cmp.Or(o.Threads, min(cores.Available(), maxThreads))
	switch limit := min(m.ContextTrained, maxEncoderTokens); {
	case o.MaxTokens < 1 || o.MaxTokens > limit:
		return o, optionError("max tokens %d is not between 1 and %d, what %s reads", o.MaxTokens, limit, m.Name)
	case o.BatchTokens < o.MaxTokens || o.BatchTokens > maxEncoderTokens:
		return o, optionError("batch tokens %d is not between max tokens %d and %d", o.BatchTokens, o.MaxTokens,
			maxEncoderTokens)
	case o.Threads < 1 || o.Threads > maxThreads:
		return o, optionError("%d threads are not between 1 and %d", o.Threads, maxThreads)
	}
	return o, nil
}

// checkMemory returns a *MemoryError for a model that does not fit beside what runs on this machine now.
func (o EncoderOptions) checkMemory(m gguf.Model) error {
	available, source, known := cores.AvailableMemory()
	need := m.Footprint.Memory(gguf.Sizes{Cells: o.BatchTokens, Batch: o.BatchTokens, Slots: 1,
		Sequences: EncoderTexts})
	if !known || need.Total() <= available {
		return nil
	}
	return &MemoryError{Model: m.Name, Need: need, Available: available, Source: source, ContextSize: o.MaxTokens,
		CacheTokens: o.BatchTokens, Slots: EncoderTexts}
}

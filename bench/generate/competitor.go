package generate

import (
	"context"
	"time"
)

// batch is the work of one round: all prompts are sent at once and answered greedily.
type batch struct {
	Prompts   []string `json:"prompts"`
	MaxTokens int      `json:"max_tokens"` // per prompt
}

// batchResult is a competitor's measurement of a batch.
type batchResult struct {
	Wall        time.Duration `json:"wall"`        // from the first request to the last end
	Completions []completion  `json:"completions"` // in the order of the prompts
}

// completion is one answer, with what the competitor reports about it.
type completion struct {
	First   time.Duration `json:"first"`   // from request to first text, or to the end if there is no text
	Latency time.Duration `json:"latency"` // from request to end
	Prompt  int           `json:"prompt"`  // tokens
	Cached  int           `json:"cached"`  // tokens of the prompt that were in the cache
	Made    int           `json:"made"`    // tokens, without the end-of-turn token
	Stopped bool          `json:"stopped"` // ended by the model
	Text    string        `json:"text"`

	PromptTime time.Duration `json:"prompt_time"` // from its beginning to its first token
	DecodeTime time.Duration `json:"decode_time"` // from there to the end
}

// rate returns the tokens per second of all requests of a batch together.
func (r batchResult) rate() float64 {
	return float64(r.sum(func(c completion) int { return c.Made })) / r.Wall.Seconds()
}

func (r batchResult) sum(of func(completion) int) (n int) {
	for _, c := range r.Completions {
		n += of(c)
	}
	return n
}

// milliseconds returns one time of every request, in milliseconds.
func (r batchResult) milliseconds(of func(completion) time.Duration) (out []float64) {
	for _, c := range r.Completions {
		out = append(out, float64(of(c))/float64(time.Millisecond))
	}
	return out
}

// competitor answers batches. It runs in a process.
type competitor interface {
	name() string
	run(context.Context, batch) (batchResult, error)
	process() int
	close() error
}

// capacity holds the sizes that a competitor is started with.
type capacity struct {
	Model   string `json:"model"`
	Slots   int    `json:"slots"`
	Cells   int    `json:"cells"` // of the KV cache, per slot
	Batch   int    `json:"batch"`
	Threads int    `json:"threads"`
	// for OnGPU
	GPULayers  int    `json:"gpu_layers,omitempty"`
	GPULibrary string `json:"gpu_library,omitempty"`
	HostRAM    bool   `json:"-"` // llama-server may keep prompts in memory beside its KV cache, as it does by default
}

func firstToken(c completion) time.Duration { return c.First }
func latency(c completion) time.Duration    { return c.Latency }

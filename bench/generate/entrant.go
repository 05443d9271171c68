package generate

import (
	"context"
	"time"
)

// batch is what an entrant answers in one turn: all prompts at once, greedily.
type batch struct {
	Prompts   []string `json:"prompts"`
	MaxTokens int      `json:"max_tokens"` // of each
}

// turn is what came of a batch.
type turn struct {
	Wall time.Duration `json:"wall"` // from the first request to the last end
	Done []completion  `json:"done"` // in the order of the prompts
}

// completion is one answer, with what its entrant said of it.
type completion struct {
	First   time.Duration `json:"first"`   // from request to first text; to the end when there is none
	Latency time.Duration `json:"latency"` // from request to end
	Prompt  int           `json:"prompt"`  // tokens
	Cached  int           `json:"cached"`  // of the prompt, not computed again
	Made    int           `json:"made"`    // tokens, without the one that ends a turn
	Stopped bool          `json:"stopped"` // the model ended it
	Text    string        `json:"text"`

	PromptTime time.Duration `json:"prompt_time"` // from its beginning to its first token
	DecodeTime time.Duration `json:"decode_time"` // from there to the end
}

// rate is the tokens a second that all of a turn's requests got together.
func (t turn) rate() float64 {
	return float64(t.sum(func(c completion) int { return c.Made })) / t.Wall.Seconds()
}

func (t turn) sum(of func(completion) int) (n int) {
	for _, c := range t.Done {
		n += of(c)
	}
	return n
}

// milliseconds of one time of every request.
func (t turn) milliseconds(of func(completion) time.Duration) (out []float64) {
	for _, c := range t.Done {
		out = append(out, float64(of(c))/float64(time.Millisecond))
	}
	return out
}

// entrant answers batches, in a process.
type entrant interface {
	name() string
	run(context.Context, batch) (turn, error)
	process() int
	close() error
}

// capacity is what an entrant is started with.
type capacity struct {
	Model   string `json:"model"`
	Slots   int    `json:"slots"`
	Cells   int    `json:"cells"` // of the KV cache, for each slot
	Batch   int    `json:"batch"`
	Threads int    `json:"threads"`
	HostRAM bool   `json:"-"` // llama-server may keep prompts in memory beside its KV cache, as it does by default
}

func firstToken(c completion) time.Duration { return c.First }
func latency(c completion) time.Duration    { return c.Latency }

package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/llm/gguf"
)

// Generator is what the rest of Sluice needs of a language model. All methods may be called concurrently.
type Generator interface {
	// Generate answers a request. stream, when not nil, is called on the caller's goroutine with each piece of text as
	// it is made; pieces are whole UTF-8 runes and add up to Result.Text. An error of stream ends the request and is
	// returned unchanged. When ctx ends, Generate returns ctx.Err() at once, with the text so far. ctx carries the
	// request's Scope.
	Generate(ctx context.Context, req Request, stream func(piece string) error) (Result, error)
	// CountTokens returns how many tokens a text is as a prompt, with the ones that the model puts at its beginning.
	CountTokens(text string) (int, error)
	// ContextSize returns the maximum of tokens of one request, prompt and completion together.
	ContextSize() int
	Info() Info
}

// Role says whose turn a message is.
type Role string

const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // the outcome of a ToolCall
)

// Message is one turn of a conversation.
type Message struct {
	Role       Role
	Content    string
	ToolCalls  []ToolCall // of an assistant's turn: what it asked for
	ToolCallID string     // of a tool's turn: which call it answers
}

// Request is a prompt and how to continue it. Zero values mean greedy sampling, no truncation, no penalty, and as many
// tokens as the context allows.
type Request struct {
	// Messages are formatted with the model's chat template, which opens the assistant's turn; Prompt is used
	// unchanged. Set one of the two. Contents of messages are literal: a control token that they spell is ordinary
	// text. In a Prompt, special tokens written out count as such. Invalid UTF-8, and U+FDD0 in contents, is read as
	// U+FFFD.
	Messages []Message
	Prompt   string

	// Tools are what the model may call, with messages only; ToolChoice says whether it must. A model whose
	// chat template has no way for them is told in its system message what to write.
	Tools      []Tool
	ToolChoice string // "", "auto": the model chooses; "none"; "required": one of them; or the name of one

	Thinking Thinking // before the answer to Messages; the zero value: none

	MaxTokens     int     // of the completion, thinking included; 0: until the context is full
	Temperature   float64 // 0: greedy, always the most probable token; the settings up to MinP are then without effect
	TopK          int     // sample from the k most probable tokens; 0: off
	TopP          float64 // in (0, 1]; sample from the smallest set with at least this probability; 0: off
	MinP          float64 // in [0, 1]; drop tokens below this share of the best one's probability; 0: off
	RepeatPenalty float64 // > 0; logits of the last 64 tokens are divided by it; 0 and 1: off
	// FrequencyPenalty times how often a token is among the last 64 is taken from its logit, PresencePenalty if it is
	// there at all; both in [-2, 2] as in OpenAI's API, 0: off.
	FrequencyPenalty, PresencePenalty float64
	NoRepeatNGram                     int // no sequence of this many tokens comes twice in a completion; 0: off
	// Seed of the sampling, at most MaxSeed. The same seed gives the same text for the same request on the same
	// machine: beside any other requests for weights in Q4_0, Q4_1 and Q8_0, with AMX also F16, Q4_K, Q5_K, Q6_K and
	// IQ4_XS; for other types while nothing else is decoded, because the last bits of their products depend on the
	// batch (docs/adr/0011-ggml.md). Negative: a random seed, which Result.Seed has.
	Seed int64
	Stop []string // generation ends before the first of these; valid UTF-8, not empty, no NUL

	// Grammar, in GBNF with a rule "root", or Schema, a JSON Schema, is what the completion must follow; set at most
	// one of them. A completion that ends with FinishStop follows it to the end, one that a limit cut short may be only
	// a beginning. Package grammar describes what a Schema may say.
	Grammar string
	Schema  json.RawMessage

	LogProbs     bool // fill Result.LogProbs
	Alternatives int  // how many of the most probable tokens each LogProbs entry lists; at most 20

	// Priority decides which waiting request starts first: the one with the highest, among equals the one whose ctx
	// ends first, then the oldest. Running requests are not interrupted; but for half a minute after a request with
	// Interactive or more, requests below 0 leave one of several slots free for the next one.
	Priority int
}

// Usual values of Request.Priority.
const (
	Batch       = -1
	Interactive = 1
)

// FinishReason says why a completion ended.
type FinishReason string

const (
	FinishStop      FinishReason = "stop"       // the model ended its turn, or a stop string came up
	FinishLength    FinishReason = "length"     // MaxTokens
	FinishContext   FinishReason = "context"    // the context is full
	FinishCancelled FinishReason = "cancelled"  // ctx, the stream function or Close
	FinishTools     FinishReason = "tool_calls" // the model asked for tools: Result.ToolCalls
)

// Result is a completion. When Generate fails it holds what there was by then.
type Result struct {
	Text             string     // the answer
	Thought          string     // what the model wrote for itself before it
	ToolCalls        []ToolCall // when Finish is FinishTools; those that are complete with FinishLength, FinishContext
	PromptTokens     int
	CachedTokens     int // of the prompt, taken from the KV cache of an earlier request of the same Scope
	CompletionTokens int // the end-of-turn token not counted
	ThoughtTokens    int // of the completion, up to the answer
	Finish           FinishReason
	Seed             int64
	LogProbs         []TokenLogProb // one per token of the completion, if asked for
	QueueTime        time.Duration  // waiting for a slot
	PromptTime       time.Duration  // from slot to first token
	// from first token to end: CompletionTokens-1 decodes, one more when the model ended the completion
	DecodeTime time.Duration
}

// TokenLogProb is a token and the natural logarithm of its probability at its place, at temperature 1 and before
// penalties, grammar and truncation. Text is what it adds, which may be a part of a rune.
type TokenLogProb struct {
	Token   int32
	Text    string
	LogProb float64
	Top     []TokenLogProb // the most probable tokens, best first, without alternatives of their own
}

// Info describes a model.
type Info struct {
	Name, Path     string
	SHA256         string // of the file; of the first one when the model is split
	Architecture   string
	Description    string // architecture, parameters, quantisation
	Parameters     int64
	ContextTrained int    // tokens the model was trained to read
	Embedding      int    // width of its hidden state
	ChatTemplate   string // Jinja source; empty when the file has none
	Bytes          int64  // size on disk
}

// Identity returns the SHA-256 of the model's file, or the name of a model without one.
func (i Info) Identity() string { return cmp.Or(i.SHA256, i.Name) }

// Options say how to run a model. Zero values are defaults.
type Options struct {
	Digest      string // SHA-256 of the file, where it is known; empty: Info reads the file
	ContextSize int    // maximum of tokens of one request; 0: what the model was trained for, at most 4096
	Slots       int    // requests decoded together, at most 64; 0: 4
	Queue       int    // requests that may wait for a slot; one more fails with ErrBusy. 0: 1024, negative: none
	// CacheTokens is the size of the KV cache, which all slots share. A request waits until prompt and MaxTokens fit
	// beside the running ones, so it never runs out later. 0: ContextSize.
	CacheTokens int
	BatchSize   int // tokens of one decode, hence of the pieces a prompt is read in; Slots to 2048; 0: 64
	Threads     int // of one decode; 0: every core this process may use. See the package comment
	GPULayers   int // layers to offload to a GPU; ErrGPU where that cannot be done
	// GPULibrary is llama.cpp's back-end for GPUs, which is opened when GPULayers ask for it, and stays open. "": what
	// the environment variable SLUICE_LLAMA_CUDA names, else libggml-cuda.so where the system finds libraries.
	GPULibrary string
	LoRA       string // path of a LoRA adapter in GGUF that every request goes through; empty: none
	// Acquire, when set, is called before each decode on the scheduler's thread and returns how many threads it may use
	// (at least 1, at most Threads count) and a function that gives them back. It may block.
	Acquire func() (threads int, release func()) `json:"-"`
	// ChatTemplate replaces the one in the file: Jinja source or the name of one that llama.cpp has built in
	// ("chatml").
	ChatTemplate string
	Logger       *slog.Logger `json:"-"` // llama.cpp's log and ours; nil: slog.Default()
}

// MaxSeed is the largest Request.Seed.
const MaxSeed = math.MaxUint32 - 1 // MaxUint32 means "random" to llama.cpp

const (
	defaultContext  = 4096
	defaultSlots    = 4
	defaultBatch    = 64
	defaultQueue    = 1024
	maxAlternatives = 20 // as in OpenAI's API
	maxSlots        = 64
	maxBatch        = 2048
	maxThreads      = 512 // ggml's limit; beyond it asserts
	maxCells        = math.MaxInt32 / 2
	minContext      = 16
)

func optionError(format string, args ...any) error {
	return fmt.Errorf("llm: %w: %s", ErrOptions, fmt.Sprintf(format, args...))
}

// withDefaults fills in defaults and checks the options against the model, before llama.cpp can assert on them.
func (o Options) withDefaults(m gguf.Model) (Options, error) {
	o.ContextSize = cmp.Or(o.ContextSize, min(m.ContextTrained, defaultContext))
	o.Slots = cmp.Or(o.Slots, defaultSlots)
	o.Queue = cmp.Or(o.Queue, defaultQueue)
	o.CacheTokens = cmp.Or(o.CacheTokens, o.ContextSize)
	o.Threads = cmp.Or(o.Threads, min(cores.Available(), maxThreads))
	o.Logger = cmp.Or(o.Logger, slog.Default())
	switch {
	case o.ContextSize < minContext || o.ContextSize > m.ContextTrained:
		return o, optionError("context size %d is not between %d and the %d tokens that %s was trained for",
			o.ContextSize, minContext, m.ContextTrained, m.Name)
	case o.Slots < 1 || o.Slots > maxSlots:
		return o, optionError("%d slots are not between 1 and %d", o.Slots, maxSlots)
	case o.CacheTokens < o.ContextSize || o.CacheTokens > maxCells:
		return o, optionError("a cache of %d tokens is not between the context size %d and %d",
			o.CacheTokens, o.ContextSize, maxCells)
	case o.Threads < 1 || o.Threads > maxThreads:
		return o, optionError("%d threads are not between 1 and %d", o.Threads, maxThreads)
	case o.GPULayers < 0:
		return o, optionError("%d GPU layers are less than 0", o.GPULayers)
	}
	o.BatchSize = cmp.Or(o.BatchSize, min(max(defaultBatch, o.Slots), o.CacheTokens))
	if limit := min(maxBatch, o.CacheTokens); o.BatchSize < o.Slots || o.BatchSize > limit {
		return o, optionError("batch size %d is not between the %d slots and %d", o.BatchSize, o.Slots, limit)
	}
	return o, nil
}

// Check returns ErrOptions if a setting of a request is out of range or contradicts another one. Generators call
// it.
func (r Request) Check() error {
	inUnit := func(v float64) bool { return v >= 0 && v <= 1 } // false for NaN
	switch {
	case len(r.Messages) > 0 && r.Prompt != "":
		return optionError("a request has either messages or a prompt, not both")
	case r.MaxTokens < 0 || r.MaxTokens > math.MaxInt32:
		return optionError("max tokens %d is not between 0 and %d", r.MaxTokens, math.MaxInt32)
	case !(r.Temperature >= 0 && r.Temperature <= 100):
		return optionError("temperature %v is not between 0 and 100", r.Temperature)
	case r.TopK < 0 || r.TopK > math.MaxInt32:
		return optionError("top-k %d is less than 0 or too large", r.TopK)
	case !inUnit(r.TopP):
		return optionError("top-p %v is not between 0 and 1", r.TopP)
	case !inUnit(r.MinP):
		return optionError("min-p %v is not between 0 and 1", r.MinP)
	case !(r.RepeatPenalty >= 0 && r.RepeatPenalty <= 100):
		return optionError("repeat penalty %v is not between 0 and 100", r.RepeatPenalty)
	case !(math.Abs(r.FrequencyPenalty) <= 2) || !(math.Abs(r.PresencePenalty) <= 2):
		return optionError("frequency penalty %v and presence penalty %v are not between -2 and 2",
			r.FrequencyPenalty, r.PresencePenalty)
	case r.NoRepeatNGram < 0 || r.NoRepeatNGram > math.MaxInt32:
		return optionError("no-repeat n-grams of %d tokens are less than 0 or too long", r.NoRepeatNGram)
	case r.Alternatives < 0 || r.Alternatives > maxAlternatives:
		return optionError("%d alternatives are not between 0 and %d", r.Alternatives, maxAlternatives)
	case r.Alternatives > 0 && !r.LogProbs:
		return optionError("%d alternatives need LogProbs", r.Alternatives)
	case r.Grammar != "" && len(r.Schema) > 0:
		return optionError("a request has either a grammar or a schema, not both")
	case r.Priority < math.MinInt32 || r.Priority > math.MaxInt32:
		return optionError("priority %d does not fit 32 bits", r.Priority)
	case r.Seed > MaxSeed:
		return optionError("seed %d is above %d", r.Seed, int64(MaxSeed))
	}
	for _, s := range r.Stop {
		if s == "" || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return optionError("stop string %q is empty, not UTF-8, or has a NUL", s)
		}
	}
	if err := r.Thinking.check(); err != nil {
		return err
	}
	return r.CheckTools()
}

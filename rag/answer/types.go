package answer

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/check"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// GateMode selects what decides whether Ask retrieves.
type GateMode string

// GateAuto asks the calibrated gate and always retrieves if the store has no calibration. GateOpen always retrieves,
// and GateClosed never does.
const (
	GateAuto   GateMode = "auto"
	GateOpen   GateMode = "open"
	GateClosed GateMode = "closed"
)

// Input is the input of Run: the question, the options, and the language model.
type Input struct {
	Question string
	Options
	Model     func(context.Context) (llm.Generator, error) // called when the model is needed
	Templates string                                       // folder of prompt templates; see prompt.Open
	// Named opens a language model by its name, for nodes that have a model of their own. It may be nil when no node
	// has one.
	Named func(ctx context.Context, name string) (llm.Generator, error)
	Web   Web // nil: no provider is configured, and the web is never searched
	// Cards holds the scorecards of language models. If it is nil, all models are trusted with every task.
	Cards Cards

	priority int // of the model's requests; 0 is llm.Interactive
}

// Options of Run: DefaultOptions, with what is to be otherwise.
type Options struct {
	Gate GateMode
	// Transform changes the question before the gate and the search, as in the paper. None costs no call of
	// the model.
	Transform prompt.Transform
	Style     Style        // of answers from passages; "" is Auto
	Strict    bool         // drop sentences that no passage supports from an answer from passages
	Own       prompt.Style // of answers from the model's own knowledge
	// Language of the answer; "" means the language of the question. The prompt then names that language if it is
	// known, unless it and the languages of all passages are English.
	Language string
	Template string       // of prompts with passages; see prompt.Options
	Order    prompt.Order // of the passages; "" is prompt.Forward
	// Compress is a token budget: the passages are reduced to the sentences nearest to the question. 0 keeps the
	// passages whole.
	Compress int
	Retrieve retrieve.Options

	MaxTokens int // of the answer; 0 is 256
	// Temperature of the answer; 0 is greedy in FlowAsk, and AnswerTemperature in graphs that lower it. A negative
	// value is greedy.
	Temperature float64
	// RepeatPenalty divides the scores of recent tokens; 0 and 1 disable it. Small models repeat themselves without it.
	RepeatPenalty float64
	NoRepeatNGram int // no sequence of this many tokens occurs twice in the answer; 0: off
	TopK          int
	TopP          float64
	Seed          int64

	// Parallel is the number of questions that Each answers concurrently. 0 takes the number that llm.ParallelOf
	// returns for the model, but at most 2 in a graph that grades its answers.
	Parallel int

	// Flow names one of Presets; "" is the shortest graph, "ask". Graph, if not nil, is a custom graph that is used
	// instead.
	Flow  string
	Graph *flow.Graph[*State]
	FlowOptions
	// History holds the turns of user and assistant before the question, oldest first. The newest turns that fit into a
	// quarter of the context window become part of the prompt. A question that depends on the previous one is also
	// searched for joined with that one (Standing). With Transform prompt.Condense, the language model rewrites it into
	// a self-contained question instead.
	History []llm.Message
	// Step is called after each node. Run calls it on the caller's goroutine. Each never calls it concurrently, also
	// for different questions.
	Step func(flow.Step)

	// Start is called before the first piece of the answer with the part of the trace known by then. Stream is called
	// with each piece; the pieces concatenate to Answer.Answer. An error of Stream ends the answer.
	Start  func(Trace)
	Stream func(piece string) error
	// Sources is called after Start with the passages of the prompt, before it is known which of them the answer cites.
	Sources func([]prompt.Citation)
}

// Mode is where an answer comes from.
type Mode string

// The modes of an answer.
const (
	FromContext      Mode = "context"
	FromOwnKnowledge Mode = "own knowledge"
)

// Notice returns a sentence that tells the reader what a mode means, "" for FromContext.
func (m Mode) Notice() string {
	if m == FromOwnKnowledge {
		return "answered from the model's own knowledge; the knowledge base was not used"
	}
	return ""
}

// noGate is the notice of an answer from a store without a calibration.
const noGate = "no gate yet: the store answers every question until 'sluice calibrate' has made one"

// Answer is the result of Run. `ask --json` prints its JSON, with the id of the answer as first field.
type Answer struct {
	Answer    string            `json:"answer"`
	Retrieved bool              `json:"retrieved"`           // contexts were in the prompt
	Truncated bool              `json:"truncated,omitempty"` // the model was stopped at Options.MaxTokens or its window
	Citations []prompt.Citation `json:"citations"`
	// Nearest holds the passages nearest to an unanswered question (Trace.Outcome is flow.Unknown), with their texts.
	// They are not sources of the answer.
	Nearest []prompt.Citation `json:"nearest,omitempty"`
	Trace   Trace             `json:"trace"`
}

// Trace records how an answer was found.
type Trace struct {
	Mode              Mode                `json:"mode"`
	Style             Style               `json:"style"`                  // of the answer
	StyleReason       string              `json:"style_reason,omitempty"` // set if the scorecard chose the style
	Notice            string              `json:"notice,omitempty"`
	GateMode          GateMode            `json:"gate_mode"`
	Gate              *gate.Decision      `json:"gate,omitempty"`    // absent when the gate was not asked
	NoGate            bool                `json:"no_gate,omitempty"` // GateAuto, and the store has no calibration
	Transform         prompt.Transform    `json:"transform"`
	TransformFailed   bool                `json:"transform_failed,omitempty"` // the transformation gave no query
	Queries           []string            `json:"queries"`                    // what was searched for
	LLMCalls          int                 `json:"llm_calls"`
	Checked           []check.Sentence    `json:"checked,omitempty"` // of an answer written from passages
	Ranking           *retrieve.Taken     `json:"ranking,omitempty"` // how the first query's contexts were found
	Retrieved         []retrieve.Result   `json:"retrieved"`
	Template          string              `json:"template"`
	Order             prompt.Order        `json:"order,omitempty"`    // of the passages in the prompt
	Language          string              `json:"language,omitempty"` // named in the prompt
	Compression       *prompt.Compression `json:"compression,omitempty"`
	PromptTokens      int                 `json:"prompt_tokens"`
	AnswerTokens      int                 `json:"answer_tokens"`
	DroppedPassages   int                 `json:"dropped_passages"`            // did not fit the window
	TruncatedPassages int                 `json:"truncated_passages"`          // shortened to fit the window
	RemovedCitations  int                 `json:"removed_citations,omitempty"` // of passages that do not exist
	Finish            llm.FinishReason    `json:"finish"`
	Encoder           string              `json:"encoder,omitempty"`
	Model             string              `json:"model"`
	// remote server that received the question and the passages
	Remote  string      `json:"remote,omitempty"`
	Flow    string      `json:"flow"`    // the graph that the question went through
	Steps   []flow.Step `json:"steps"`   // the nodes that were visited, in order
	Retries int         `json:"retries"` // retry edges taken
	// Outcome is flow.Unknown if no answer passed the checks. Answer.Answer is then IDontKnow, and Why names the limit
	// that was reached.
	Outcome      flow.Outcome  `json:"outcome"`
	Temperatures *Temperatures `json:"temperatures,omitempty"` // of a graph that changes them, at its end
	Why          flow.Limit    `json:"why,omitempty"`
	Milliseconds Timings       `json:"ms"`
}

// Temperatures of language models.
type Temperatures struct {
	Answer   float64 `json:"answer"`
	Rewriter float64 `json:"rewriter"`
}

// Timings holds wall times in milliseconds. Load is the time for loading models, 0 if they were loaded already.
type Timings struct {
	Load      float64 `json:"load"`
	Embed     float64 `json:"embed"`
	Gate      float64 `json:"gate"`
	Transform float64 `json:"transform"`
	Retrieve  float64 `json:"retrieve"`
	Prompt    float64 `json:"prompt"`
	Generate  float64 `json:"generate"`
	Check     float64 `json:"check"`     // of what the model wrote, within Generate
	Sentences float64 `json:"sentences"` // nearest to the question, after the answer
	Total     float64 `json:"total"`
}

// DefaultMaxTokens is the default of Options.MaxTokens.
const DefaultMaxTokens = 256

// DefaultOptions are those of an answer that nothing else is said of: the gate is asked, four contexts are taken, and
// the likeliest words.
func DefaultOptions() Options {
	return Options{Gate: GateAuto, Transform: prompt.None, Style: Auto, Own: prompt.FewShot, Order: prompt.Forward,
		Retrieve: retrieve.DefaultOptions(), MaxTokens: DefaultMaxTokens}
}

func (o Options) withDefaults() (Options, error) {
	if o.Gate == "" {
		o.Gate = GateAuto
	}
	if o.Transform == "" {
		o.Transform = prompt.None
	}
	if o.Style == "" {
		o.Style = Auto
	}
	if !slices.Contains(Styles(), o.Style) {
		return o, fmt.Errorf("%w: style %q is none of %v", knowledge.ErrOption, o.Style, Styles())
	}
	if o.Own == "" {
		o.Own = prompt.FewShot
	}
	if o.Order == "" {
		o.Order = prompt.Forward
	}
	if !slices.Contains(prompt.Orders(), o.Order) {
		return o, fmt.Errorf("%w: order %q is none of %v", knowledge.ErrOption, o.Order, prompt.Orders())
	}
	if o.Compress < 0 {
		return o, fmt.Errorf("%w: passages of %d tokens", knowledge.ErrOption, o.Compress)
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = DefaultMaxTokens
	}
	if err := checkHistory(o.History); err != nil {
		return o, err
	}
	if !slices.Contains([]GateMode{GateAuto, GateOpen, GateClosed}, o.Gate) {
		return o, fmt.Errorf("%w: gate %q (known: auto, open, closed)", knowledge.ErrOption, o.Gate)
	}
	if o.MaxTokens < 0 || o.Parallel < 0 {
		return o, fmt.Errorf("%w: %d answer tokens, %d questions at a time", knowledge.ErrOption, o.MaxTokens,
			o.Parallel)
	}
	return o, o.Retrieve.Check()
}

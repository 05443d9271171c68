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

// GateMode says who decides whether Ask retrieves.
type GateMode string

// The modes: the calibrated gate, or always as long as the store has no calibration; always; never.
const (
	GateAuto   GateMode = "auto"
	GateOpen   GateMode = "open"
	GateClosed GateMode = "closed"
)

// Input of Run: the question, the options, and the language model.
type Input struct {
	Question string
	Options
	Model     func(context.Context) (llm.Generator, error) // called when the model is needed
	Templates string                                       // folder of prompt templates, as prompt.Open takes it
	// Named opens a language model by its name, for nodes that have a model of their own. It may be nil when no node
	// has one.
	Named func(ctx context.Context, name string) (llm.Generator, error)
	Web   Web // nil: no provider is named, and the web is never searched
	// Cards says what language models may be trusted with; nil: with everything.
	Cards Cards

	priority int // of the model's requests; 0 is llm.Interactive
}

// Options of Run. The zero value asks the gate, takes four contexts and answers greedily.
type Options struct {
	Gate GateMode
	// Transform changes the question before the gate and the search, as in the paper. None costs no call of
	// the model.
	Transform prompt.Transform
	Style     Style        // of answers from passages; "" is Auto
	Strict    bool         // leave out what no passage backs of an answer from passages
	Own       prompt.Style // of answers from the model's own knowledge
	// Language of the answer; "" is the question's, which is named to the model where it is known and not English, or
	// where passages are in another one.
	Language string
	Template string       // of prompts with passages, as prompt.Options has it
	Order    prompt.Order // of the passages; "" is prompt.Forward
	// Compress keeps of the passages the sentences nearest to the question, of so many tokens in all; 0 keeps all.
	Compress int
	Retrieve retrieve.Options

	MaxTokens int // of the answer; 0 is 256
	// Temperature of the answer; 0 is greedy in FlowAsk, and AnswerTemperature in graphs that lower it. A negative
	// value is greedy.
	Temperature float64
	// RepeatPenalty divides the scores of recent tokens; 0 and 1 are off. Small models repeat themselves without.
	RepeatPenalty float64
	NoRepeatNGram int // no sequence of so many tokens comes twice in the answer; 0 is off
	TopK          int
	TopP          float64
	Seed          int64

	// Parallel is how many questions Each has under way; 0 is what pays for the model (llm.ParallelOf), and 2 at most
	// in a graph whose answers are graded.
	Parallel int

	// Flow names the graph that the question goes through, one of Presets; "" is the shortest one, "ask". Graph is a
	// graph of one's own, instead.
	Flow  string
	Graph *flow.Graph[*State]
	FlowOptions
	// History are the turns of user and assistant before the question, oldest first. The newest are part of the prompt
	// as far as a quarter of the window has room, and a question that leans on the one before is searched for joined
	// with it, too (Standing). Transform prompt.Condense has the language model make a question of it that stands for
	// itself instead.
	History []llm.Message
	// Step is told of each node that has finished: by Run on the caller's goroutine, by Each one at a time for all its
	// questions together.
	Step func(flow.Step)

	// Start is told what is known of the answer before its first piece comes; Stream gets the
	// pieces, which add up to Answer.Answer. An error of Stream ends the answer.
	Start  func(Trace)
	Stream func(piece string) error
	// Sources is told, after Start, which passages the prompt has; what the answer cites of them is not known yet.
	Sources func([]prompt.Citation)
}

// Mode is where an answer comes from.
type Mode string

// The modes of an answer.
const (
	FromContext      Mode = "context"
	FromOwnKnowledge Mode = "own knowledge"
)

// Notice says in words what a mode means for the reader; "" for FromContext.
func (m Mode) Notice() string {
	if m == FromOwnKnowledge {
		return "answered from the model's own knowledge; the knowledge base was not used"
	}
	return ""
}

// noGate is the notice of an answer from a store that nobody has calibrated.
const noGate = "no gate yet: the store answers every question until 'sluice calibrate' has made one"

// Answer is the result of Run. `ask --json` prints its JSON, with the id of the answer as first field.
type Answer struct {
	Answer    string            `json:"answer"`
	Retrieved bool              `json:"retrieved"`           // contexts were in the prompt
	Truncated bool              `json:"truncated,omitempty"` // the model was stopped at Options.MaxTokens or its window
	Citations []prompt.Citation `json:"citations"`
	// Nearest are the passages nearest to a question that stayed without an answer (Trace.Outcome is flow.Unknown),
	// with their texts: no sources of the answer.
	Nearest []prompt.Citation `json:"nearest,omitempty"`
	Trace   Trace             `json:"trace"`
}

// Trace says how an answer came about.
type Trace struct {
	Mode              Mode                `json:"mode"`
	Style             Style               `json:"style"`                  // of the answer
	StyleReason       string              `json:"style_reason,omitempty"` // where the style was left to the scorecard
	Notice            string              `json:"notice,omitempty"`
	GateMode          GateMode            `json:"gate_mode"`
	Gate              *gate.Decision      `json:"gate,omitempty"`    // absent when the gate was not asked
	NoGate            bool                `json:"no_gate,omitempty"` // GateAuto, and the store has no calibration
	Transform         prompt.Transform    `json:"transform"`
	TransformFailed   bool                `json:"transform_failed,omitempty"` // it gave nothing to search for
	Queries           []string            `json:"queries"`                    // what was searched for
	LLMCalls          int                 `json:"llm_calls"`
	Checked           []check.Sentence    `json:"checked,omitempty"` // of an answer written from passages
	Ranking           *retrieve.Taken     `json:"ranking,omitempty"` // how the first query's contexts were found
	Retrieved         []retrieve.Result   `json:"retrieved"`
	Template          string              `json:"template"`
	Order             prompt.Order        `json:"order,omitempty"`    // of the passages in the prompt
	Language          string              `json:"language,omitempty"` // that the prompt asks to answer in
	Compression       *prompt.Compression `json:"compression,omitempty"`
	PromptTokens      int                 `json:"prompt_tokens"`
	AnswerTokens      int                 `json:"answer_tokens"`
	DroppedPassages   int                 `json:"dropped_passages"`            // did not fit the window
	TruncatedPassages int                 `json:"truncated_passages"`          // were shortened to fit
	RemovedCitations  int                 `json:"removed_citations,omitempty"` // named no passage
	Finish            llm.FinishReason    `json:"finish"`
	Encoder           string              `json:"encoder,omitempty"`
	Model             string              `json:"model"`
	// the server that question and passages were sent to
	Remote  string      `json:"remote,omitempty"`
	Flow    string      `json:"flow"`    // the graph that the question went through
	Steps   []flow.Step `json:"steps"`   // the nodes that were visited, in order
	Retries int         `json:"retries"` // how often it turned back
	// Outcome is flow.Unknown where no answer could be stood for: Answer says so in words then, and Why is the limit
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

// Timings are wall times in milliseconds. Load is what loading models took, 0 when they were loaded.
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

// DefaultMaxTokens of an answer.
const DefaultMaxTokens = 256

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
	o.Retrieve = o.Retrieve.WithDefaults()
	if !slices.Contains([]GateMode{GateAuto, GateOpen, GateClosed}, o.Gate) {
		return o, fmt.Errorf("%w: gate %q (known: auto, open, closed)", knowledge.ErrOption, o.Gate)
	}
	if o.MaxTokens < 0 || o.Parallel < 0 {
		return o, fmt.Errorf("%w: %d answer tokens, %d questions at a time", knowledge.ErrOption, o.MaxTokens,
			o.Parallel)
	}
	return o, o.Retrieve.Check()
}

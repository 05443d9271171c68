package answer

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/internal/settings"
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

// Options configures Run. Start with DefaultOptions: the zero value is invalid. The settings file, the flags and HTTP
// requests are derived from the tags (internal/settings).
type Options struct {
	Gate      GateMode         `json:"gate" oneof:"auto open closed" doc:"who decides on retrieval: auto is the calibrated gate, open always retrieves, closed never"`
	Transform prompt.Transform `json:"transform" oneof:"none rewrite hyde step-back decompose multi-query condense" doc:"query transformation before retrieval; each costs at least one call of the language model"`
	Style     Style            `json:"style" oneof:"auto write quote" doc:"answers from passages: write has the language model write them, quote takes the sentences that answer from the passages as they stand, without a call of the model, and auto writes where the model's scorecard says that it is right as often as quotes are ('models check')"`
	Strict    bool             `json:"strict" doc:"leave out of a written answer what no passage backs; where nothing is left, passages are quoted"`
	Own       prompt.Style     `json:"-" key:"own" oneof:"few-shot chain-of-thought" doc:"template of answers from the model's own knowledge"`
	OwnFrom   float64          `json:"own_from" key:"own_from" bounds:"0,1" doc:"probability from which on a short answer from a local model's own knowledge counts: that of the likeliest token where it is lowest; below it the answer is \"I don't know\", with the guess in the notice; 0 takes all answers"`
	Language  string           `json:"language" doc:"language of the answer, as English names it or its code; empty takes the question's"`
	Template  string           `json:"template" key:".prompt.template" doc:"prompt of answers from passages: context (short, with citations), tutor (long and well ordered), strict (nothing else than the passages), marked (the same in one text with <|system|> and other marks), plain (no citations), or a file of the folder context in ask.templates"`
	Order     prompt.Order     `json:"order" key:".prompt.order" oneof:"forward reverse ends" doc:"where passages stand: the best one first (forward), last (reverse), or the best ones at both ends and the worst in the middle (ends)"`
	Compress  int              `json:"compress" key:".prompt.compress" bounds:"0,1048576" doc:"keep of the passages the sentences nearest to the question, of so many tokens in all; 0 keeps all"`

	MaxTokens     int     `json:"-" key:"max_tokens" bounds:"1,131072" go:"1,2147483647" doc:"longest answer, tokens"`
	Temperature   float64 `json:"-" key:"temperature" bounds:"0,2" go:"-1,2" doc:"0 takes the likeliest token, and where a graph grades answers the graph's own temperature"` // negative: always the likeliest token
	RepeatPenalty float64 `json:"-" key:"repeat_penalty" bounds:"1,10" go:"0,100" doc:"divides the scores of recent tokens, against repetition; 1 is off. Unless set, a remote model without extensions gets 1"`
	TopK          int     `json:"-" key:"top_k" bounds:"0,1000000" go:"0,2147483647" doc:"likeliest tokens to draw from; 0 takes all. Unless set, a remote model without extensions gets 0"`
	TopP          float64 `json:"-" key:"top_p" bounds:"0,1" doc:"probability mass to draw from"`
	NoRepeatNGram int     `json:"-" key:"no_repeat_ngram" bounds:"0,1024" doc:"no sequence of so many tokens comes twice in a written answer; 0 is off"`
	Seed          int64   `json:"-" key:"seed" bounds:"0,4294967294" go:"-9223372036854775808,9223372036854775807" doc:"seed of the draws"`

	ReasoningEffort llm.Effort `json:"-" key:"reasoning_effort" oneof:"none minimal low medium high" doc:"how long a model that thinks may think before it answers: none, or up to 128 (minimal), 512 (low), 2048 (medium) or 8192 tokens (high), beside max_tokens; other models ignore it"`
	ThinkingBudget  int        `json:"-" key:"thinking_budget" bounds:"0,131072" go:"0,2147483647" doc:"most tokens of thinking before an answer; then it begins. 0 leaves it to reasoning_effort"`

	// Parallel is the number of questions that Each answers concurrently. 0 takes the number that llm.ParallelOf
	// returns for the model, but at most 2 in a graph that grades its answers.
	Parallel int `json:"-" key:".generate.parallel" bounds:"0,1024" doc:"requests that calibrate and 'ask --batch' have under way; 0 takes the slots where results do not depend on what runs beside (2 for 'ask' with a flow that grades answers), else 1, as for a server"`

	// Flow names one of Presets. Graph, if not nil, is a custom graph that is used instead.
	Flow        string              `json:"flow" key:".flow.preset" flag:"flow" oneof:"ask graph graph-llm paper" doc:"the graph that a question goes through: ask is gate, search and one answer; graph, graph-llm and paper grade passages and answers, and correct themselves ('sluice flow list')"`
	Graph       *flow.Graph[*State] `json:"-"`
	FlowOptions `json:"-" key:".flow"`
	Retrieve    retrieve.Options `json:"-"`
	// History holds the turns of user and assistant before the question, oldest first. The newest turns that fit into a
	// quarter of the context window become part of the prompt. A question that depends on the previous one is also
	// searched for joined with that one (Standing). With Transform prompt.Condense, the language model rewrites it into
	// a self-contained question instead.
	History []llm.Message `json:"-"`
	Form    Form          `json:"-"`
	// Step is called after each node. Run calls it on the caller's goroutine. Each never calls it concurrently, also
	// for different questions.
	Step func(flow.Step) `json:"-"`

	// Start is called before the first piece of the answer with the part of the trace known by then. Stream is called
	// with each piece; the pieces concatenate to Answer.Answer. An error of Stream ends the answer.
	Start  func(Trace)              `json:"-"`
	Stream func(piece string) error `json:"-"`
	// Think is called with each piece of the model's thinking before the answer, after Start.
	Think func(piece string) error `json:"-"`
	// Sources is called after Start with the passages of the prompt, before it is known which of them the answer cites.
	Sources func([]prompt.Citation) `json:"-"`
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
	Thought   string            `json:"thought,omitempty"`    // what the model wrote for itself before it
	Retrieved bool              `json:"retrieved"`            // it was made from passages
	ToolCalls []llm.ToolCall    `json:"tool_calls,omitempty"` // of Form.Tools
	Truncated bool              `json:"truncated,omitempty"`  // it was stopped at Options.MaxTokens or its window
	Citations []prompt.Citation `json:"citations"`            // what it could use, best first
	// Nearest holds the passages nearest to an unanswered question (Trace.Outcome is flow.Unknown), with their texts.
	// They are not sources of the answer.
	Nearest []prompt.Citation `json:"nearest,omitempty"`
	Trace   Trace             `json:"trace"`
}

// Trace records how an answer was found.
type Trace struct {
	Mode              Mode                `json:"mode"`                   // where the answer comes from
	Style             Style               `json:"style"`                  // Write or Quote: how it was made
	StyleReason       string              `json:"style_reason,omitempty"` // set if the style was chosen for the user
	Notice            string              `json:"notice,omitempty"`       // to be shown with the answer
	GateMode          GateMode            `json:"gate_mode"`
	Gate              *gate.Decision      `json:"gate,omitempty"`     // absent when the gate was not asked
	NoGate            bool                `json:"no_gate,omitempty"`  // GateAuto, and the store has no calibration
	Verdict           gate.Sufficiency    `json:"verdict,omitempty"`  // "" where the second question was not asked
	Second            *Sufficient         `json:"second,omitempty"`   // absent when the second question was not asked
	Promises          []string            `json:"promises,omitempty"` // what holds of verdicts like this one
	Transform         prompt.Transform    `json:"transform"`
	TransformFailed   bool                `json:"transform_failed,omitempty"` // the transformation gave no query
	Queries           []string            `json:"queries"`                    // what was searched for
	LLMCalls          int                 `json:"llm_calls"`
	Checked           []check.Sentence    `json:"checked,omitempty"` // of an answer written from passages
	Read              *Read               `json:"read,omitempty"`    // by the reader, if one is named
	Ranking           *retrieve.Taken     `json:"ranking,omitempty"` // how the first query's contexts were found
	Retrieved         []retrieve.Result   `json:"retrieved"`
	Template          string              `json:"template"`
	Order             prompt.Order        `json:"order,omitempty"`    // of the passages in the prompt
	Language          string              `json:"language,omitempty"` // named in the prompt
	Compression       *prompt.Compression `json:"compression,omitempty"`
	PromptTokens      int                 `json:"prompt_tokens"`
	AnswerTokens      int                 `json:"answer_tokens"`               // thinking included
	ThoughtTokens     int                 `json:"thought_tokens,omitempty"`    // of the answer's
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
	Second    float64 `json:"second"` // question, whether the passages answer
	Transform float64 `json:"transform"`
	Retrieve  float64 `json:"retrieve"`
	Prompt    float64 `json:"prompt"`
	Generate  float64 `json:"generate"`
	Read      float64 `json:"read"`      // by the reader
	Check     float64 `json:"check"`     // of what the model wrote, within Generate
	Sentences float64 `json:"sentences"` // nearest to the question, after the answer
	Total     float64 `json:"total"`
}

// DefaultMaxTokens is the default of Options.MaxTokens.
const DefaultMaxTokens = 256

// DefaultOptions returns the default options: the gate is asked, four contexts are taken, and the answer is quoted
// unless the model's scorecard says that it writes as well; what it writes is greedy.
func DefaultOptions() Options {
	return Options{Gate: GateAuto, Transform: prompt.None, Style: Auto, Own: prompt.FewShot, OwnFrom: ownFrom,
		Template: prompt.DefaultTemplate, Order: prompt.Forward, MaxTokens: DefaultMaxTokens, RepeatPenalty: 1,
		ReasoningEffort: llm.LowEffort, Flow: FlowAsk, Retrieve: retrieve.DefaultOptions(),
		FlowOptions: FlowOptions{Budget: flow.Budget{Retries: flow.DefaultRetries}, Router: ByPreset, Grader: ByPreset,
			Verdicts: flow.Grammar, GroundedFrom: groundedFrom}}
}

// ownFrom is the default of Options.OwnFrom (docs/prompts.md has the figures).
const ownFrom = .25

// Check validates options. The error states the value and what is allowed.
func (o Options) Check() error {
	if err := o.Retrieve.Check(); err != nil {
		return err
	}
	if err := settings.Check(o); err != nil {
		return fmt.Errorf("%w: %w", knowledge.ErrOption, err)
	}
	if err := checkHistory(o.History); err != nil {
		return err
	}
	return o.Form.check(o)
}

package sluice

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// GateMode says who decides whether Ask retrieves.
type GateMode string

// The modes: the calibrated gate, always, never.
const (
	GateAuto   GateMode = "auto"
	GateOpen   GateMode = "open"
	GateClosed GateMode = "closed"
)

// AskOptions of Ask. The zero value asks the gate, takes four contexts and answers greedily.
type AskOptions struct {
	Gate      GateMode
	Transform prompt.Transform // of the question, before the gate and the search, as in the paper; None costs no call of the model
	Style     prompt.Style     // of answers from the model's own knowledge
	Language  string           // of the answer; "" is the question's
	RetrieveOptions

	MaxTokens   int // of the answer; 0 is 256
	Temperature float64
	// RepeatPenalty divides the scores of recent tokens; 0 and 1 are off. Small models repeat themselves without.
	RepeatPenalty float64
	TopK          int
	TopP          float64
	Seed          int64

	// Start is told how the answer is going to be made before its first piece comes; Stream gets the
	// pieces, which add up to Answer.Answer. An error of Stream ends the answer.
	Start  func(mode Mode)
	Stream func(piece string) error
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

// Answer is what Ask returns, and its JSON is that of `ask --json` with the id before it.
type Answer struct {
	Answer    string            `json:"answer"`
	Retrieved bool              `json:"retrieved"` // contexts were in the prompt
	Citations []prompt.Citation `json:"citations"`
	Trace     Trace             `json:"trace"`
}

// Trace says how an answer came about.
type Trace struct {
	Mode              Mode              `json:"mode"`
	Notice            string            `json:"notice,omitempty"`
	GateMode          GateMode          `json:"gate_mode"`
	Gate              *gate.Decision    `json:"gate,omitempty"` // absent when the gate was not asked
	Transform         prompt.Transform  `json:"transform"`
	TransformFailed   bool              `json:"transform_failed,omitempty"` // it gave nothing to search for
	Queries           []string          `json:"queries"`                    // what was searched for
	LLMCalls          int               `json:"llm_calls"`
	Retrieved         []retrieve.Result `json:"retrieved"`
	Template          string            `json:"template"`
	PromptTokens      int               `json:"prompt_tokens"`
	AnswerTokens      int               `json:"answer_tokens"`
	DroppedPassages   int               `json:"dropped_passages"`   // did not fit the window
	TruncatedPassages int               `json:"truncated_passages"` // were shortened to fit
	Finish            llm.FinishReason  `json:"finish"`
	Encoder           string            `json:"encoder,omitempty"`
	Model             string            `json:"model"`
	Remote            string            `json:"remote,omitempty"` // the server that question and passages were sent to
	Milliseconds      Timings           `json:"ms"`
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
	Total     float64 `json:"total"`
}

const defaultAnswerTokens = 256

func (o AskOptions) withDefaults() (AskOptions, error) {
	if o.Gate == "" {
		o.Gate = GateAuto
	}
	if o.Transform == "" {
		o.Transform = prompt.None
	}
	if o.Style == "" {
		o.Style = prompt.FewShot
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = defaultAnswerTokens
	}
	o.RetrieveOptions = o.RetrieveOptions.withDefaults()
	if !slices.Contains([]GateMode{GateAuto, GateOpen, GateClosed}, o.Gate) {
		return o, fmt.Errorf("%w: gate %q (known: auto, open, closed)", ErrOption, o.Gate)
	}
	if o.MaxTokens < 0 {
		return o, fmt.Errorf("%w: %d answer tokens", ErrOption, o.MaxTokens)
	}
	_, err := retrieve.ParseMode(string(o.Mode))
	return o, err
}

// Ask answers a question. The gate decides on the question with one embedding and no call of the language
// model; with a Transform, on what that makes of it (open when any of the queries opens it). Open: the contexts that are found go into the prompt, numbered for citations. Closed: the
// model answers from its own knowledge, and the answer says so. What could be finished before an error or
// the end of ctx is in the answer that comes with it.
func (s *Sluice) Ask(ctx context.Context, question string, o AskOptions) (*Answer, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &asking{s: s, o: o, question: question, started: time.Now(), answer: &Answer{Citations: []prompt.Citation{}}}
	a.trace = &a.answer.Trace
	*a.trace = Trace{Mode: FromOwnKnowledge, GateMode: o.Gate, Transform: prompt.None, Queries: []string{}, Retrieved: []retrieve.Result{}}
	err = a.run(ctx)
	a.trace.Milliseconds.Total = milliseconds(time.Since(a.started))
	return a.answer, err
}

// asking is one call of Ask.
type asking struct {
	s        *Sluice
	o        AskOptions
	question string
	started  time.Time
	answer   *Answer
	trace    *Trace
	library  *prompt.Library
	model    llm.Generator
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }

// timed adds what f takes to a stage.
func timed(stage *float64, f func() error) error {
	started := time.Now()
	err := f()
	*stage += milliseconds(time.Since(started))
	return err
}

func (a *asking) run(ctx context.Context) (err error) {
	if a.library, err = prompt.Open(a.s.cfg.Templates); err != nil {
		return err
	}
	t := &a.trace.Milliseconds
	var passages []prompt.Passage
	if a.o.Gate != GateClosed {
		if passages, err = a.contexts(ctx); err != nil {
			return err
		}
	}
	if err = timed(&t.Load, func() error { a.model, err = a.s.model.get(ctx); return err }); err != nil {
		return err
	}
	a.trace.Model = a.model.Info().Name
	if r, ok := a.model.(*remote.Generator); ok {
		a.trace.Remote = r.Endpoint()
	}
	var p prompt.Prompt
	if err = timed(&t.Prompt, func() error { p, err = a.prompt(passages); return err }); err != nil {
		return err
	}
	return timed(&t.Generate, func() error { return a.generate(ctx, p) })
}

// contexts asks the gate and, when it is open, searches. nil means that the knowledge base is not used.
func (a *asking) contexts(ctx context.Context) ([]prompt.Passage, error) {
	t := &a.trace.Milliseconds
	var p *knowledge.Snapshot
	var enc embed.Embedder
	err := timed(&t.Load, func() (err error) { p, enc, err = a.s.base.Searchable(ctx); return err })
	if err != nil {
		return nil, err
	}
	defer p.Release()
	a.trace.Encoder = enc.Info().Name
	var g *gate.Gate
	if a.o.Gate == GateAuto { // before the embedding: a missing calibration is the sooner error
		err := timed(&t.Gate, func() (err error) { g, err = p.Gate(ctx, enc.Info()); return err })
		if err != nil {
			return nil, err
		}
	}
	queries, err := a.queries(ctx)
	if err != nil {
		return nil, err
	}
	if g != nil {
		var d gate.Decision
		err := timed(&t.Gate, func() (err error) { d, err = a.decide(ctx, g, p, queries); return err })
		if err != nil {
			return nil, err
		}
		a.trace.Gate = &d
		if !d.Retrieve {
			return nil, nil
		}
	}
	var passages []prompt.Passage
	return passages, timed(&t.Retrieve, func() (err error) { passages, err = a.retrieve(ctx, p, queries); return err })
}

// decide asks the gate about every query and takes the one that comes closest to a context: it is open when
// any of them opens it.
func (a *asking) decide(ctx context.Context, g *gate.Gate, p *knowledge.Snapshot, queries engine.Vectors) (gate.Decision, error) {
	all, err := p.Decide(ctx, g, queries)
	if err != nil {
		return gate.Decision{}, err
	}
	closest := all[0]
	for _, d := range all[1:] {
		if p.Store.Metric().Better(d.Score, closest.Score) {
			closest = d
		}
	}
	return closest, nil
}

// queries embeds what is searched for: the question, or what a transformation makes of it.
func (a *asking) queries(ctx context.Context) (engine.Vectors, error) {
	a.trace.Queries = []string{a.question}
	role := embed.Query
	if a.o.Transform != prompt.None {
		changed, err := a.transform(ctx)
		if err != nil {
			return engine.Vectors{}, err
		}
		if !changed.Fallback && a.o.Transform == prompt.HyDE { // an invented passage is compared as a passage
			role = embed.Document
		}
	}
	var e *embed.Embeddings
	err := timed(&a.trace.Milliseconds.Embed, func() (err error) { e, err = a.s.base.Embed(ctx, a.trace.Queries, role); return err })
	if err != nil {
		return engine.Vectors{}, err
	}
	return vectors(e), nil
}

// transform has the model rewrite the question; when nothing comes of it, the question stays and that is said.
func (a *asking) transform(ctx context.Context) (changed prompt.Transformed, err error) {
	t := &a.trace.Milliseconds
	var model llm.Generator
	if err := timed(&t.Load, func() (err error) { model, err = a.s.model.get(ctx); return err }); err != nil {
		return changed, err
	}
	err = timed(&t.Transform, func() (err error) {
		changed, err = a.library.Apply(ctx, model, a.o.Transform, a.question)
		a.trace.LLMCalls += changed.Calls
		return err
	})
	if err != nil {
		return changed, err
	}
	a.trace.Transform = a.o.Transform
	if a.trace.TransformFailed = changed.Fallback; changed.Fallback {
		a.s.log.Warn(fmt.Sprintf("%s gave nothing to search for; the question is searched for as it is", a.o.Transform))
		return changed, nil
	}
	a.trace.Queries = changed.Queries
	return changed, nil
}

// retrieve searches with each query and keeps the best score of each context.
func (a *asking) retrieve(ctx context.Context, p *knowledge.Snapshot, queries engine.Vectors) ([]prompt.Passage, error) {
	lists, err := p.Search(ctx, queries, a.o.Mode, a.o.K)
	if err != nil {
		return nil, err
	}
	a.trace.Retrieved = best(lists, p.Store.Metric(), a.o.K)
	ids := make([]string, len(a.trace.Retrieved))
	for i, r := range a.trace.Retrieved {
		ids[i] = r.ID
	}
	chunks, err := p.Store.Chunks(ctx, ids)
	if err != nil {
		return nil, err
	}
	passages := make([]prompt.Passage, len(chunks))
	for i, c := range chunks {
		passages[i] = prompt.Passage{Chunk: c, Score: a.trace.Retrieved[i].Score}
	}
	return passages, nil
}

func (a *asking) prompt(passages []prompt.Passage) (p prompt.Prompt, err error) {
	o := prompt.Options{ContextTokens: a.model.ContextSize(), AnswerTokens: a.o.MaxTokens, Count: a.model.CountTokens, Language: a.o.Language}
	if len(passages) > 0 {
		p, err = a.library.Context(a.question, passages, o)
	} else {
		p, err = a.library.Own(a.question, a.o.Style, o)
	}
	if err != nil {
		return p, err
	}
	if len(passages) > 0 && len(p.Citations) > 0 {
		a.trace.Mode, a.answer.Retrieved = FromContext, true
	}
	a.trace.Notice = a.trace.Mode.Notice()
	a.trace.Template, a.trace.PromptTokens = p.Template, p.Tokens
	a.trace.DroppedPassages, a.trace.TruncatedPassages = p.Dropped, p.Truncated
	if p.Dropped+p.Truncated > 0 {
		a.s.log.Warn(fmt.Sprintf("the prompt is short of tokens: %d of %d passages dropped, %d shortened (window %d, answer %d)", p.Dropped, len(passages), p.Truncated, o.ContextTokens, o.AnswerTokens))
	}
	return p, nil
}

func (a *asking) generate(ctx context.Context, p prompt.Prompt) error {
	if a.o.Start != nil {
		a.o.Start(a.trace.Mode)
	}
	r, err := a.model.Generate(ctx, llm.Request{
		Messages: p.Messages, MaxTokens: a.o.MaxTokens, Temperature: a.o.Temperature, TopK: a.o.TopK, TopP: a.o.TopP,
		RepeatPenalty: a.o.RepeatPenalty, Seed: a.o.Seed,
	}, a.o.Stream)
	a.trace.LLMCalls++
	a.answer.Answer = r.Text
	a.trace.AnswerTokens, a.trace.Finish = r.CompletionTokens, r.Finish
	if r.PromptTokens > 0 {
		a.trace.PromptTokens = r.PromptTokens
	}
	if p.Citations != nil {
		a.answer.Citations = prompt.Cite(r.Text, p.Citations)
	}
	return err
}

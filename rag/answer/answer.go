package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Run answers a question with the graph that Options.Flow names. In the shortest graph, the gate decides from one
// embedding of the question, without calling the language model. With a Transform it decides from the transformed
// queries and is open when any of them opens it. If the gate is open, the contexts found are put into the prompt,
// numbered for citations, or sentences of them are quoted. If it is closed, the model answers from its own knowledge:
// Trace.Mode is FromOwnKnowledge then, and Trace.Notice the sentence to show beside Answer.Answer. Beside an error, Run
// returns the parts that were finished; for a bad option (knowledge.ErrOption, retrieve.ErrOption), nil.
func Run(ctx context.Context, base *knowledge.Base, in Input) (_ *Answer, err error) {
	if err = in.Check(); err != nil {
		return nil, err
	}
	language, why := base.QuestionLanguage(in.Question), ""
	if in.Style, why, err = in.style(ctx, language); err != nil {
		return nil, err
	}
	graph, err := in.graph()
	if err != nil {
		return nil, err
	}
	if err := in.FlowOptions.check(graph); err != nil {
		return nil, err
	}
	s := &State{Input: in, base: base, Query: in.Question, Answer: &Answer{Citations: []prompt.Citation{}},
		asksIn: language}
	s.answerTemperature = in.Temperature
	_, graded := graph.Node(hallucinationNode)
	if graded && in.Temperature == 0 {
		s.answerTemperature = AnswerTemperature
	}
	if s.answerTemperature = max(s.answerTemperature, 0); graded {
		defer func() {
			s.trace.Temperatures = &Temperatures{Answer: s.answerTemperature, Rewriter: s.rewriteTemperature}
		}()
	}
	defer s.release()
	s.trace = &s.Answer.Trace
	*s.trace = Trace{Flow: graph.Name(), Steps: []flow.Step{}, Mode: FromOwnKnowledge, Style: Write, StyleReason: why,
		GateMode: s.Gate, Transform: prompt.None, Queries: []string{}, Retrieved: []retrieve.Result{}}
	defer timer(&s.trace.Milliseconds.Total)()
	if s.library, err = prompt.Open(s.Templates); err != nil {
		return s.Answer, err
	}
	if err = s.library.CheckContext(s.Template); err != nil {
		return nil, fmt.Errorf("%w: %w", knowledge.ErrOption, err)
	}
	ending, err := graph.Run(ctx, s, in.Budget, s.note)
	if err != nil {
		return s.Answer, err
	}
	return s.Answer, s.finish(ctx, ending)
}

// graph returns Options.Graph or the preset that Options.Flow names.
func (o Options) graph() (*flow.Graph[*State], error) {
	if o.Graph != nil {
		return o.Graph, nil
	}
	return preset(o.Flow, o.Style)
}

// State is the state of one question that the nodes of a graph read and change.
type State struct {
	Input
	Answer   *Answer
	Query    string           // the text to search for: the question or its rewritten form
	Passages []prompt.Passage // for the prompt; if empty, the model answers from its own knowledge

	base     *knowledge.Base
	snapshot *knowledge.Snapshot // the snapshot that the whole run searches; nil before the gate
	trace    *Trace              // of Answer
	library  *prompt.Library
	model    llm.Generator
	prompted prompt.Prompt
	embedded string // the Query that vectors were computed from
	asksIn   string // language of Question (ISO 639-1), "" if unknown
	// Query was rewritten; Transform applies only to the question itself
	rewritten                             bool
	fromWeb                               bool   // Passages come from the web
	begun                                 bool   // Start was called
	handedOut                             bool   // the answer was streamed while it was generated
	unanswered                            bool   // no part of the answer was kept
	guess                                 string // notice about an answer that the model was not sure of
	answerTemperature, rewriteTemperature float64
	metric                                kernels.Metric
	vectors                               engine.Vectors           // of trace.Queries
	near                                  *knowledge.Nearest       // contexts nearest to vectors; nil if unknown
	faults                                []error                  // per vector: why it is unusable, or nil
	tried                                 []string                 // queries searched for before a rewrite
	asked                                 *gate.Gate               // that has opened
	found                                 []prompt.Passage         // passages of the first search with a result
	foundBy                               engine.Vectors           // query vectors of that search
	readings                              map[string]embed.Reading // of passages' texts, by the reader
}

// note appends a step to the trace and calls Options.Step.
func (a *State) note(s flow.Step) {
	a.trace.LLMCalls += s.Calls
	a.trace.Steps = append(a.trace.Steps, s)
	if a.Step != nil {
		a.Step(s)
	}
}

// IDontKnow is the text of Answer.Answer if Trace.Outcome is flow.Unknown.
const IDontKnow = "I don't know."

// finish records how the run ended and streams an answer that had to be held back until later nodes had checked it.
func (a *State) finish(ctx context.Context, ending flow.Ending) error {
	if a.unanswered && ending.Outcome == flow.Answered {
		ending.Outcome, ending.Why = flow.Unknown, flow.ByNode
	}
	t := a.trace
	if t.Mode != FromContext { // no passage could be quoted
		t.StyleReason = ""
	}
	t.Outcome, t.Why, t.Retries = ending.Outcome, ending.Why, ending.Retries
	if ending.Outcome == flow.Unknown {
		t.Notice = cmp.Or(a.guess, ending.Say())
		a.Sources = nil // no passage is a source of it
		nearest := a.nearest(ctx)
		*a.Answer = Answer{Answer: IDontKnow, Citations: []prompt.Citation{}, Nearest: nearest, Trace: a.Answer.Trace}
	}
	if a.handedOut && ending.Outcome == flow.Answered {
		return nil
	}
	if ending.Outcome == flow.Answered {
		a.sentences(ctx, a.Passages)
	}
	a.begin()
	if a.Stream != nil {
		return a.Stream(a.Answer.Answer)
	}
	return nil
}

// begin calls Start and Sources before the first piece of the answer; once.
func (a *State) begin() {
	if a.begun {
		return
	}
	if a.begun = true; a.Start != nil {
		a.Start(*a.trace)
	}
	if a.Sources != nil {
		a.Sources(a.prompted.Citations)
	}
}

// requests returns the priority of the model's requests.
func (a *State) requests() int { return cmp.Or(a.priority, llm.Interactive) }

// subject returns the question for graders, together with the previous question if it depends on that one.
func (a *State) subject() string {
	if a.Transform == prompt.Condense && len(a.trace.Queries) == 1 && !a.rewritten {
		return a.trace.Queries[0]
	}
	all := Standing(a.Question, a.History)
	return all[len(all)-1]
}

func (a *State) release() {
	if a.snapshot != nil {
		a.snapshot.Release()
	}
}

// timer returns a function that adds the milliseconds since the call of timer to stage.
func timer(stage *float64) (stop func()) {
	started := time.Now()
	return func() { *stage += math.Round(float64(time.Since(started).Microseconds())) / 1000 }
}

// load returns the language model and opens it on first use.
func (a *State) load(ctx context.Context) (llm.Generator, error) {
	defer timer(&a.trace.Milliseconds.Load)()
	return a.Model(ctx)
}

// gate opens the knowledge base, unless the options exclude it, and decides whether retrieval can help.
func (a *State) gate(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	v.Input(a.Query)
	if a.Gate == GateClosed {
		v.Detail("not asked")
		return Closed, nil
	}
	if err := a.open(ctx); err != nil {
		return "", err
	}
	var g *gate.Gate
	var err error
	if a.Gate == GateAuto { // before the embedding, so that a stale calibration fails early
		stop := timer(&a.trace.Milliseconds.Gate)
		g, err = a.calibrated(ctx)
		if stop(); err != nil {
			return "", err
		}
		a.trace.NoGate = g == nil
	}
	if err = a.embed(ctx, v); err != nil {
		return "", err
	}
	if g == nil {
		v.Detail("not asked")
		return Open, nil
	}
	d, err := a.decide(ctx, a.snapshot, g)
	if err != nil {
		return "", err
	}
	a.trace.Gate, a.trace.Promises = &d, g.Promises()
	v.Score(d.Score)
	if !d.Retrieve {
		a.trace.Verdict = gate.Outside
		return Closed, nil
	}
	a.asked = g
	return Open, nil
}

// calibrated returns the gate of the snapshot's calibration; nil without a calibration.
func (a *State) calibrated(ctx context.Context) (*gate.Gate, error) {
	enc, err := a.base.Encoder(ctx)
	if err != nil {
		return nil, err
	}
	g, err := a.snapshot.Gate(ctx, enc.Info().Encoder)
	if errors.Is(err, knowledge.ErrNotCalibrated) {
		return nil, nil
	}
	return g, err
}

// open acquires the snapshot of the knowledge base that the run searches.
func (a *State) open(ctx context.Context) error {
	if a.snapshot != nil {
		return nil
	}
	defer timer(&a.trace.Milliseconds.Load)()
	snap, enc, err := a.base.Searchable(ctx)
	if err != nil {
		return err
	}
	a.snapshot, a.metric, a.trace.Encoder = snap, snap.Metric(), enc.Info().Name
	return nil
}

// embed computes the query vectors unless they are up to date.
func (a *State) embed(ctx context.Context, v *flow.Visit) (err error) {
	if a.embedded != "" && a.embedded == a.Query {
		return nil
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	if a.vectors, err = a.queries(ctx, v); err == nil {
		a.embedded, a.near = a.Query, nil
	}
	return err
}

// decide asks the gate about each query: it is open when any query opens it. decide returns the decision with the best
// score among the queries that open the gate, or among all queries if none does. A query without a usable vector
// (a.faults) never opens the gate.
func (a *State) decide(ctx context.Context, snap *knowledge.Snapshot, g *gate.Gate) (gate.Decision, error) {
	defer timer(&a.trace.Milliseconds.Gate)()
	decisions, near, err := snap.DecideFor(ctx, g, retrieve.Queries{Texts: a.trace.Queries, Vectors: a.vectors},
		a.Retrieve)
	if a.near = near; err != nil {
		return gate.Decision{}, err
	}
	closest := 0
	for i := range decisions {
		if a.faults[i] != nil {
			decisions[i].Close(a.faults[i])
		}
		d, best := &decisions[i], &decisions[closest]
		switch {
		case d.Retrieve != best.Retrieve:
			if d.Retrieve {
				closest = i
			}
		case a.faults[i] == nil && (a.faults[closest] != nil || d.Metric.Better(d.Score, best.Score)):
			closest = i
		}
	}
	return decisions[closest], nil
}

// queries embeds the texts to search for: the question, or the texts that a transformation derives from it.
func (a *State) queries(ctx context.Context, v *flow.Visit) (engine.Vectors, error) {
	a.trace.Queries = []string{a.Query}
	role := embed.Query
	if !a.rewritten {
		a.trace.Queries = Standing(a.Query, a.History)
	}
	if a.Transform != prompt.None && !a.rewritten {
		changed, err := a.transform(ctx, v)
		if err != nil {
			return engine.Vectors{}, err
		}
		if !changed.Fallback && a.Transform == prompt.HyDE { // HyDE invents a passage, which is embedded as a document
			role = embed.Document
		}
	}
	defer timer(&a.trace.Milliseconds.Embed)()
	e, err := a.base.Embed(ctx, a.trace.Queries, role)
	if err != nil {
		return engine.Vectors{}, err
	}
	a.faults = make([]error, len(a.trace.Queries))
	for i := range a.faults {
		a.faults[i] = e.Fault(i)
	}
	return knowledge.Vectors(e), nil
}

// transform has the model rewrite the question. If the result is unusable, the question is kept and the trace records
// it.
func (a *State) transform(ctx context.Context, v *flow.Visit) (changed prompt.Transformed, err error) {
	model, err := a.load(ctx)
	if err != nil {
		return changed, err
	}
	stop := timer(&a.trace.Milliseconds.Transform)
	changed, err = a.library.Apply(ctx, v.Model(model), a.Transform,
		prompt.Asked{Question: a.Question, History: a.History, Seed: a.Seed, Priority: a.requests()})
	if stop(); err != nil {
		return changed, err
	}
	a.trace.Transform = a.Transform
	if a.trace.TransformFailed = changed.Fallback; changed.Fallback {
		a.base.Logger().Warn(fmt.Sprintf("%s gave nothing to search for; the question is searched for as it is",
			a.Transform))
		return changed, nil
	}
	a.trace.Queries = changed.Queries
	return changed, nil
}

// passages returns the passages of the contexts found, each context once with its best score.
func (a *State) passages(ctx context.Context, snap *knowledge.Snapshot, lists []retrieve.List) ([]prompt.Passage,
	error) {
	defer timer(&a.trace.Milliseconds.Retrieve)()
	a.trace.Ranking = &lists[0].Taken
	a.trace.Retrieved = retrieve.Merge(lists, a.Retrieve.K)
	return Passages(ctx, snap, a.trace.Retrieved, a.Retrieve)
}

// Passages returns the passages of results, extended by the neighbours that the options join to them.
func Passages(ctx context.Context, snap *knowledge.Snapshot, results []retrieve.Result, o retrieve.Options,
) ([]prompt.Passage, error) {
	found, err := snap.Passages(ctx, results, o)
	if err != nil {
		return nil, err
	}
	passages := make([]prompt.Passage, len(found))
	for i, p := range found {
		passages[i] = prompt.Passage{Chunk: p.Chunk, Score: results[i].Score, Joined: p.Joined,
			Copies: prompt.Copies(p.Copies)}
	}
	return passages, nil
}

// prompt builds a prompt that fits the model's context window, from the passages, or without passages from the
// question alone.
func (a *State) prompt(ctx context.Context, v *flow.Visit) (_ flow.Verdict, err error) {
	if a.model, err = a.modelOf(ctx, generateNode); err != nil {
		return "", err
	}
	a.trace.Model = a.model.Info().Name
	if r, ok := a.model.(*remote.Generator); ok {
		a.trace.Remote = r.Endpoint()
	}
	if err := a.compress(ctx); err != nil {
		return "", err
	}
	defer timer(&a.trace.Milliseconds.Prompt)()
	passages, p := a.Passages, prompt.Prompt{}
	o := prompt.Options{
		ContextTokens: a.model.ContextSize(), AnswerTokens: a.MaxTokens + a.thinkingTokens(),
		Language: a.language(passages), Template: a.Template, Order: a.Order, History: a.History,
	}
	o.Count, o.Literal = llm.ContentCounter(a.model)
	tools, err := a.Form.tokens(o.Count)
	if err != nil {
		return "", err
	}
	o.AnswerTokens += tools
	a.trace.Language = o.Language
	if len(passages) > 0 {
		p, err = a.library.Context(a.Question, passages, o)
	} else {
		p, err = a.library.Own(a.Question, a.Own, o)
	}
	if err == nil {
		err = a.Form.fits(p)
	}
	if err != nil {
		return "", err
	}
	a.prompted = p
	a.trace.Mode, a.Answer.Retrieved, a.trace.Order = FromOwnKnowledge, false, ""
	if len(passages) > 0 && len(p.Citations) > 0 {
		a.trace.Mode, a.Answer.Retrieved, a.trace.Order = FromContext, true, a.Order
	}
	v.Detail(fmt.Sprintf("template %s, %d tokens, %d of %d passages", p.Template, p.Tokens, len(p.Citations),
		len(passages)))
	if a.trace.Notice = a.trace.Mode.Notice(); a.trace.NoGate {
		a.trace.Notice = noGate
	}
	a.trace.Template, a.trace.PromptTokens = p.Template, p.Tokens
	a.trace.DroppedPassages, a.trace.TruncatedPassages = p.Dropped, p.Truncated
	if p.Dropped+p.Truncated > 0 {
		a.base.Logger().Warn(fmt.Sprintf(
			"the prompt is short of tokens: %d of %d passages dropped, %d shortened (window %d, answer %d)",
			p.Dropped, len(passages), p.Truncated, o.ContextTokens, o.AnswerTokens))
	}
	return flow.Done, nil
}

// generate lets the model write the answer and resolves its citations.
func (a *State) generate(ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
	if err := a.complete(ctx, v); err != nil {
		return "", err
	}
	if a.Strict && a.trace.Mode == FromContext && a.Answer.Answer == "" && len(a.Answer.ToolCalls) == 0 {
		found, err := a.quote(ctx, v)
		a.unanswered = found == Nothing
		return flow.Done, err
	}
	if a.handedOut = a.hands(v); v.Last {
		a.sentences(ctx, a.Passages)
	}
	return flow.Done, nil
}

// compress shortens the passages to the sentences nearest to the queries, if Options.Compress is set.
func (a *State) compress(ctx context.Context) error {
	if a.Compress == 0 || len(a.Passages) == 0 {
		return nil
	}
	defer timer(&a.trace.Milliseconds.Prompt)()
	scored, err := a.base.SentenceScores(ctx, a.metric, []engine.Vectors{a.vectors},
		[][]string{chunkTexts(a.Passages)})
	if err != nil {
		return err
	}
	count, _ := llm.ContentCounter(a.model)
	short, done, err := prompt.Compress(a.Passages, scored[0], a.metric, a.Compress, count)
	if err == nil {
		a.Passages, a.trace.Compression = short, &done
	}
	return err
}

// language returns the language that the prompt demands for the answer: the one asked for, or else the language of the
// question. It returns "" where the model answers in English anyway.
func (a *State) language(passages []prompt.Passage) string {
	if a.Language != "" {
		return a.Language
	}
	code := a.base.QuestionLanguage(a.Question)
	foreign := code != "en" || slices.ContainsFunc(passages, func(p prompt.Passage) bool {
		of := a.base.Language(p.Chunk.Text)
		return of != "" && of != "en"
	})
	if code == "" || !foreign {
		return ""
	}
	return a.base.LanguageName(code)
}

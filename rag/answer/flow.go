package answer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// Decider selects what decides at a node: the language model, or a method that does not call it.
type Decider string

// The router accepts ByLLM and ByGate, the document grader all but ByGate.
const (
	ByLLM       Decider = "llm"
	ByGate      Decider = "gate"      // the calibrated gate
	ByEmbedding Decider = "embedding" // the gate's score and cut-off for each passage
	ByReranker  Decider = "reranker"  // the cross-encoder's probability for each passage
)

// Routers lists the deciders of the router.
func Routers() []Decider { return []Decider{ByGate, ByLLM} }

// DocumentGraders lists the deciders of the document grader.
func DocumentGraders() []Decider { return []Decider{ByEmbedding, ByReranker, ByLLM} }

// The temperatures of Rocha and Pessoa: a hallucination lowers the temperature of answers, and an answer that does not
// resolve the question raises the temperature of the rewriter.
const (
	AnswerTemperature  = .4
	LoweredTemperature = .3
	RaisedTemperature  = .1 // of the rewriter, which starts at 0
)

// RedrawTemperature is the temperature of the rewriter's second draw, after the first repeated an earlier query.
const RedrawTemperature = .7

// groundedFrom is the lowest probability at which a scored answer counts as supported.
const groundedFrom = .5

// rerankedFrom is the lowest probability at which a reranked passage counts as relevant.
const rerankedFrom = .5

// FlowOptions configures the nodes of graphs longer than FlowAsk. The zero value takes the settings of the preset.
type FlowOptions struct {
	Budget   flow.Budget // of the whole run, whatever the graph
	Router   Decider     // "": the preset's
	Grader   Decider     // of documents; "": the preset's
	Verdicts flow.Method // of language models; "" is flow.Grammar
	// Models maps nodes to language models that replace the default one: names, GGUF files, or URLs of
	// OpenAI-compatible servers (https://HOST/v1#MODEL).
	Models map[string]string
	// Score makes the hallucination grader use the probability of its verdict (llm.Choice) instead of the verdict
	// itself. An answer is supported if the probability is at least GroundedFrom; 0 means 0.5.
	Score        bool
	GroundedFrom float64
}

// Web searches the web for a question. It returns the passages of the pages nearest to the question and the number of
// pages found.
type Web func(ctx context.Context, question string, pages int, o retrieve.Options) ([]prompt.Passage, int, error)

// webPages is the number of pages that a web search fetches, as in Rocha and Pessoa.
const webPages = 4

func (o FlowOptions) check(g *flow.Graph[*State]) error {
	var errs []error
	if o.Router != "" && !slices.Contains(Routers(), o.Router) {
		errs = append(errs, fmt.Errorf("router %q is none of %v", o.Router, Routers()))
	}
	if o.Grader != "" && !slices.Contains(DocumentGraders(), o.Grader) {
		errs = append(errs, fmt.Errorf("grader of documents %q is none of %v", o.Grader, DocumentGraders()))
	}
	if o.Verdicts != "" && !slices.Contains(flow.Methods(), o.Verdicts) {
		errs = append(errs, fmt.Errorf("verdicts by %q are known by none of %v", o.Verdicts, flow.Methods()))
	}
	if b := o.Budget; b.Calls < 0 || b.Tokens < 0 || b.Time < 0 {
		errs = append(errs, fmt.Errorf("a budget of %d calls, %d tokens, %v", b.Calls, b.Tokens, b.Time))
	}
	if o.GroundedFrom < 0 || o.GroundedFrom > 1 {
		errs = append(errs, fmt.Errorf("a probability of %v", o.GroundedFrom))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Models)) {
		if _, ok := g.Node(name); !ok {
			errs = append(errs, fmt.Errorf("a model for node %q, and the flow %q has the nodes %v", name, g.Name(),
				g.Nodes()))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", knowledge.ErrOption, errors.Join(errs...))
}

// by returns the first decider that is not empty.
func by(set, preset Decider) Decider {
	if set != "" {
		return set
	}
	return preset
}

// modelOf returns the language model of a node: its own, or else the model of the run.
func (a *State) modelOf(ctx context.Context, node string) (llm.Generator, error) {
	name := a.Models[node]
	if name == "" {
		return a.load(ctx)
	}
	if a.Named == nil {
		return nil, fmt.Errorf("%w: node %q is to have the model %s, and nobody opens models by name here",
			knowledge.ErrOption, node, name)
	}
	defer timer(&a.trace.Milliseconds.Load)()
	return a.Named(ctx, name)
}

// grade asks the language model of a node to choose among the values of a grader. An unreadable answer counts as the
// last value, which is the cautious one.
func (a *State) grade(
	ctx context.Context, v *flow.Visit, node string, g prompt.Grader, in prompt.Graded, score bool,
) (said flow.Said, err error) {
	key, choices := prompt.Verdicts(g)
	if in.Choices == nil {
		in.Choices = choices
	}
	model, err := a.modelOf(ctx, node)
	if err != nil {
		return said, err
	}
	in.Seed = a.Seed
	o := prompt.Options{ContextTokens: model.ContextSize(), AnswerTokens: 2 * flow.MaxVerdictTokens}
	o.Count, o.Literal = llm.ContentCounter(model)
	p, err := a.library.Grade(g, in, o)
	if err != nil {
		return said, err
	}
	values := make([]flow.Verdict, len(in.Choices))
	for i, c := range in.Choices {
		values[i] = flow.Verdict(c.Name)
	}
	q := flow.Question{Messages: p.Messages, Key: key, Values: values, Method: a.Verdicts, Score: score, Seed: a.Seed,
		Priority: a.requests()}
	said, err = flow.Ask(ctx, v.Model(model), q)
	if err == nil && said.Verdict == "" {
		said.Verdict = values[len(values)-1]
		v.Detail(fmt.Sprintf("no verdict could be read, taken as %q: %s", said.Verdict, line(said.Text, 80)))
	}
	return said, err
}

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
	ByPreset    Decider = "auto" // what the preset has
	ByLLM       Decider = "llm"
	ByGate      Decider = "gate"      // the calibrated gate
	ByEmbedding Decider = "embedding" // the gate's score and cut-off for each passage
	ByReranker  Decider = "reranker"  // the cross-encoder's probability for each passage
	ByReader    Decider = "reader"    // whether the reader finds an answer in each passage
)

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

// FlowOptions configures the nodes of graphs longer than FlowAsk.
type FlowOptions struct {
	flow.Budget
	Router       Decider           `key:"router" oneof:"auto gate llm" doc:"who chooses between the store, the web and the model's own knowledge: the gate, with no call of a language model, or the model; auto is the graph's own"`
	Grader       Decider           `key:"grader" oneof:"auto embedding reranker reader llm" doc:"who grades passages and answers: the gate's score and cut-off for each passage (embedding), the cross-encoder, the reader (whether a passage answers), or the language model; auto is the graph's own"`
	Verdicts     flow.Method       `key:"verdicts" oneof:"grammar tool parse" doc:"how language models give verdicts: JSON forced by a grammar, a call of a tool, or JSON that the prompt asks for"`
	Models       map[string]string `key:"models" pairs:"true" flag:"node-models" doc:"language models of nodes that have one of their own, as NODE=MODEL,NODE=MODEL; a MODEL is what 'model' takes"`
	Score        bool              `key:"score" doc:"the hallucination grader goes by the probability of its verdict, of the model's log-probabilities"`
	GroundedFrom float64           `key:"grounded_from" bounds:"0,1" doc:"probability from which on an answer counts as backed by the passages, with flow.score"`
}

// Web searches the web for a question. It returns the passages of the pages nearest to the question and the number of
// pages found.
type Web func(ctx context.Context, question string, pages int, o retrieve.Options) ([]prompt.Passage, int, error)

// webPages is the number of pages that a web search fetches, as in Rocha and Pessoa.
const webPages = 4

func (o FlowOptions) check(g *flow.Graph[*State]) error {
	var errs []error
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

// by returns the decider that is set, or else the preset's.
func by(set, preset Decider) Decider {
	if set != ByPreset {
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

package answer

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// The verdicts of nodes.
const (
	Open    flow.Verdict = "open"
	Closed  flow.Verdict = "closed"
	Found   flow.Verdict = "found"
	Nothing flow.Verdict = "nothing"
)

// FlowAsk is the preset that Options.Flow means when it is empty.
const FlowAsk = "ask"

// Presets are the names that Options.Flow may have.
func Presets() []string { return []string{FlowAsk} }

// Preset is the graph of a name, "" that of FlowAsk. Another name is knowledge.ErrOption.
func Preset(name string) (*flow.Graph[*State], error) {
	switch name {
	case "", FlowAsk:
		return ask()
	}
	return nil, fmt.Errorf("%w: flow %q (known: %s)", knowledge.ErrOption, name, strings.Join(Presets(), ", "))
}

// node makes a node of a method of State.
func node(does string, visit func(*State, context.Context, *flow.Visit) (flow.Verdict, error),
	verdicts ...flow.Verdict) flow.Node[*State] {
	return flow.Node[*State]{Does: does, Verdicts: verdicts,
		Visit: func(ctx context.Context, s *State, v *flow.Visit) (flow.Verdict, error) { return visit(s, ctx, v) }}
}

// ask is the shortest graph.
func ask() (*flow.Graph[*State], error) {
	return flow.New(FlowAsk, "the gate decides whether the store is used; one call of the language model", "gate",
		map[string]flow.Node[*State]{
			"gate":     node("asks the calibration whether the store can help", (*State).gate, Open, Closed),
			"retrieve": node("finds passages", (*State).retrieve, Found, Nothing),
			"prompt":   node("fits passages and question into the model's window", (*State).prompt),
			"generate": node("has the language model answer", (*State).generate),
		},
		flow.Edge{From: "gate", On: Open, To: "retrieve"},
		flow.Edge{From: "gate", On: Closed, To: "prompt"},
		flow.Edge{From: "retrieve", On: Found, To: "prompt"},
		flow.Edge{From: "retrieve", On: Nothing, To: "prompt"},
		flow.Edge{From: "prompt", On: flow.Done, To: "generate"},
		flow.Edge{From: "generate", On: flow.Done, To: flow.End})
}

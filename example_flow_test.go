package sluice_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
)

// This adds a node to the shortest graph: an answer that is too long is written once more.
func Example_flow() {
	s, _, done := exampleStore()
	defer done()

	brief := flow.Node[*answer.State]{Does: "looks at the length", Verdicts: []flow.Verdict{"short", "long"},
		Visit: func(_ context.Context, state *answer.State, v *flow.Visit) (flow.Verdict, error) {
			if len(strings.Fields(state.Answer.Answer)) > 2 {
				return "long", nil
			}
			return "short", nil
		}}
	ask, err := answer.Preset("ask")
	if err != nil {
		panic(err)
	}
	graph, err := ask.With("brief", map[string]flow.Node[*answer.State]{"brief": brief},
		flow.Edge{From: "generate", On: "done", To: "brief"},
		flow.Edge{From: "brief", On: "short", To: "end"},
		flow.Edge{From: "brief", On: "long", To: "prompt", Retry: true})
	if err != nil {
		panic(err)
	}

	o := answer.DefaultOptions()
	o.Graph = graph
	o.Budget.Retries = 1
	answer, err := s.Ask(context.Background(), "What do lighthouses warn of?", o)
	if err != nil {
		panic(err)
	}
	for _, step := range answer.Trace.Steps {
		fmt.Println(step.Node, step.Verdict, "→", step.Next)
	}
	fmt.Println(answer.Trace.Outcome, answer.Trace.Why)
	// Output:
	// gate open → retrieve
	// retrieve found → prompt
	// prompt done → generate
	// generate done → brief
	// brief long → prompt
	// prompt done → generate
	// generate done → brief
	// brief long → unknown
	// unknown retries
}

package sluice_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice"
)

// ExampleFlowOf plugs a node into the shortest graph: an answer that is too long is written again, once.
func ExampleFlowOf() {
	s, _, done := exampleStore()
	defer done()

	brief := sluice.FlowNode{Does: "looks at the length", Verdicts: []sluice.Verdict{"short", "long"},
		Visit: func(_ context.Context, state *sluice.FlowState, v *sluice.FlowVisit) (sluice.Verdict, error) {
			if len(strings.Fields(state.Answer.Answer)) > 2 {
				return "long", nil
			}
			return "short", nil
		}}
	ask, err := sluice.FlowOf("ask")
	if err != nil {
		panic(err)
	}
	graph, err := ask.With("brief", map[string]sluice.FlowNode{"brief": brief},
		sluice.FlowEdge{From: "generate", On: "done", To: "brief"},
		sluice.FlowEdge{From: "brief", On: "short", To: "end"},
		sluice.FlowEdge{From: "brief", On: "long", To: "prompt", Retry: true})
	if err != nil {
		panic(err)
	}

	o := sluice.DefaultAskOptions()
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

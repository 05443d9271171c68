package main

import (
	"strings"
	"testing"
)

func TestFlowVerb(t *testing.T) {
	b := newBench(t)
	for args, want := range map[string]string{
		"flow list":                     "graph-llm",
		"flow list --json":              `"nodes":["gate","retrieve","prompt","quote","generate"]`,
		"flow graph paper":              `n_documents -.->|"no"| n_rewrite`,
		"flow graph paper --form dot":   `"hallucination" -> "web" [label="hallucinated", style=dashed]`,
		"flow graph graph --form table": "own_knowledge",
	} {
		if said := b.ok(strings.Fields(args)...); !strings.Contains(said, want) {
			t.Errorf("%s: %s", args, said)
		}
	}
	b.fails(exitUsage, `flow "nothing"`, "flow", "graph", "nothing")
	b.fails(exitUsage, "--form is", "flow", "graph", "paper", "--form", "painting")
	b.fails(exitUsage, "must be one of ask, graph", "ask", "--flow", "nothing", "x")
}

// TestAskThroughAGraph checks that the trace lists the nodes of a question's graph in order, also in a batch.
func TestAskThroughAGraph(t *testing.T) {
	b := calibrated(t)
	b.model.Answers = []string{"An answer [1].", `{"grounded":"yes"}`, `{"resolves":"no"}`, "What else?"}
	said := b.ok("ask", "alpha beta", "--gate", "open", "--flow", "graph", "--retries", "0", "--trace",
		"--grader", "llm", "--max-calls", "1")
	for _, want := range []string{"I don't know.", "flow        graph: unknown (", "step        router: vectorstore"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	file := b.file("q.jsonl", `{"id":"a","text":"alpha beta"}`+"\n")
	steps := objects(t, b.ok("ask", "--batch", file, "--json"))[0]["trace"].(map[string]any)["steps"].([]any)
	var nodes []string
	for _, s := range steps {
		nodes = append(nodes, s.(map[string]any)["node"].(string))
	}
	if got := strings.Join(nodes, " "); got != "gate retrieve prompt generate" && got != "gate prompt generate" {
		t.Error(got)
	}
}

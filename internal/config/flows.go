package config

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
)

// flows are the settings of answer graphs.
func flows() []row {
	return []row{
		{key: "flow.preset", initial: answer.FlowAsk, oneOf: strings.Join(answer.Presets(), " "),
			doc: "the graph that a question goes through: ask is gate, search and one answer; graph, graph-llm and " +
				"paper " +
				"grade passages and answers, and correct themselves ('sluice flow list')"},
		{key: "flow.retries", initial: flow.DefaultRetries, min: "0", max: "100",
			doc: `how often a graph may turn back; then the answer is "I don't know"`},
		{key: "flow.max_calls", min: "0", max: "100000",
			doc: "calls of language models that a question may cost; then the answer is \"I don't know\"; " +
				"0 sets no limit"},
		{key: "flow.max_tokens", min: "0", max: "100000000",
			doc: "tokens of language models that a question may cost, prompts and completions; 0 sets no limit"},
		{key: "flow.timeout_s", min: "0", max: "86400",
			doc: "seconds that a question may take; 0 sets no limit"},
		{key: "flow.router", initial: "auto", oneOf: "auto gate llm",
			doc: "who chooses between the store, the web and the model's own knowledge: the gate, with no call of a " +
				"language " +
				"model, or the model; auto is the graph's own"},
		{key: "flow.grader", initial: "auto", oneOf: "auto embedding reranker llm",
			doc: "who grades passages: the gate's score and cut-off for each (embedding), the cross-encoder, or the " +
				"language " +
				"model; auto is the graph's own"},
		{key: "flow.verdicts", initial: flow.Grammar, oneOf: "grammar tool parse",
			doc: "how language models give verdicts: JSON forced by a grammar, a call of a tool, or JSON that the " +
				"prompt asks for"},
		{key: "flow.score",
			doc: "the hallucination grader goes by the probability of its verdict, of the model's log-probabilities"},
		{key: "flow.grounded_from", initial: .5, min: "0", max: "1",
			doc: "probability from which on an answer counts as backed by the passages, with flow.score"},
		{key: "flow.models", pairs: true,
			doc: "language models of nodes that have one of their own, as NODE=MODEL,NODE=MODEL; a MODEL is what " +
				"'model' takes"},
	}
}

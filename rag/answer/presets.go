package answer

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// The presets.
const (
	FlowAsk      = "ask"       // what an empty Options.Flow means
	FlowPaper    = "paper"     // Rocha and Pessoa
	FlowGraph    = "graph"     // the gate routes, embeddings grade passages, answers are graded
	FlowGraphLLM = "graph-llm" // the same nodes, all by the language model
)

// Presets returns the names that Options.Flow may have.
func Presets() []string { return []string{FlowAsk, FlowGraph, FlowGraphLLM, FlowPaper} }

// Preset returns the graph of a name, "" that of FlowAsk. Another name is knowledge.ErrOption.
func Preset(name string) (*flow.Graph[*State], error) { return preset(name, Write) }

// preset returns the graph of a name for answers of a style: FlowAsk has a node for quotes, the others quote where they
// would write.
func preset(name string, style Style) (*flow.Graph[*State], error) {
	switch name {
	case "", FlowAsk:
		return ask(style)
	case FlowPaper:
		return paper()
	case FlowGraph:
		return graph(FlowGraph, "the gate routes, embeddings grade passages, answers are graded",
			ByGate, ByEmbedding, "")
	case FlowGraphLLM:
		return graph(FlowGraphLLM, "the language model routes and grades", ByLLM, ByLLM, ByLLM)
	}
	return nil, fmt.Errorf("%w: flow %q (known: %s)", knowledge.ErrOption, name, strings.Join(Presets(), ", "))
}

type (
	nodes = map[string]flow.Node[*State]
	visit = func(*State, context.Context, *flow.Visit) (flow.Verdict, error)
)

// node makes a node of a method of State.
func node(does string, visit visit, verdicts ...flow.Verdict) flow.Node[*State] {
	return flow.Node[*State]{Does: does, Verdicts: verdicts,
		Visit: func(ctx context.Context, s *State, v *flow.Visit) (flow.Verdict, error) { return visit(s, ctx, v) }}
}

// with is a visit that is given who decides.
func with(
	visit func(*State, context.Context, *flow.Visit, Decider) (flow.Verdict, error), decider Decider,
) visit {
	return func(s *State, ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
		return visit(s, ctx, v, decider)
	}
}

// edge leads on; retry is an edge that leads back.
func edge(from string, on flow.Verdict, to string) flow.Edge {
	return flow.Edge{From: from, On: on, To: to}
}
func retry(from string, on flow.Verdict, to string) flow.Edge {
	return flow.Edge{From: from, On: on, To: to, Retry: true}
}

// ask returns the shortest graph. In the style Quote, and where the passages do not seem to answer, a node quotes, and
// the language model is called where there is nothing to quote.
func ask(style Style) (*flow.Graph[*State], error) {
	does, found := "the gate decides whether the store is used; one call of the language model", promptNode
	if style == Quote {
		does, found = "the gate decides whether the store is used; sentences of the passages answer", quoteNode
	}
	return flow.New(FlowAsk, does, gateNode, nodes{
		gateNode:     node("asks the calibration whether the store can help", (*State).gate, Open, Closed),
		retrieveNode: node("finds passages, and whether they answer", (*State).search, Found, Topical, Nothing),
		quoteNode:    node("quotes the sentences that answer, or the nearest ones", (*State).quote, Found, Nothing),
		promptNode:   node("fits passages and question into the model's window", (*State).prompt),
		generateNode: node("has the language model answer", (*State).generate),
	},
		edge(gateNode, Open, retrieveNode),
		edge(gateNode, Closed, promptNode),
		edge(retrieveNode, Found, found),
		edge(retrieveNode, Topical, quoteNode),
		edge(retrieveNode, Nothing, promptNode),
		edge(quoteNode, Found, flow.End),
		edge(quoteNode, Nothing, promptNode),
		edge(promptNode, flow.Done, generateNode),
		edge(generateNode, flow.Done, flow.End))
}

// common returns the nodes that the longer graphs share, with who decides at the router, at the grader of documents and
// at the graders of answers; "" is the language model where its scorecard says that its verdicts count.
func common(router, documents, answers Decider, own bool) nodes {
	places := []flow.Verdict{VectorStore, WebSearch}
	if own {
		places = append(places, OwnKnowledge)
	}
	return nodes{
		routerNode: node("chooses where the answer is looked for",
			func(s *State, ctx context.Context, v *flow.Visit) (flow.Verdict, error) {
				return s.route(ctx, v, router, own)
			}, places...),
		retrieveNode:  node("finds passages in the store", (*State).retrieve, Found, Nothing),
		webNode:       node("finds passages in the web", (*State).web, Found, Nothing, Unavailable),
		documentsNode: node("grades whether the passages are relevant", with((*State).documents, documents), Yes, No),
		generateNode:  node("has the language model answer", (*State).write),
		hallucinationNode: node("grades whether the passages back the answer", with((*State).hallucination, answers),
			Grounded, Hallucinated, Unchecked),
		answerNode:  node("grades whether the answer resolves the question", with((*State).resolved, answers), Yes, No),
		rewriteNode: node("puts the question in other words", with((*State).rewrite, answers), flow.Done, Repeated),
	}
}

// paper returns the graph of Rocha and Pessoa, Advanced Retrieval Augmented Generation for Local LLMs: the chunks are
// retrieved first, and the router is shown them.
func paper() (*flow.Graph[*State], error) {
	return flow.New(FlowPaper, "the self-correcting graph of Rocha and Pessoa", retrieveNode,
		common("", "", "", false),
		edge(retrieveNode, Found, routerNode),
		edge(retrieveNode, Nothing, routerNode),
		edge(routerNode, VectorStore, documentsNode),
		edge(routerNode, WebSearch, webNode),
		edge(webNode, Found, documentsNode),
		edge(webNode, Nothing, generateNode),
		edge(webNode, Unavailable, generateNode),
		edge(documentsNode, Yes, generateNode),
		retry(documentsNode, No, rewriteNode),
		edge(rewriteNode, flow.Done, retrieveNode),
		edge(rewriteNode, Repeated, flow.IDontKnow),
		edge(generateNode, flow.Done, hallucinationNode),
		edge(hallucinationNode, Grounded, answerNode),
		edge(hallucinationNode, Unchecked, answerNode),
		retry(hallucinationNode, Hallucinated, webNode),
		edge(answerNode, Yes, flow.End),
		retry(answerNode, No, rewriteNode))
}

// graph is Sluice's own: the router comes before the search, and may choose the model's own knowledge.
func graph(name, does string, router, documents, answers Decider) (*flow.Graph[*State], error) {
	return flow.New(name, does, routerNode, common(router, documents, answers, true),
		edge(routerNode, VectorStore, retrieveNode),
		edge(routerNode, WebSearch, webNode),
		edge(routerNode, OwnKnowledge, generateNode),
		edge(retrieveNode, Found, documentsNode),
		retry(retrieveNode, Nothing, rewriteNode),
		edge(webNode, Found, documentsNode),
		edge(webNode, Nothing, generateNode),
		edge(webNode, Unavailable, generateNode),
		edge(documentsNode, Yes, generateNode),
		retry(documentsNode, No, rewriteNode),
		edge(generateNode, flow.Done, hallucinationNode),
		edge(hallucinationNode, Grounded, answerNode),
		edge(hallucinationNode, Unchecked, answerNode),
		retry(hallucinationNode, Hallucinated, webNode),
		edge(answerNode, Yes, flow.End),
		retry(answerNode, No, rewriteNode),
		edge(rewriteNode, flow.Done, routerNode),
		edge(rewriteNode, Repeated, flow.IDontKnow))
}

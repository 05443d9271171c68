package answer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// actor is a language model that knows by the request which node asks, and has a list of answers for each: the last one
// for ever. Without a list, graders let pass.
type actor struct {
	*doubles.Model
	lists map[string][]string

	mu   sync.Mutex
	seen map[string][]llm.Request
}

func newActor(lists map[string][]string) *actor {
	return &actor{Model: doubles.NewModel("x"), lists: lists, seen: map[string][]llm.Request{}}
}

// asker returns the node that a request comes from.
func asker(r llm.Request) string {
	schema := string(r.Schema)
	for _, t := range r.Tools {
		schema += string(t.Parameters)
	}
	schema += r.Messages[len(r.Messages)-1].Content
	for key, node := range map[string]string{`"source"`: "router", `"relevant"`: "documents",
		`"grounded"`: "hallucination", `"resolves"`: "answer"} {
		if strings.Contains(schema, key) {
			return node
		}
	}
	if strings.HasPrefix(r.Messages[0].Content, "Rewrite the question") {
		return "rewrite"
	}
	return "generate"
}

func (a *actor) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	if err := ctx.Err(); err != nil {
		return llm.Result{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	node := asker(r)
	text := map[string]string{"router": "vectorstore", "documents": "yes", "hallucination": "yes", "answer": "yes",
		"generate": "Ships are warned [1]."}[node]
	if node == "rewrite" {
		text = fmt.Sprintf("Who, number %d: when does a deferred function run, in which order?", len(a.seen[node])+1)
	}
	if list := a.lists[node]; len(list) > 0 {
		text = list[min(len(a.seen[node]), len(list)-1)]
	}
	key := map[string]string{"router": "source", "documents": "relevant", "hallucination": "grounded",
		"answer": "resolves"}[node]
	if key != "" {
		text = fmt.Sprintf("{%q: %q}", key, text)
	}
	a.seen[node] = append(a.seen[node], r)
	result := llm.Result{Text: text, PromptTokens: 10, CompletionTokens: 2, Finish: llm.FinishStop}
	if len(r.Tools) > 0 {
		result.Text, result.ToolCalls, result.Finish = "", []llm.ToolCall{{Name: r.Tools[0].Name, Arguments: text}},
			llm.FinishTools
	}
	if stream != nil {
		return result, stream(result.Text)
	}
	return result, nil
}

// path returns the nodes of a trace with their verdicts.
func path(t answer.Trace) string {
	var all []string
	for _, s := range t.Steps {
		verdict := ":" + string(s.Verdict)
		if s.Verdict == flow.Done {
			verdict = ""
		}
		all = append(all, s.Node+verdict)
	}
	return strings.Join(all, " ")
}

// pages returns a web that has one page.
func pages(context.Context, string, int, retrieve.Options) ([]prompt.Passage, int, error) {
	return []prompt.Passage{{Chunk: corpus.Chunk{ID: "https://example.org#0",
		Text: "When does a deferred function run? In order."},
		Score: .9}}, 1, nil
}

func noPages(context.Context, string, int, retrieve.Options) ([]prompt.Passage, int, error) {
	return nil, 0, nil
}

func brokenWeb(context.Context, string, int, retrieve.Options) ([]prompt.Passage, int, error) {
	return nil, 0, errors.New("the provider is away")
}

func (w world) flow(t *testing.T, m llm.Generator, web answer.Web, question string, o answer.Options) *answer.Answer {
	t.Helper()
	a, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: question, Options: o, Web: web,
		Model: func(context.Context) (llm.Generator, error) { return m, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

const (
	inScope  = "When does a deferred function run, in which order?"
	outScope = "Who won the match on Sunday evening?"
)

// lists maps one node to the answers that its model gives, in order.
func lists(node string, answers ...string) map[string][]string {
	return map[string][]string{node: answers}
}

// TestEdges forces each edge of the presets.
func TestEdges(t *testing.T) {
	const good = "generate hallucination:grounded answer:yes"
	for name, c := range map[string]struct {
		flow     string
		question string
		lists    map[string][]string
		web      answer.Web
		want     string
	}{
		"paper: the straight way": {"paper", inScope, nil, pages,
			"retrieve:found router:vectorstore documents:yes " + good},
		"paper: web": {"paper", inScope, lists("router", "web_search"), pages,
			"retrieve:found router:web_search web:found documents:yes " + good},
		"paper: no provider, the router is not asked": {"paper", inScope, lists("router", "web_search"), nil,
			"retrieve:found router:vectorstore documents:yes " + good},
		"paper: nothing in the web": {"paper", inScope, lists("router", "web_search"), noPages,
			"retrieve:found router:web_search web:nothing " + good},
		"paper: the web is away": {"paper", inScope, lists("router", "web_search"), brokenWeb,
			"retrieve:found router:web_search web:unavailable " + good},
		"paper: documents are not relevant": {"paper", inScope, lists("documents", "no", "yes"), pages,
			"retrieve:found router:vectorstore documents:no rewrite retrieve:found router:vectorstore documents:yes " +
				good},
		"paper: hallucination": {"paper", inScope, lists("hallucination", "no", "yes"), pages,
			"retrieve:found router:vectorstore documents:yes generate hallucination:hallucinated web:found " +
				"documents:yes " + good},
		"paper: hallucination, no provider": {"paper", inScope, lists("hallucination", "no", "yes"), nil,
			"retrieve:found router:vectorstore documents:yes generate hallucination:hallucinated web:unavailable " +
				good},
		"paper: the answer does not resolve it": {"paper", inScope, lists("answer", "no", "yes"), pages,
			"retrieve:found router:vectorstore documents:yes generate hallucination:grounded answer:no rewrite " +
				"retrieve:found router:vectorstore documents:yes " + good},
		"graph: in scope": {"graph", inScope, nil, nil,
			"router:vectorstore retrieve:found documents:yes " + good},
		"graph: out of scope": {"graph", outScope, nil, nil,
			"router:own_knowledge generate hallucination:unchecked answer:yes"},
		"graph: out of scope, to the web": {"graph", outScope, nil, noPages,
			"router:web_search web:nothing generate hallucination:unchecked answer:yes"},
		"graph: pages that are not about it": {"graph", outScope, nil, pages,
			"router:web_search web:found documents:no rewrite router:vectorstore retrieve:found documents:yes " + good},
		"graph: the re-written question goes to the gate": {"graph", outScope, lists("answer", "no", "yes"), nil,
			"router:own_knowledge generate hallucination:unchecked answer:no rewrite router:vectorstore " +
				"retrieve:found documents:yes " + good},
		"graph: hallucination": {"graph", inScope, lists("hallucination", "no", "yes"), pages,
			"router:vectorstore retrieve:found documents:yes generate hallucination:hallucinated web:found " +
				"documents:yes " + good},
		"graph-llm: the model's own knowledge": {"graph-llm", inScope, lists("router", "own_knowledge"), nil,
			"router:own_knowledge generate hallucination:unchecked answer:yes"},
		"graph-llm: web": {"graph-llm", inScope, lists("router", "web_search"), pages,
			"router:web_search web:found documents:yes " + good},
		"graph-llm: documents": {"graph-llm", inScope, lists("documents", "no", "yes"), nil,
			"router:vectorstore retrieve:found documents:no rewrite router:vectorstore retrieve:found documents:yes " +
				good},
		"graph-llm: the web is away": {"graph-llm", inScope, lists("router", "web_search"), brokenWeb,
			"router:web_search web:unavailable generate hallucination:unchecked answer:yes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newActor(c.lists)
			a := newWorld(t).flow(t, m, c.web, c.question, overlay.On(answer.DefaultOptions(),
				answer.Options{Flow: c.flow}))
			if got := path(a.Trace); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if a.Trace.Outcome != flow.Answered || a.Answer != "Ships are warned [1]." && a.Retrieved {
				t.Errorf("%+v", a)
			}
			calls := 0
			for _, s := range a.Trace.Steps {
				calls += s.Calls
			}
			if a.Trace.LLMCalls != calls || a.Trace.Flow != c.flow {
				t.Errorf("%d calls, the steps have %d", a.Trace.LLMCalls, calls)
			}
		})
	}
}

// TestNothingFound: an empty search of a graph turns back, and of the paper's goes on to the router.
func TestNothingFound(t *testing.T) {
	w := newWorld(t)
	nobody := overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{Where: retrieve.Filter{{Field: "topic", Op: "=", Value: "no such topic"}}})
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph", Retrieve: nobody})
	o.Budget.Retries = 0
	a := w.flow(t, newActor(nil), nil, inScope, o)
	if got := path(a.Trace); got != "router:vectorstore retrieve:nothing" || a.Trace.Why != flow.Retries {
		t.Error(got, a.Trace.Why)
	}
	a = w.flow(t, newActor(lists("router", "web_search")), pages, inScope,
		overlay.On(answer.DefaultOptions(), answer.Options{Flow: "paper", Retrieve: nobody}))
	if got := path(a.Trace); !strings.HasPrefix(got, "retrieve:nothing router:web_search web:found documents:yes") {
		t.Error(got)
	}
}

// TestRetryLimit: each kind of refusal ends in an honest "I don't know" when the retries are spent.
func TestRetryLimit(t *testing.T) {
	w := newWorld(t)
	for _, preset := range []string{"paper", "graph", "graph-llm"} {
		for _, node := range []string{"documents", "hallucination", "answer"} {
			if preset == "graph" && node == "documents" {
				continue // it grades by embedding
			}
			for _, retries := range []int{0, 1, 2} {
				m := newActor(lists(node, "no"))
				o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: preset})
				o.Budget.Retries = retries
				var streamed strings.Builder
				o.Stream = func(piece string) error { streamed.WriteString(piece); return nil }
				a := w.flow(t, m, pages, inScope, o)
				if a.Trace.Outcome != flow.Unknown || a.Trace.Why != flow.Retries ||
					a.Trace.Retries != max(retries, 0) || a.Answer != answer.IDontKnow ||
					streamed.String() != a.Answer ||
					a.Retrieved || len(a.Citations) > 0 || a.Trace.Notice == "" {
					t.Errorf("%s %s %d: %+v", preset, node, retries, a)
				}
				if n := len(m.seen[node]); n != max(retries, 0)+1 {
					t.Errorf("%s %s %d: graded %d times", preset, node, retries, n)
				}
			}
		}
	}
}

// TestTemperatures: .4 is lowered to .3 by a hallucination, and the re-writer's 0 raised to .1 by an answer that does
// not resolve the question; documents that are not relevant raise nothing.
func TestTemperatures(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		lists    map[string][]string
		answers  []float64
		rewrites []float64
	}{
		"straight":      {nil, []float64{.4}, nil},
		"hallucination": {lists("hallucination", "no", "no", "yes"), []float64{.4, .3, .3}, nil},
		"answer":        {lists("answer", "no", "yes"), []float64{.4, .4}, []float64{.1}},
		"documents":     {lists("documents", "no", "yes"), []float64{.4}, []float64{0}},
	} {
		m := newActor(c.lists)
		a := w.flow(t, m, pages, inScope, overlay.On(answer.DefaultOptions(), answer.Options{Flow: "paper"}))
		temperatures := func(node string) (all []float64) {
			for _, r := range m.seen[node] {
				all = append(all, r.Temperature)
			}
			return all
		}
		if !slices.Equal(temperatures("generate"), c.answers) || !slices.Equal(temperatures("rewrite"), c.rewrites) {
			t.Errorf("%s: %v, %v", name, temperatures("generate"), temperatures("rewrite"))
		}
		if got := a.Trace.Temperatures; got == nil || got.Answer != c.answers[len(c.answers)-1] {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDeciders: gate, embedding and reranker stand in for calls of the model, and what a node has set is what counts.
func TestDeciders(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		router, grader answer.Decider
		calls          int
		documents      string
	}{
		{answer.ByPreset, answer.ByPreset, 5, "documents:yes"},
		{answer.ByGate, answer.ByPreset, 4, "documents:yes"},
		{answer.ByGate, answer.ByEmbedding, 1, "documents:yes"},
		{answer.ByLLM, answer.ByEmbedding, 2, "documents:yes"},
	} {
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph-llm"})
		o.Router, o.Grader = c.router, c.grader
		m := newActor(lists("generate", "A deferred function runs in the order of last in, first out [1]."))
		a := w.flow(t, m, pages, inScope, o)
		if a.Trace.LLMCalls != c.calls || !strings.Contains(path(a.Trace), c.documents) {
			t.Errorf("%s, %s: %d calls, %s", c.router, c.grader, a.Trace.LLMCalls, path(a.Trace))
		}
		if kept := len(a.Trace.Retrieved); c.grader == answer.ByEmbedding && (kept == 0 || kept == 4 ||
			a.Trace.Retrieved[0].ID != "defer" || kept != len(a.Citations)) {
			t.Errorf("%d passages are left: %+v", kept, a.Trace.Retrieved)
		}
	}
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"})
	o.Grader = answer.ByReranker
	_, err := answer.Run(t.Context(), w.Base.Base, answer.Input{Question: inScope, Options: o, Model: w.Generator})
	if !errors.Is(err, knowledge.ErrOption) {
		t.Errorf("without a reranker: %v", err)
	}
}

// TestMethods: verdicts come by grammar, tool call or prompt.
func TestMethods(t *testing.T) {
	w := newWorld(t)
	for _, method := range flow.Methods() {
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph-llm"})
		o.Verdicts = method
		m := newActor(nil)
		a := w.flow(t, m, pages, inScope, o)
		for _, node := range []string{"router", "documents", "hallucination", "answer"} {
			if len(m.seen[node]) != 1 {
				t.Fatalf("%s: %s was asked %d times: %s", method, node, len(m.seen[node]), path(a.Trace))
			}
			r := m.seen[node][0]
			if (len(r.Schema) > 0) != (method == flow.Grammar) || (len(r.Tools) > 0) != (method == flow.Tool) {
				t.Errorf("%s: %s: %+v", method, node, r)
			}
		}
	}
	m := newActor(lists("documents", "perhaps")) // what cannot be read is the careful verdict
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph-llm"})
	o.Budget.Retries = 0
	a := w.flow(t, m, nil, inScope, o)
	if last := a.Trace.Steps[len(a.Trace.Steps)-1]; last.Verdict != answer.No ||
		!strings.Contains(last.Detail, "perhaps") {
		t.Errorf("%+v", last)
	}
}

// TestRunBudget: calls, tokens and time bound the whole run.
func TestRunBudget(t *testing.T) {
	w := newWorld(t)
	for why, b := range map[flow.Limit]flow.Budget{flow.Calls: {Calls: 2}, flow.Tokens: {Tokens: 30},
		flow.Time: {Time: time.Nanosecond}} {
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "paper"})
		o.Budget = b
		m := newActor(nil)
		m.Window = 100_000
		a := w.flow(t, m, pages, inScope, o)
		if a.Trace.Outcome != flow.Unknown || a.Trace.Why != why || a.Answer != answer.IDontKnow ||
			b.Calls > 0 && a.Trace.LLMCalls != b.Calls {
			t.Errorf("%s: %+v", why, a.Trace)
		}
	}
}

func TestFlowIsCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "paper", Step: func(s flow.Step) {
		if s.Node == "documents" {
			stop()
		}
	}})
	a, err := answer.Run(ctx, w.Base.Base, answer.Input{Question: inScope, Options: o,
		Model: func(context.Context) (llm.Generator, error) { return newActor(nil), nil }})
	if !errors.Is(err, context.Canceled) || a == nil || a.Trace.Outcome != "" ||
		path(a.Trace) != "retrieve:found router:vectorstore documents:yes generate:error" {
		t.Errorf("%v, %s", err, path(a.Trace))
	}
}

// TestModelsOfNodes: any node may have a model of its own.
func TestModelsOfNodes(t *testing.T) {
	w := newWorld(t)
	own, other := newActor(nil), newActor(nil)
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph-llm"})
	o.Models = map[string]string{"hallucination": "https://example.org/v1#big"}
	var opened []string
	in := answer.Input{Question: inScope, Options: o,
		Model: func(context.Context) (llm.Generator, error) { return own, nil },
		Named: func(_ context.Context, name string) (llm.Generator, error) {
			opened = append(opened, name)
			return other, nil
		}}
	if _, err := answer.Run(t.Context(), w.Base.Base, in); err != nil || len(opened) != 1 ||
		len(other.seen["hallucination"]) != 1 || len(other.seen) != 1 || len(own.seen["hallucination"]) != 0 {
		t.Errorf("%v, %v: %v", err, opened, other.seen)
	}
	for _, bad := range []answer.FlowOptions{{Models: map[string]string{"nobody": "x"}}, {Router: "coin"},
		{Grader: "gate"}, {Verdicts: "guess"}, {GroundedFrom: 2}, {Budget: flow.Budget{Calls: -1}}} {
		in.FlowOptions = bad
		if _, err := answer.Run(t.Context(), w.Base.Base, in); !errors.Is(err, knowledge.ErrOption) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestAnswersWaitForTheirGraders: nothing is handed out before the answer held, and Start comes once.
func TestAnswersWaitForTheirGraders(t *testing.T) {
	w := newWorld(t)
	m := newActor(map[string][]string{"generate": {"Wrong.", "Right [1]."}, "hallucination": {"no", "yes"}})
	var heard []string
	started, finished, sources := 0, 0, 0
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "paper", Step: func(flow.Step) { finished++ },
		Start: func(t answer.Trace) { started = len(t.Steps) },
		Sources: func(c []prompt.Citation) {
			if sources++; started == 0 || len(heard) > 0 || len(c) == 0 {
				t.Errorf("%d sources after %d steps and %q", len(c), started, heard)
			}
		},
		Stream: func(piece string) error { heard = append(heard, piece); return nil }})
	a := w.flow(t, m, pages, inScope, o)
	if strings.Join(heard, "") != "Right [1]." || a.Answer != "Right [1]." || started != finished || finished < 8 ||
		sources != 1 ||
		!a.Citations[0].Cited {
		t.Errorf("%q, %d steps before of %d; %+v", heard, started, finished, a.Citations)
	}
}

// scorer is a cross-encoder that takes what holds a word for relevant.
type scorer struct{ word string }

func (s scorer) Score(_ context.Context, _ string, documents []string) (*embed.Scores, error) {
	scores := &embed.Scores{}
	for _, d := range documents {
		logit := float32(-3)
		if strings.Contains(d, s.word) {
			logit = 3
		}
		scores.Logits = append(scores.Logits, logit)
	}
	return scores, nil
}

func (scorer) Info() embed.Info { return embed.Info{} }

// TestRerankerGrades: the cross-encoder keeps what it takes for relevant, also of the web.
func TestRerankerGrades(t *testing.T) {
	w := newWorldWith(t, func(c *knowledge.Config) {
		c.Scorer = func(context.Context) (embed.Scorer, error) { return scorer{"function"}, nil }
	})
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"})
	o.Grader = answer.ByReranker
	m := newActor(lists("generate", "A deferred function runs in the order of last in, first out [1]."))
	a := w.flow(t, m, pages, inScope, o)
	if len(a.Trace.Retrieved) != 1 || a.Trace.Retrieved[0].ID != "defer" || len(a.Citations) != 1 ||
		a.Trace.Steps[2].Score == nil || a.Trace.Steps[2].Detail != "1 of 4 relevant" {
		t.Errorf("%+v", a.Trace)
	}
	o.Router = answer.ByLLM
	a = w.flow(t, newActor(lists("router", "web_search")), pages, inScope, o)
	if len(a.Trace.Retrieved) == 0 || a.Trace.Retrieved[0].ID != "https://example.org#0" {
		t.Errorf("%+v", a.Trace.Retrieved)
	}
}

// sure is an actor whose verdicts have probabilities.
type sure struct {
	*actor
	yes float64
}

func (s sure) Generate(ctx context.Context, r llm.Request, stream func(string) error) (llm.Result, error) {
	result, err := s.actor.Generate(ctx, r, stream)
	if r.LogProbs {
		before, after, _ := strings.Cut(result.Text, "yes")
		result.LogProbs = []llm.TokenLogProb{{Text: before}, {Text: "yes", Top: []llm.TokenLogProb{
			{Text: "yes", LogProb: math.Log(s.yes)}, {Text: "no", LogProb: math.Log(1 - s.yes)}}}, {Text: after}}
	}
	return result, err
}

// TestHallucinationScore: the probability decides where it is asked for, and the cut-off is the user's.
func TestHallucinationScore(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		yes, from float64
		want      flow.Verdict
	}{{.6, .5, answer.Grounded}, {.4, .5, answer.Hallucinated}, {.6, .7, answer.Hallucinated},
		{.4, .3, answer.Grounded}} {
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"})
		o.Score, o.GroundedFrom, o.Budget.Retries = true, c.from, 0
		a := w.flow(t, sure{newActor(nil), c.yes}, nil, inScope, o)
		step := a.Trace.Steps[4]
		if step.Node != "hallucination" || step.Verdict != c.want || step.Score == nil ||
			math.Abs(*step.Score-c.yes) > 1e-9 {
			t.Errorf("%v: %+v", c, step)
		}
	}
	o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"})
	o.Score = true
	a := w.flow(t, newActor(nil), nil, inScope, o) // a model without probabilities
	if step := a.Trace.Steps[4]; step.Verdict != answer.Grounded || !strings.Contains(step.Detail, "no probabilities") {
		t.Errorf("%+v", step)
	}
}

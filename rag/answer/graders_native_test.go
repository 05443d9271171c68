//go:build native

package answer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// rate counts verdicts on pairs whose label is known.
type rate struct{ yes, ofYes, no, ofNo int }

func (r *rate) add(label, said bool) {
	switch {
	case label && said:
		r.yes, r.ofYes = r.yes+1, r.ofYes+1
	case label:
		r.ofYes++
	case !said:
		r.no, r.ofNo = r.no+1, r.ofNo+1
	default:
		r.ofNo++
	}
}

func (r rate) String() string {
	sensitivity, specificity := float64(r.yes)/float64(r.ofYes), float64(r.no)/float64(r.ofNo)
	return fmt.Sprintf("balanced accuracy %.3f (yes %d of %d, no %d of %d)", (sensitivity+specificity)/2, r.yes,
		r.ofYes,
		r.no, r.ofNo)
}

// pair is a question with a context, and whether that is its own.
type pair struct {
	question, context datum
	own               bool
}

// pairsOf are answerable questions each with its own context, and with one of another topic or, hard, with the best of
// its own topic's others.
func pairsOf(t *testing.T, s squad, n int, hard bool) (pairs []pair) {
	t.Helper()
	byID := map[string]datum{}
	for _, c := range s.contexts {
		byID[c.ID] = c
	}
	random := rand.New(rand.NewPCG(1, 2))
	rest := slices.DeleteFunc(slices.Clone(s.rest), func(q datum) bool { return !q.Answerable })
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for _, q := range rest[:min(n, len(rest))] {
		other := s.contexts[random.IntN(len(s.contexts))]
		for other.Topic == q.Topic {
			other = s.contexts[random.IntN(len(s.contexts))]
		}
		if hard {
			lists, err := s.Retrieve(t.Context(), []string{q.Text}, overlay.On(retrieve.DefaultOptions(),
				retrieve.Options{K: 2}))
			if err != nil {
				t.Fatal(err)
			}
			other = byID[lists[0].Results[0].ID]
			if other.ID == q.ContextID {
				other = byID[lists[0].Results[1].ID]
			}
		}
		pairs = append(pairs, pair{q, byID[q.ContextID], true}, pair{q, other, false})
	}
	return pairs
}

// TestEmbeddingGraderFigures grades pairs by the gate's score and cut-off, as the embedding grader does.
func TestEmbeddingGraderFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/answer -run EmbeddingGraderFigures -figures -v")
	}
	s := openSquad(t, datasets.Lines(t, "squad16/contexts.jsonl"))
	base, enc := s.base(t)
	snap, _, err := base.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	g, err := snap.Gate(t.Context(), enc.Info().Encoder)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for i, id := range snap.View.IDs {
		rows[id] = i
	}
	for _, hard := range []bool{false, true} {
		var r rate
		for _, p := range pairsOf(t, s, 1000, hard) {
			e, err := base.Embed(t.Context(), []string{p.question.Text}, embed.Query)
			if err != nil {
				t.Fatal(err)
			}
			d, err := snap.DecideEach(t.Context(), g, p.question.Text, knowledge.Vectors(e), []int{rows[p.context.ID]})
			if err != nil {
				t.Fatal(err)
			}
			r.add(p.own, d[0].Retrieve)
		}
		t.Logf("embedding grader, %s: %v",
			map[bool]string{false: "contexts of other topics", true: "the nearest others"}[hard],
			r)
		if !hard && float64(r.yes)/float64(r.ofYes)+float64(r.no)/float64(r.ofNo) < 1.8 {
			t.Errorf("balanced accuracy below .9")
		}
	}
}

// base returns the store's base, below the API.
func (s squad) base(t *testing.T) (*knowledge.Base, embed.Embedder) {
	t.Helper()
	dir, err := models.Locate(sluice.DefaultEncoder)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := embed.Open(t.Context(), dir, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New(knowledge.Config{Dir: s.dir, Engine: e,
		Encoder: func(context.Context) (embed.Embedder, error) { return enc, nil }})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		enc.Close()
	})
	return b, enc
}

// TestModelGraderFigures has the language model grade labelled pairs with each method.
func TestModelGraderFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/answer -run ModelGraderFigures -figures -v")
	}
	s := openSquad(t, datasets.Lines(t, "squad16/contexts.jsonl"))
	model, err := s.Models().Language(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	library, err := prompt.Open("")
	if err != nil {
		t.Fatal(err)
	}
	pairs := pairsOf(t, s, *figureCount/3, false)
	methods := []flow.Method{flow.Grammar, flow.Parse}
	if *figureMethods != "" {
		methods = nil
		for m := range strings.SplitSeq(*figureMethods, ",") {
			methods = append(methods, flow.Method(m))
		}
	}
	for _, method := range methods {
		for _, grader := range []prompt.Grader{prompt.Documents, prompt.Hallucination, prompt.AnswerGrader} {
			var r rate
			unread, scored := 0, [2][]float64{}
			for i, p := range pairs {
				in := prompt.Graded{Question: p.question.Text,
					Passages: []prompt.Passage{{Chunk: corpus.Chunk{Text: p.context.Text}}}}
				if i%2 == 1 { // the question's own context, with another one's answer
					in.Answer = statement(pairs[(i+1)%len(pairs)].question)
				} else {
					in.Answer = statement(p.question)
				}
				if grader == prompt.Hallucination && i%2 == 1 {
					in.Passages[0].Chunk.Text = pairs[i-1].context.Text
				}
				said := askGrader(t, library, model, grader, in, method)
				if said.Verdict == "" {
					unread++
				}
				r.add(p.own, said.Verdict == answer.Yes)
				if p, ok := said.Probability[answer.Yes]; ok {
					scored[i%2] = append(scored[i%2], p)
				}
			}
			t.Logf("%-13s by %-7s: %v, %d could not be read%s", grader, method, r, unread, separated(scored))
		}
	}
}

// statement returns a question's answer as a model would give it.
func statement(q datum) string {
	if len(q.Answers) == 0 {
		return "I do not know."
	}
	return fmt.Sprintf("It is %v.", q.Answers[0])
}

// separated returns how often a pair with the label yes has a higher probability than one with no.
func separated(scored [2][]float64) string {
	above, all := 0., 0.
	for _, yes := range scored[0] {
		for _, no := range scored[1] {
			switch all++; {
			case yes > no:
				above++
			case yes == no:
				above += .5
			}
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("; AUROC of its probability %.3f", above/all)
}

func askGrader(t *testing.T, l *prompt.Library, m llm.Generator, g prompt.Grader, in prompt.Graded,
	method flow.Method) flow.Said {
	t.Helper()
	return askGraderWith(t, l, m, g, in, method, func(text string) string { return text })
}

// askGraderWith is askGrader with its messages changed.
func askGraderWith(t *testing.T, l *prompt.Library, m llm.Generator, g prompt.Grader, in prompt.Graded,
	method flow.Method, change func(string) string) flow.Said {
	t.Helper()
	key, choices := prompt.Verdicts(g)
	in.Choices = choices
	p, err := l.Grade(g, in, prompt.Options{ContextTokens: m.ContextSize(), AnswerTokens: 100, Count: m.CountTokens})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Messages {
		p.Messages[i].Content = change(p.Messages[i].Content)
	}
	q := flow.Question{Messages: p.Messages, Key: key, Method: method, Score: method == flow.Grammar}
	for _, c := range choices {
		q.Values = append(q.Values, flow.Verdict(c.Name))
	}
	said, err := flow.Ask(t.Context(), m, q)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// variants are the graphs of TestFlowFigures: as they are by default, with written answers, and by the language model.
var variants = []struct {
	name           string
	style          answer.Style
	router, grader answer.Decider
}{{name: "ask"}, {name: "ask", style: answer.Write}, {name: "graph"}, {name: "graph", grader: answer.ByReader},
	{name: "paper"},
	{name: "paper", style: answer.Write, router: answer.ByLLM, grader: answer.ByLLM}, {name: "graph-llm"},
	{name: "graph-llm", router: answer.ByGate}, {name: "graph-llm", grader: answer.ByEmbedding}}

// TestFlowFigures sends questions through the graphs and counts what came of them: answered with one of the known
// answers in it, refused ("I don't know", or in the model's own words), or wrong.
func TestFlowFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/answer -run FlowFigures -figures -v -timeout 10h")
	}
	s := openSquad(t, datasets.Lines(t, "squad16/contexts.jsonl"))
	for _, v := range variants {
		name := strings.Join(strings.Fields(fmt.Sprint(v.name, " ", v.style, " ", v.router, " ", v.grader)), " ")
		if *figureFlows != "" && !slices.Contains(strings.Split(*figureFlows, ","), name) {
			continue
		}
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: v.name, MaxTokens: 64, RepeatPenalty: 1.1})
		o.Style, o.Router, o.Grader = cmp.Or(v.style, o.Style), cmp.Or(v.router, o.Router), cmp.Or(v.grader, o.Grader)
		s.figure(t, name, o)
	}
}

// asked is what a graph made of a question, as the journal of the figures has it.
type asked struct {
	Flow     string         `json:"flow"` // with its style, router and grader
	Question string         `json:"question"`
	Outcome  string         `json:"outcome"`
	Nodes    map[string]int `json:"nodes"` // visits by node and verdict
	Calls    int            `json:"calls"`
	Tokens   int            `json:"tokens"`
}

// figure sends questions through a graph. With -figures-store, what came of them is kept there, so that a run that was
// ended goes on where it was: the graphs take hours.
func (s squad) figure(t *testing.T, name string, o answer.Options) {
	t.Helper()
	name = strings.TrimSpace(name + " " + *figureSecond)
	journal, known := openJournal(t, name)
	questions := s.sample(*figureCount)
	var rest []datum
	nodes, outcomes, calls, tokens, done := map[string]int{}, map[string]int{}, 0, 0, 0
	add := func(x asked) {
		outcomes[x.Outcome]++
		for k, n := range x.Nodes {
			nodes[k] += n
		}
		calls, tokens, done = calls+x.Calls, tokens+x.Tokens, done+1
	}
	for _, q := range questions {
		if x, ok := known[q.Text]; ok {
			add(x)
			continue
		}
		rest = append(rest, q)
	}
	summary := func() {
		t.Logf("%s after %d of %d questions: %d calls, %d tokens", name, done, len(questions), calls, tokens)
		for _, k := range slices.Sorted(maps.Keys(outcomes)) {
			t.Logf("    %-24s %d", k, outcomes[k])
		}
		for _, k := range slices.Sorted(maps.Keys(nodes)) {
			t.Logf("    %-36s %d", k, nodes[k])
		}
	}
	at := 0
	err := s.AskEach(t.Context(), s.each(t.Context(), rest), o, func(_ answer.Question, a *answer.Answer) error {
		q := rest[at]
		at++
		x := asked{Flow: name, Question: q.Text, Outcome: "unanswerable: ", Nodes: map[string]int{}}
		if q.Answerable {
			x.Outcome = "answerable: "
		}
		x.Outcome += judged(q, a)
		for _, step := range a.Trace.Steps {
			x.Nodes[step.Node+" "+string(step.Verdict)]++
			x.Calls += step.Calls
			x.Tokens += step.Tokens
		}
		x.Nodes["verdict "+string(a.Trace.Verdict)]++
		if add(x); journal != nil {
			if err := json.NewEncoder(journal).Encode(x); err != nil {
				return err
			}
		}
		if a.Trace.Temperatures != nil && done <= 10 { // in the form of the paper's tables 1 and 2
			row, _ := json.Marshal(a.Trace.Temperatures)
			t.Logf("    Q%d %s %s", done, row, path(a.Trace))
		}
		if done%25 == 0 {
			summary()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	summary()
}

// each gives questions one by one.
func (s squad) each(ctx context.Context, all []datum) <-chan answer.Question {
	questions := make(chan answer.Question)
	go func() {
		defer close(questions)
		for i := range all {
			select {
			case questions <- answer.Question{ID: fmt.Sprint(i), Text: all[i].Text}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return questions
}

// openJournal returns the file that the figures of graphs are kept in, and what it has of one; none without a folder.
func openJournal(t *testing.T, name string) (*os.File, map[string]asked) {
	t.Helper()
	if *figureStore == "" {
		return nil, nil
	}
	f, err := os.OpenFile(filepath.Join(*figureStore, "asked.jsonl"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	known := map[string]asked{}
	for d := json.NewDecoder(f); ; {
		var x asked
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			return f, known
		} else if err != nil {
			t.Fatal(err)
		}
		if x.Flow == name {
			known[x.Question] = x
		}
	}
}

// sample are questions of squad16 that are no pseudo-queries, two answerable ones and an unanswerable one in turn.
func (s squad) sample(n int) (asked []datum) {
	random := rand.New(rand.NewPCG(3, 4))
	rest := slices.Clone(s.rest)
	random.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	of := map[bool][]datum{}
	for _, q := range rest {
		of[q.Answerable] = append(of[q.Answerable], q)
	}
	for i := range n { // what is counted in between has the same shares
		kind := i%3 < 2
		asked = append(asked, of[kind][0])
		of[kind] = of[kind][1:]
	}
	return asked
}

// judged says what came of a question.
func judged(q datum, a *answer.Answer) string {
	text := strings.ToLower(a.Answer)
	switch {
	case a.Trace.Outcome == flow.Unknown:
		return "refused by the graph"
	case strings.Contains(text, "not contain") || strings.Contains(text, "do not know") ||
		strings.Contains(text, "don't know"):
		return "refused in words"
	}
	for _, gold := range q.Answers {
		if q.Answerable && strings.Contains(text, strings.ToLower(fmt.Sprint(gold))) {
			return "answered"
		}
	}
	return "wrong"
}

package flow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/flow"
)

// script is a state whose nodes say what is written down for them, the last verdict for ever.
type script struct {
	says  map[string][]flow.Verdict
	model llm.Generator
}

// says makes nodes that say what the script has for them, of the verdicts that are listed behind their names.
func says(nodes map[string][]flow.Verdict) map[string]flow.Node[*script] {
	all := map[string]flow.Node[*script]{}
	for name, verdicts := range nodes {
		all[name] = flow.Node[*script]{Verdicts: verdicts,
			Visit: func(ctx context.Context, s *script, v *flow.Visit) (flow.Verdict, error) {
				if s.model != nil {
					_, err := v.Model(s.model).Generate(ctx, llm.Request{Prompt: "one two three", MaxTokens: 9}, nil)
					if err != nil {
						return "", err
					}
				}
				list := s.says[name]
				if len(list) == 0 {
					return verdicts[0], nil
				}
				if len(list) > 1 {
					s.says[name] = list[1:]
				}
				return list[0], nil
			}}
	}
	return all
}

var loop = map[string][]flow.Verdict{"write": {"written"}, "check": {"good", "bad", "hopeless"}}

var loopEdges = []flow.Edge{{From: "write", On: "written", To: "check"}, {From: "check", On: "good", To: flow.End},
	{From: "check", On: "bad", To: "write", Retry: true}, {From: "check", On: "hopeless", To: flow.IDontKnow}}

func newLoop(t *testing.T) *flow.Graph[*script] {
	t.Helper()
	g, err := flow.New("loop", "for tests", "write", says(loop), loopEdges...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A graph that could hang or lead nowhere is refused, and the error says why.
func TestGraphsAreChecked(t *testing.T) {
	without := func(i int) []flow.Edge { return slices.Delete(slices.Clone(loopEdges), i, i+1) }
	with := func(e flow.Edge) []flow.Edge { return append(slices.Clone(loopEdges), e) }
	changed := func(i int, e flow.Edge) []flow.Edge { return append(without(i), e) }
	for name, c := range map[string]struct {
		start string
		edges []flow.Edge
		want  string
	}{
		"start":        {"nowhere", loopEdges, `starts at "nowhere"`},
		"missing edge": {"write", without(2), `no edge leads from node "check" when it says "bad"`},
		"to nowhere": {"write", changed(2, flow.Edge{From: "check", On: "bad", To: "x", Retry: true}),
			`leads to "x"`},
		"from nowhere":  {"write", with(flow.Edge{From: "x", On: "bad", To: "write"}), `comes from "x"`},
		"verdict":       {"write", with(flow.Edge{From: "write", On: "odd", To: "check"}), `verdict "odd"`},
		"twice":         {"write", with(flow.Edge{From: "check", On: "bad", To: flow.End}), "two edges"},
		"endless cycle": {"write", changed(2, flow.Edge{From: "check", On: "bad", To: "write"}), "counts as a retry"},
		"unreached":     {"check", changed(2, flow.Edge{From: "check", On: "bad", To: flow.End}), `to node "write"`},
		"no end": {"write", append(slices.Clone(loopEdges[2:]), flow.Edge{From: "write", On: "written", To: "check"},
			flow.Edge{From: "check", On: "good", To: flow.IDontKnow}), "leads to the end"},
	} {
		_, err := flow.New("loop", "", c.start, says(loop), c.edges...)
		if !errors.Is(err, flow.ErrGraph) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := flow.New("x", "", "a", map[string]flow.Node[*script]{"a": {}},
		flow.Edge{From: "a", On: flow.Done, To: flow.End}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a node without a function: %v", err)
	}
}

func TestRunsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		says   []flow.Verdict
		budget flow.Budget
		want   flow.Ending
		nodes  string
	}{
		"at once": {[]flow.Verdict{"good"}, flow.Budget{}, flow.Ending{Outcome: flow.Answered}, "write check"},
		"second": {[]flow.Verdict{"bad", "good"}, flow.Budget{Retries: 3},
			flow.Ending{Outcome: flow.Answered, Retries: 1}, "write check write check"},
		"by node": {[]flow.Verdict{"hopeless"}, flow.Budget{},
			flow.Ending{Outcome: flow.Unknown, Why: flow.ByNode}, "write check"},
		"retries": {[]flow.Verdict{"bad"}, flow.Budget{Retries: 1},
			flow.Ending{Outcome: flow.Unknown, Why: flow.Retries, Retries: 1}, "write check write check"},
		"no retries": {[]flow.Verdict{"bad"}, flow.Budget{},
			flow.Ending{Outcome: flow.Unknown, Why: flow.Retries}, "write check"},
		"three": {[]flow.Verdict{"bad"}, flow.Budget{Retries: 3},
			flow.Ending{Outcome: flow.Unknown, Why: flow.Retries, Retries: flow.DefaultRetries},
			strings.Repeat("write check ", 4)},
		"last that is": {[]flow.Verdict{"bad", "bad", "bad", "good"}, flow.Budget{Retries: 3},
			flow.Ending{Outcome: flow.Answered, Retries: 3}, strings.Repeat("write check ", 4)},
	} {
		var nodes []string
		last := flow.Step{}
		got, err := newLoop(t).Run(t.Context(), &script{says: map[string][]flow.Verdict{"check": c.says}}, c.budget,
			func(s flow.Step) { nodes, last = append(nodes, s.Node), s })
		if err != nil || got != c.want || strings.Join(nodes, " ") != strings.TrimSpace(c.nodes) {
			t.Errorf("%s: %+v, %v after %v", name, got, err, nodes)
		}
		if end := map[flow.Outcome]string{flow.Answered: flow.End,
			flow.Unknown: flow.IDontKnow}[got.Outcome]; last.Next != end {
			t.Errorf("%s: the last step leads to %q", name, last.Next)
		}
		if (got.Say() == "") != (got.Outcome == flow.Answered) {
			t.Errorf("%s: says %q", name, got.Say())
		}
	}
}

// TestBudgets: calls, tokens and time are counted over the whole run, and a spent budget ends the run without an error.
func TestBudgets(t *testing.T) {
	run := func(b flow.Budget, m llm.Generator) (flow.Ending, []flow.Step) {
		t.Helper()
		var steps []flow.Step
		end, err := newLoop(t).Run(t.Context(),
			&script{says: map[string][]flow.Verdict{"check": {"bad"}}, model: m}, b,
			func(s flow.Step) { steps = append(steps, s) })
		if err != nil {
			t.Fatal(err)
		}
		return end, steps
	}
	m := doubles.NewModel("a b c d e")
	end, steps := run(flow.Budget{Retries: 3, Calls: 3}, m)
	if end.Why != flow.Calls || end.Calls != 3 || len(m.Requests()) != 3 ||
		len(steps) != 4 || steps[3].Verdict != flow.Stopped || steps[3].Next != flow.IDontKnow ||
		steps[0].Tokens != 5 || steps[0].Calls != 1 || steps[0].Model != "script" {
		t.Errorf("calls: %+v, %+v", end, steps)
	}
	m.Reset("a b c d e")
	// Each call spends 5, and asks with 3 more that count before it: after two calls 10 are spent, and 1 is left.
	if end, _ := run(flow.Budget{Retries: 3, Tokens: 14}, m); end.Why != flow.Tokens || end.Tokens != 15 ||
		m.Requests()[0].MaxTokens != 9 || m.Requests()[1].MaxTokens != 6 || m.Requests()[2].MaxTokens != 1 {
		t.Errorf("tokens: %+v, %+v", end, m.Requests())
	}
	if end, steps := run(flow.Budget{Time: time.Millisecond}, slow{doubles.NewModel("a")}); end.Why != flow.Time ||
		steps[len(steps)-1].Verdict != flow.Stopped {
		t.Errorf("time: %+v, %+v", end, steps)
	}
}

// slow is a model that answers when its context ends.
type slow struct{ *doubles.Model }

func (slow) Generate(ctx context.Context, _ llm.Request, _ func(string) error) (llm.Result, error) {
	<-ctx.Done()
	return llm.Result{}, ctx.Err()
}

// The end of the caller's context is his error, and not the outcome.
func TestCancellation(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var steps []flow.Step
	time.AfterFunc(5*time.Millisecond, stop)
	_, err := newLoop(t).Run(ctx, &script{model: slow{doubles.NewModel("a")}}, flow.Budget{Time: time.Minute},
		func(s flow.Step) { steps = append(steps, s) })
	if !errors.Is(err, context.Canceled) || len(steps) != 1 || steps[0].Verdict != flow.Failed || steps[0].Next != "" {
		t.Errorf("%v, %+v", err, steps)
	}
}

func TestUnannouncedVerdict(t *testing.T) {
	_, err := newLoop(t).Run(t.Context(), &script{says: map[string][]flow.Verdict{"check": {"odd"}}}, flow.Budget{},
		nil)
	if !errors.Is(err, flow.ErrVerdict) {
		t.Error(err)
	}
}

func TestWith(t *testing.T) {
	g, err := newLoop(t).With("longer", says(map[string][]flow.Verdict{"shout": {"shouted"}}),
		flow.Edge{From: "check", On: "good", To: "shout"}, flow.Edge{From: "shout", On: "shouted", To: flow.End})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	if _, err := g.Run(t.Context(), &script{}, flow.Budget{},
		func(s flow.Step) { nodes = append(nodes, s.Node) }); err != nil {
		t.Fatal(err)
	}
	if strings.Join(nodes, " ") != "write check shout" || g.Name() != "longer" || len(newLoop(t).Nodes()) != 2 {
		t.Error(nodes)
	}
}

func TestDrawings(t *testing.T) {
	g := newLoop(t)
	for _, want := range []string{"flowchart TD", `n_write["write"]`, `n_check -.->|"bad"| n_write`,
		`n_end(["the answer"])`, `n_unknown(["I don't know, once the retries are spent"])`} {
		if !strings.Contains(g.Mermaid(), want) {
			t.Errorf("%q is not in\n%s", want, g.Mermaid())
		}
	}
	for _, want := range []string{`digraph "loop" {`, `"check" -> "write" [label="bad", style=dashed]`,
		`"check" -> "end" [label="good"]`, `"end" [label="the answer", shape=oval]`} {
		if !strings.Contains(g.DOT(), want) {
			t.Errorf("%q is not in\n%s", want, g.DOT())
		}
	}
}

// TestDraws: the first seed of a node is the given one, later ones differ, also from those of the other seeds, and a
// run has the same ones again.
func TestDraws(t *testing.T) {
	run := func(seed int64) (drawn []int64) {
		checks := 0
		write := func(_ context.Context, _ *script, v *flow.Visit) (flow.Verdict, error) {
			drawn = append(drawn, v.Draw(seed), v.Draw(seed))
			return flow.Done, nil
		}
		check := func(_ context.Context, _ *script, v *flow.Visit) (flow.Verdict, error) {
			if got := v.Draw(seed); checks == 0 && got != seed {
				t.Errorf("the first draw of another node: %d, given %d", got, seed)
			}
			checks++
			return "bad", nil
		}
		nodes := map[string]flow.Node[*script]{"write": {Visit: write},
			"check": {Verdicts: []flow.Verdict{"bad", "good"}, Visit: check}}
		g, err := flow.New("draws", "", "write", nodes, flow.Edge{From: "write", On: flow.Done, To: "check"},
			flow.Edge{From: "check", On: "bad", To: "write", Retry: true},
			flow.Edge{From: "check", On: "good", To: flow.End})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Run(t.Context(), &script{}, flow.Budget{Retries: 3}, nil); err != nil {
			t.Fatal(err)
		}
		return drawn
	}
	all := map[int64]bool{}
	for seed := range int64(50) {
		drawn := run(seed)
		if len(drawn) != 8 || drawn[0] != seed || !slices.Equal(drawn, run(seed)) {
			t.Fatalf("seed %d: %v", seed, drawn)
		}
		for _, d := range drawn {
			if all[d] || d < 0 || d > 1<<32-2 {
				t.Errorf("seed %d: %d was drawn before, or is out of range", seed, d)
			}
			all[d] = true
		}
	}
	if got := run(-1); !slices.Equal(got, []int64{-1, -1, -1, -1, -1, -1, -1, -1}) {
		t.Errorf("random seeds: %v", got)
	}
}

// TestWithLeavesOutEdges: a node in place of one with more verdicts needs no edges for those.
func TestWithLeavesOutEdges(t *testing.T) {
	g := newLoop(t)
	node := says(map[string][]flow.Verdict{"check": {"good"}})
	fewer, err := g.With("fewer", node)
	if err != nil || len(fewer.Edges()) != 2 {
		t.Errorf("%v, %v", fewer, err)
	}
	_, err = g.With("misspelt", node, flow.Edge{From: "check", On: "baad", To: "write", Retry: true})
	if !errors.Is(err, flow.ErrGraph) {
		t.Errorf("an edge for a verdict that the node does not give: %v", err)
	}
}

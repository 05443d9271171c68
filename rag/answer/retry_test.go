package answer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/flow"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

func seeds(requests []llm.Request) (all []int64) {
	for _, r := range requests {
		all = append(all, r.Seed)
	}
	return all
}

// TestRetriesHaveSeedsOfTheirOwn: the first draw has the question's seed, each later one another, and the same question
// has the same ones again.
func TestRetriesHaveSeedsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		node, grader string
		seed         int64
	}{{"generate", "hallucination", 1}, {"generate", "answer", 7}, {"rewrite", "answer", 1}} {
		run := func(seed int64) []int64 {
			m := newActor(lists(c.grader, "no"))
			o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph", Seed: seed})
			o.Budget.Retries = 3
			w.flow(t, m, nil, inScope, o)
			return seeds(m.seen[c.node])
		}
		first, again, other := run(c.seed), run(c.seed), run(c.seed+1)
		if len(first) < 3 || first[0] != c.seed || !slices.Equal(first, again) {
			t.Errorf("%s: %v, then %v", c.node, first, again)
		}
		if all := slices.Sorted(slices.Values(slices.Concat(first, other))); len(slices.Compact(all)) != 2*len(first) {
			t.Errorf("%s: seeds come twice: %v, %v", c.node, first, other)
		}
	}
	m := newActor(lists("hallucination", "no")) // random ones stay random
	w.flow(t, m, nil, inScope, overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph", Seed: -1}))
	if got := seeds(m.seen["generate"]); !slices.Equal(got, []int64{-1, -1, -1, -1}) {
		t.Errorf("%v", got)
	}
}

// TestReWriterThatRepeats: a repetition is drawn again at a higher temperature; a second one ends the run, and nothing
// is searched for twice.
func TestReWriterThatRepeats(t *testing.T) {
	w := newWorld(t)
	same := "when does a deferred function run -- in which ORDER?"
	for name, c := range map[string]struct {
		rewrites []string
		draws    []float64
		want     string
		why      flow.Limit
	}{
		"a second draw helps": {[]string{same, "Which order do deferred functions run in?"}, []float64{.1, .7},
			"rewrite retrieve:found", flow.Retries},
		"it does not": {[]string{same, same}, []float64{.1, .7}, "answer:no rewrite:repeated", flow.ByNode},
		"nothing usable": {[]string{"I cannot.", ""}, []float64{.1, .7}, "answer:no rewrite:repeated",
			flow.ByNode},
		"an earlier question": {[]string{"Which order do deferred functions run in?", same, same},
			[]float64{.1, .1, .7}, "answer:no rewrite:repeated", flow.ByNode},
	} {
		m := newActor(map[string][]string{"answer": {"no"}, "rewrite": c.rewrites})
		o := overlay.On(answer.DefaultOptions(), answer.Options{Flow: "paper"})
		o.Budget.Retries = 2
		if c.why == flow.Retries {
			o.Budget.Retries = 1
		}
		a := w.flow(t, m, nil, inScope, o)
		var draws []float64
		for _, r := range m.seen["rewrite"] {
			draws = append(draws, r.Temperature)
		}
		if got := path(a.Trace); !slices.Equal(draws, c.draws) || !strings.Contains(got, c.want) ||
			a.Trace.Why != c.why {
			t.Errorf("%s: draws at %v, %s, %s", name, draws, got, a.Trace.Why)
		}
		searched := map[string]bool{}
		for _, s := range a.Trace.Steps {
			if s.Node == "retrieve" && searched[s.Input] {
				t.Errorf("%s: %q was searched for twice", name, s.Input)
			}
			searched[s.Node+s.Input] = true
		}
	}
}

// TestNearestPassages: a question without an answer comes with what its first search found, also when graders dropped
// all of it, when nothing was searched, and when the budget is spent.
func TestNearestPassages(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		flow, question string
		lists          map[string][]string
		budget         flow.Budget
	}{
		"hallucinations": {"graph", inScope, lists("hallucination", "no"), flow.Budget{Retries: 3}},
		"not relevant":   {"graph-llm", inScope, lists("documents", "no"), flow.Budget{Retries: 3}},
		"nothing searched": {"graph-llm", inScope,
			map[string][]string{"router": {"own_knowledge"}, "answer": {"no"}}, flow.Budget{}},
		"spent at once":     {"graph-llm", inScope, nil, flow.Budget{Retries: 3, Calls: 1}},
		"rewritten, no use": {"paper", inScope, lists("answer", "no"), flow.Budget{Retries: 3}},
	} {
		o := overlay.On(answer.DefaultOptions(),
			answer.Options{Flow: c.flow, Retrieve: retrieve.Options{Sentences: true}})
		o.Budget = c.budget
		a := w.flow(t, newActor(c.lists), nil, c.question, o)
		if a.Trace.Outcome != flow.Unknown || len(a.Citations) != 0 || len(a.Nearest) != 4 {
			t.Errorf("%s: %d nearest, %+v", name, len(a.Nearest), a)
			continue
		}
		if n := a.Nearest[0]; n.ID != "defer" || n.Text == "" || n.Score <= a.Nearest[1].Score || n.Cited ||
			n.Sentence == nil {
			t.Errorf("%s: %+v", name, n)
		}
	}
	m := newActor(lists("answer", "no")) // the store is not to be used
	a := w.flow(t, m, nil, inScope, overlay.On(answer.DefaultOptions(),
		answer.Options{Flow: "graph", Gate: answer.GateClosed}))
	if a.Trace.Outcome != flow.Unknown || len(a.Nearest) != 0 {
		t.Errorf("%+v", a.Nearest)
	}
	a = w.flow(t, newActor(nil), nil, inScope, overlay.On(answer.DefaultOptions(), answer.Options{Flow: "graph"}))
	if a.Trace.Outcome != flow.Answered || a.Nearest != nil {
		t.Errorf("an answer with nearest passages: %+v", a)
	}
}

//go:build native

package answer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/answer"
)

// TestQuoteFigures prints how often a quote holds a gold answer, over all answerable questions of squad16, for the
// first quote and for the whole answer, and for each half of the topics.
func TestQuoteFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: -figures is not set; it takes minutes")
	}
	contexts := datasets.Lines(t, "squad16/contexts.jsonl")
	half := map[string]int{} // of a topic's questions
	for _, c := range contexts {
		if _, ok := half[c.Topic]; !ok {
			half[c.Topic] = len(half) % 2
		}
	}
	s := openSquad(t, contexts)
	var first, whole, asked [2]float64
	var took []float64
	words := 0
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		if !q.Answerable {
			continue
		}
		began := time.Now()
		a, err := s.Ask(t.Context(), q.Text, overlay.On(answer.DefaultOptions(),
			answer.Options{Gate: answer.GateOpen, Style: answer.Quote}))
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began).Seconds()*1000)
		holds := func(text string) float64 {
			if slices.ContainsFunc(q.Answers, func(gold string) bool { return strings.Contains(text, gold) }) {
				return 1
			}
			return 0
		}
		one, _, _ := strings.Cut(a.Answer, "]\n\n")
		h := half[q.Topic]
		first[h], whole[h], asked[h] = first[h]+holds(one), whole[h]+holds(a.Answer), asked[h]+1
		words += len(strings.Fields(a.Answer))
	}
	slices.Sort(took)
	all := asked[0] + asked[1]
	for what, hits := range map[string][2]float64{"the first quote": first, "the answer": whole} {
		t.Logf("%s: %.3f of %.0f questions (%.3f and %.3f)", what, (hits[0]+hits[1])/all, all, hits[0]/asked[0],
			hits[1]/asked[1])
	}
	t.Logf("%.1f words; median %.1f ms, p95 %.1f ms", float64(words)/all, took[len(took)/2], took[len(took)*95/100])
	if share := (whole[0] + whole[1]) / all; share < .88 {
		t.Errorf("%.3f of the answers hold a gold answer", share)
	}
}

package entities

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
)

// Questions of squad16 that ask when, who, where and how many have answers of a kind, in texts that nobody wrote for
// this: the share of the answers that an entity of the kind covers or lies in is a recall on real texts. (An answer of
// "who" may be a people or a company, one of "how many" a bare number: 1 is out of reach.)
func TestRecallOnSquad16(t *testing.T) {
	f := New(nil)
	found, texts := map[string][]Entity{}, map[string]string{}
	for _, c := range datasets.Lines(t, "squad16/contexts.jsonl") {
		list, _, err := f.Find(context.Background(), []string{c.Text}, []string{"en"})
		if err != nil {
			t.Fatal(err)
		}
		found[c.ID], texts[c.ID] = list[0], c.Text
	}
	hits, all := map[string]int{}, map[string]int{}
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		kind, text := "", strings.ToLower(q.Text)
		for _, x := range []struct{ begins, kind string }{{"when ", Date}, {"in what year", Date}, {"what year", Date},
			{"in which year", Date}, {"who ", Person}, {"where ", Place}, {"what city", Place}, {"what country", Place},
			{"in what country", Place}, {"how much ", Quantity}, {"how long ", Quantity}, {"how far ", Quantity}} {
			if strings.HasPrefix(text, x.begins) {
				kind = x.kind
			}
		}
		if !q.Answerable || len(q.Answers) == 0 || kind == "" {
			continue
		}
		start := strings.Index(texts[q.ContextID], q.Answers[0])
		end := start + len(q.Answers[0])
		all[kind]++
		for _, e := range found[q.ContextID] {
			if e.Kind == kind && e.Start < end && start < e.End {
				hits[kind]++
				break
			}
		}
	}
	for kind, least := range map[string]float64{Date: .8, Person: .25, Place: .3, Quantity: .5} {
		recall := float64(hits[kind]) / float64(all[kind])
		t.Logf("%-9s %d of %d answers: %.3f", kind, hits[kind], all[kind], recall)
		if recall < least {
			t.Errorf("%s: %.3f", kind, recall)
		}
	}
}

//go:build native

package answer_test

import (
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

var (
	figures      = flag.Bool("figures", false, "print the figures of docs/benchmarks/answers.md; minutes")
	figureStore  = flag.String("figures-store", "", "folder that keeps the store of squad16 between runs")
	figureModel  = flag.String("figures-model", "", "language model of the figures; empty is the default one")
	figureReader = flag.String("figures-reader", "", "folder of a reader")
	figureSecond = flag.String("figures-second", "", "policy of the second question; empty is the default one")
	figureAsked  = flag.Bool("figures-second-model", false, "the second question is asked of the language model, too")
	figureHalf   = flag.String("figures-half", "", "topics of squad16: first or second for eight of them; empty is all")
	figureFlows  = flag.String("figures-flows", "", "graphs of the figures, with style, router and grader (\"ask write\"); empty is all")

	figureMethods = flag.String("figures-methods", "", "methods of the graders' figures; empty is grammar,parse")

	figureCount = flag.Int("figures-count", 150, "questions of the figures of graphs, a third of them unanswerable")
)

type datum = datasets.Line

// squad is squad16 as a calibrated store: three questions of each context are its pseudo-queries, and rest are the
// others.
type squad struct {
	*sluice.Sluice
	contexts, rest []datum
	dir            string // of the store
}

// half returns the contexts of the topics that -figures-half names.
func half(all []datum) (some []datum) {
	var topics []string
	for _, c := range all {
		if !slices.Contains(topics, c.Topic) {
			topics = append(topics, c.Topic)
		}
	}
	for _, c := range all {
		isFirst := slices.Index(topics, c.Topic) < len(topics)/2
		if *figureHalf == "" || isFirst == (*figureHalf == "first") {
			some = append(some, c)
		}
	}
	return some
}

func openSquad(t *testing.T, all []datum) squad {
	t.Helper()
	all = half(all)
	s := squad{contexts: all}
	taken, pseudo, there := map[string]int{}, "", map[string]bool{}
	for _, c := range all {
		there[c.ID] = true
	}
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		if !there[q.ContextID] {
			continue
		}
		if taken[q.ContextID]++; q.Answerable && taken[q.ContextID] <= 3 {
			line, _ := json.Marshal(map[string]string{"context_id": q.ContextID, "text": q.Text})
			pseudo += string(line) + "\n"
			continue
		}
		s.rest = append(s.rest, q)
	}
	dir := *figureStore
	if dir == "" {
		dir = t.TempDir()
	}
	var err error
	s.dir = filepath.Join(dir, "store")
	s.Sluice, err = sluice.Open(t.Context(), sluice.Config{Store: s.dir, Model: *figureModel, Reader: *figureReader,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Calibrations().Get(t.Context(), ""); err == nil {
		if _, err := s.Calibrations().Repolicy(t.Context(), calibrate.Options{Second: *figureSecond}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := s.ingest(t, all); err != nil {
		t.Skipf("SKIP: no encoder: %v", err)
	}
	o := calibrate.Options{Queries: strings.NewReader(pseudo), Source: "questions", Second: *figureSecond,
		SecondModel: *figureAsked}
	if _, err := s.Calibrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return s
}

// ingest puts contexts into the store, in place of those of the same ids.
func (s squad) ingest(t *testing.T, contexts []datum) error {
	t.Helper()
	var lines strings.Builder
	for _, c := range contexts {
		line, _ := json.Marshal(map[string]string{"id": c.ID, "topic": c.Topic, "text": c.Text})
		lines.Write(append(line, '\n'))
	}
	file := filepath.Join(filepath.Dir(s.dir), "contexts.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Ingest(t.Context(), []string{file}, ingest.Options{NoChunk: true})
	return err
}

// TestFollowUpFigures compares ways to search for a question that follows another one, without a call of the language
// model: the question alone, joined with the one before, the better of both, and what Options.History does.
func TestFollowUpFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIP: go test -tags native ./rag/answer -run FollowUpFigures -figures -v")
	}
	s := openSquad(t, datasets.Lines(t, "squad16/contexts.jsonl"))
	type turn struct {
		first, second, context string
	}
	var follow, stand, leave []turn
	last := map[string]string{}
	for _, q := range s.rest {
		if !q.Answerable {
			continue
		}
		if before := last[q.ContextID]; before != "" {
			if text, ok := dataset.FollowUp(before, q.Text); ok {
				follow = append(follow, turn{before, text, q.ContextID})
			}
		}
		last[q.ContextID] = q.Text
	}
	for i, q := range s.rest { // another topic's question before it
		if before := s.rest[(i+len(s.rest)/2)%len(s.rest)]; q.Answerable && before.Topic != q.Topic &&
			len(stand) < 1000 {
			stand = append(stand, turn{before.Text, q.Text, q.ContextID})
		}
	}
	for i, q := range datasets.Lines(t, "clinc150/test.jsonl") {
		if q.Intent == "oos" {
			leave = append(leave, turn{s.rest[i%len(s.rest)].Text, q.Text, ""})
		}
	}
	t.Logf("%d follow-ups such as %q after %q", len(follow), follow[0].second, follow[0].first)
	for _, rule := range []string{"alone", "joined", "better", "default"} {
		for _, c := range []struct {
			name  string
			turns []turn
		}{{"follow-ups", follow}, {"change of topic", stand}, {"out of scope", leave}} {
			opened, found := 0, 0
			for _, x := range c.turns {
				queries := map[string][]string{"alone": {x.second}, "joined": {x.first + " " + x.second},
					"better": {x.second, x.first + " " + x.second}, "default": nil}[rule]
				if queries == nil {
					queries = searched(t, s, x.first, x.second)
				}
				open, ids := gateAndSearch(t, s, queries)
				if open {
					opened++
				}
				for _, id := range ids {
					if open && id == x.context {
						found++
					}
				}
			}
			n := float64(len(c.turns))
			t.Logf("%-8s %-16s open %.4f, open and its context among four %.4f (of %d)", rule, c.name,
				float64(opened)/n,
				float64(found)/n, len(c.turns))
		}
	}
}

// gateAndSearch is whether any of the queries opens the gate, and the four best contexts of them together.
func gateAndSearch(t *testing.T, s squad, queries []string) (open bool, ids []string) {
	t.Helper()
	decisions, err := s.Gate(t.Context(), queries)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := s.Retrieve(t.Context(), queries, retrieve.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	var all []retrieve.List
	for i, d := range decisions {
		open = open || d.Retrieve
		all = append(all, retrieve.List{Taken: lists[i].Taken, Results: lists[i].Results})
	}
	for _, r := range retrieve.Merge(all, 4) {
		ids = append(ids, r.ID)
	}
	return open, ids
}

// searched returns the search query of a follow-up question.
func searched(t *testing.T, _ squad, first, second string) []string {
	t.Helper()
	return answer.Standing(second, []llm.Message{{Role: llm.User, Content: first}, {Role: llm.Assistant, Content: "x"}})
}

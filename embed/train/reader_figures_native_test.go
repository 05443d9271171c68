//go:build native

package train

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/eval/squad"
	"github.com/sluice-rag/sluice/internal/testmodels/datasets"
)

var (
	figureReaders = flag.String("figures-readers", "", "folder with the readers first-N and second-N")
	figureCount   = flag.Int("figures-count", 0, "questions of the other half that are asked; 0: all")
)

// TestReaderFigures prints how well readers that were trained on eight topics of squad16 read the other eight: each
// question is asked of its own context alone.
func TestReaderFigures(t *testing.T) {
	if *figureReaders == "" {
		t.Skip("SKIP: go test -tags native ./embed/train -run ReaderFigures -figures-readers DIR -v")
	}
	contexts, half, topics := map[string]string{}, map[string]string{}, 0
	for _, c := range datasets.Lines(t, "squad16/contexts.jsonl") {
		if half[c.Topic] == "" {
			half[c.Topic] = []string{"first", "second"}[min(topics/8, 1)]
			topics++
		}
		contexts[c.ID] = c.Text
	}
	questions := map[string][]datasets.Line{}
	for _, q := range datasets.Lines(t, "squad16/queries.jsonl") {
		questions[half[q.Topic]] = append(questions[half[q.Topic]], q)
	}
	for _, c := range []struct{ trained, tested string }{{"first", "second"}, {"second", "first"}} {
		for _, size := range []string{"500", "1500", "all"} {
			name := c.trained + "-" + size
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(*figureReaders, name)
				if _, err := os.Stat(filepath.Join(dir, "model.yaml")); err != nil {
					t.Skipf("SKIP: not trained: %v", err)
				}
				r, err := embed.OpenReader(t.Context(), dir, embed.Options{})
				if errors.Is(err, embed.ErrLibrary) {
					t.Skipf("SKIP: %v", err)
				}
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				readerFigures(t, r, contexts, sampled(questions[c.tested], *figureCount))
			})
		}
	}
}

// sampled returns count of the questions in even steps; 0: all.
func sampled(list []datasets.Line, count int) []datasets.Line {
	if count == 0 || count >= len(list) {
		return list
	}
	out := make([]datasets.Line, count)
	for i := range out {
		out[i] = list[i*len(list)/count]
	}
	return out
}

func readerFigures(t *testing.T, r *embed.Reader, contexts map[string]string, questions []datasets.Line) {
	t.Helper()
	var list []squad.Extracted
	var answerable, other []float64
	for _, q := range questions {
		context := contexts[q.ContextID]
		got, err := r.Read(t.Context(), q.Text, []string{context})
		if err != nil {
			t.Fatal(err)
		}
		x := got[0]
		list = append(list, squad.Extracted{Answer: context[x.Start:x.End], NoAnswer: x.Null - x.Score,
			Truths: q.Answers})
		if q.Answerable {
			answerable = append(answerable, x.Score-x.Null)
		} else {
			other = append(other, x.Score-x.Null)
		}
	}
	auroc := squad.AUROC(answerable, other)
	forced := squad.Score(list, math.Inf(1))
	threshold, _ := r.NullThreshold()
	at := squad.Score(list, -threshold)
	t.Logf("%d questions: HasAns EM %.1f F1 %.1f when forced to answer; AUROC of answerable %.3f; at the threshold of "+
		"the training half (%.2f): HasAns EM %.1f F1 %.1f, NoAns %.1f; best EM %.1f, best F1 %.1f", len(list),
		100*forced.HasAns.Exact, 100*forced.HasAns.F1, auroc, threshold, 100*at.HasAns.Exact, 100*at.HasAns.F1,
		100*at.NoAns.Exact, 100*forced.BestExact, 100*forced.BestF1)
	if auroc <= .5 {
		t.Errorf("AUROC of answerable is %.3f: the reader tells nothing", auroc)
	}
}

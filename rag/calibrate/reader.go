package calibrate

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

const (
	readQuestions = 200 // that the reader is asked at most, one of each context
	leastRead     = 19  // fewer say too little about a threshold
	// leastAnswered is the share of questions with an answer that a threshold must let pass: above it, the threshold
	// with the best balanced accuracy is taken.
	leastAnswered = .8
)

// readerThreshold asks the base's reader the calibration's questions, each of the passages that a search finds, and
// once more of those that it finds without the question's own context, and sets the threshold that tells the two apart
// best. Without a reader that has a null answer, or with too few questions, the calibration has no threshold. Extracted
// questions are lists of words, which readers were not trained for.
func (c *run) readerThreshold(ctx context.Context, cal *gate.Calibration) error {
	if !c.base.Reads() || c.provenance.Kind == Extracted {
		return nil
	}
	reader, err := c.base.Extractor(ctx)
	if err != nil {
		return err
	}
	if _, ok := reader.NullThreshold(); !ok {
		return nil
	}
	asked := c.oneEach(readQuestions)
	texts := make([]string, len(asked))
	for i, q := range asked {
		texts[i] = q.Text
	}
	e, err := c.base.Embed(ctx, texts, embed.Query)
	if err != nil {
		return err
	}
	o := retrieve.DefaultOptions()
	shown := o.K
	o.K++
	lists, err := c.snap.Search(ctx, retrieve.Queries{Texts: texts, Vectors: knowledge.Vectors(e)}, o)
	if err != nil {
		return err
	}
	var with, without []float64
	for i, q := range asked {
		c.progress("reading", int64(i), int64(len(asked)))
		chunks, err := c.snap.Chunks(ctx, idsOf(lists[i].Results))
		if err != nil {
			return err
		}
		passages, own := make([]string, len(chunks)), -1
		for j, chunk := range chunks {
			if passages[j] = chunk.Text; chunk.ID == q.ContextID {
				own = j
			}
		}
		if own < 0 || own >= shown || len(chunks) < 2 { // the passages may not answer
			continue
		}
		readings, err := reader.Read(ctx, q.Text, passages)
		if err != nil {
			return err
		}
		with = append(with, bestOf(readings[:min(shown, len(readings))]))
		without = append(without, bestOf(slices.Delete(readings, own, own+1)))
	}
	c.progress("reading", int64(len(asked)), int64(len(asked)))
	if len(with) < leastRead {
		return nil
	}
	info := reader.Info()
	set := &gate.Reader{Model: info.Name, Digest: info.Digest, Questions: len(with)}
	if set.Threshold, set.Answered, set.Unanswered = tellApart(with, without); set.Answered > 0 {
		cal.Reader = set
	}
	return nil
}

// oneEach returns at most n questions of different contexts, in an order that depends on the seed.
func (c *run) oneEach(n int) []pseudo.Query {
	all := slices.Clone(c.queries)
	slices.SortFunc(all, func(a, b pseudo.Query) int {
		return cmp.Or(cmp.Compare(a.ContextID, b.ContextID), cmp.Compare(a.Text, b.Text))
	})
	rand.New(rand.NewPCG(c.Seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	all = slices.DeleteFunc(all, func(q pseudo.Query) bool {
		twice := seen[q.ContextID]
		seen[q.ContextID] = true
		return twice
	})
	return all[:min(n, len(all))]
}

func idsOf(results []retrieve.Result) []string {
	ids := make([]string, len(results))
	for i, r := range results {
		ids[i] = r.ID
	}
	return ids
}

// bestOf returns the greatest score above the null answer.
func bestOf(readings []embed.Reading) float64 {
	best := math.Inf(-1)
	for _, r := range readings {
		if r.End > r.Start {
			best = max(best, r.Score-r.Null)
		}
	}
	return best
}

// tellApart returns the score at which the shares of answered questions at or above it and of unanswered ones below it
// have the greatest sum, where at least leastAnswered of the answered ones are at or above it; and both shares,
// which are 0 if no score is usable.
func tellApart(with, without []float64) (threshold, answered, unanswered float64) {
	slices.Sort(with)
	slices.Sort(without)
	best := math.Inf(-1)
	for i, s := range with {
		if i > 0 && s == with[i-1] || math.IsInf(s, 0) {
			continue
		}
		above := float64(len(with)-i) / float64(len(with))
		if above < leastAnswered {
			break
		}
		n, _ := slices.BinarySearch(without, s)
		below := float64(n) / float64(len(without))
		if above+below > best {
			best, threshold, answered, unanswered = above+below, s, above, below
		}
	}
	return threshold, answered, unanswered
}

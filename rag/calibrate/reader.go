package calibrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/gate"
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

// asked is a question of the calibration with the passages that a search finds for it, one more than it shows.
type asked struct {
	pseudo.Query
	vector   engine.Vectors
	passages []string
	own      int // the question's own context among those that are shown; −1: not among them
	readings []embed.Reading
}

// shown are the passages that a search shows, and without those that it shows without the question's own context.
func (a asked) shown() []string {
	return a.passages[:min(retrieve.DefaultOptions().K, len(a.passages))]
}

func (a asked) without() []string {
	if a.own < 0 {
		return a.shown()
	}
	return slices.Delete(slices.Clone(a.passages), a.own, a.own+1)
}

// read returns the best score above the null answer in the passages that shown and without return.
func (a asked) read() (with, without float64) {
	shown := a.readings[:len(a.shown())]
	if a.own < 0 {
		return bestOf(shown), bestOf(shown)
	}
	return bestOf(shown), bestOf(slices.Delete(slices.Clone(a.readings), a.own, a.own+1))
}

// ask searches for at most n questions of different contexts, and has the base's reader read what is found unless it is
// nil.
func (c *run) ask(ctx context.Context, n int, reader embed.Extractor) ([]asked, error) {
	queries := c.oneEach()
	var texts []string
	vectors := engine.Vectors{Dim: c.live.Vectors.Dim}
	queries = slices.DeleteFunc(queries, func(q pseudo.Query) bool {
		row := make([]float32, vectors.Dim)
		if len(texts) == n || !c.vectors.get(sha256.Sum256([]byte(q.Text)), row) {
			return true // or its context has gone, or is not in the sample
		}
		texts, vectors.Data = append(texts, q.Text), append(vectors.Data, row...)
		vectors.Rows++
		return false
	})
	if len(queries) == 0 {
		return nil, nil
	}
	o := retrieve.DefaultOptions()
	shown := o.K
	o.K++
	lists, err := c.snap.Search(ctx, retrieve.Queries{Texts: texts, Vectors: vectors}, o)
	if err != nil {
		return nil, err
	}
	all := make([]asked, len(queries))
	for i, q := range queries {
		c.progress("reading", int64(i), int64(len(all)))
		a := asked{Query: q, own: -1, vector: vectors.Slice(i, i+1)}
		chunks, err := c.snap.Chunks(ctx, idsOf(lists[i].Results))
		if err != nil {
			return nil, err
		}
		for j, chunk := range chunks {
			if a.passages = append(a.passages, chunk.Text); chunk.ID == q.ContextID && j < shown {
				a.own = j
			}
		}
		if reader != nil {
			if a.readings, err = reader.Read(ctx, q.Text, a.passages); err != nil {
				return nil, err
			}
		}
		all[i] = a
	}
	c.progress("reading", int64(len(all)), int64(len(all)))
	return all, nil
}

// reader returns the base's reader if it has a null answer and the questions are ones that it was trained for:
// extracted ones are lists of words.
func (c *run) reader(ctx context.Context) (embed.Extractor, error) {
	if !c.base.Reads() || c.provenance.Kind == Extracted {
		return nil, nil
	}
	reader, err := c.base.Extractor(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := reader.NullThreshold(); !ok {
		return nil, nil
	}
	return reader, nil
}

// readerThreshold sets the threshold that tells best what the reader finds for questions from what it finds for the
// same ones without their own context. With too few questions the calibration has no threshold.
func readerThreshold(cal *gate.Calibration, reader embed.Extractor, all []asked) {
	var with, without []float64
	for _, a := range all {
		if a.own >= 0 && len(a.passages) > 1 { // otherwise the passages may not answer
			own, other := a.read()
			with, without = append(with, own), append(without, other)
		}
	}
	if len(with) < leastRead {
		return
	}
	info := reader.Info()
	set := &gate.Reader{Model: info.Name, Digest: info.Digest, Questions: len(with)}
	if set.Threshold, set.Answered, set.Unanswered = tellApart(with, without); set.Answered > 0 {
		cal.Reader = set
	}
}

// oneEach returns a question of each context, in an order that depends on the seed.
func (c *run) oneEach() []pseudo.Query {
	all := slices.Clone(c.queries)
	slices.SortFunc(all, func(a, b pseudo.Query) int {
		return cmp.Or(cmp.Compare(a.ContextID, b.ContextID), cmp.Compare(a.Text, b.Text))
	})
	rand.New(rand.NewPCG(c.Seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(q pseudo.Query) bool {
		twice := seen[q.ContextID]
		seen[q.ContextID] = true
		return twice
	})
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

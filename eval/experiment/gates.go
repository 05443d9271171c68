package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/metric"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

// The gates of systems that compare a statistic of a question with that of the calibration's questions.
const (
	// relevanceGate tests by the question's best scores whether it is like the calibration's: Li et al., Do You Know
	// What You Are Talking About?, arXiv 2410.08320.
	relevanceGate = "relevance"
	// uncertaintyGate retrieves where the model is unsure of the first tokens of an answer without passages: Wang et
	// al., TARG, arXiv 2511.09803.
	uncertaintyGate = "uncertainty"
)

// statistics returns what System.Score may be for a gate; the first one is the default.
func statistics(name string) []string {
	switch name {
	case relevanceGate:
		return []string{"maximum", "nearest", "entropy"}
	case uncertaintyGate:
		return []string{"margin", "entropy"}
	}
	return nil
}

const (
	testLevel      = .05 // share of the calibration's questions that such a gate is closed for
	nearestScores  = 10  // of a question, that the statistics of its relevance are of
	draftTokens    = 20  // first tokens that the uncertainty is of
	draftAsks      = 20  // alternatives of each token that its entropy is of
	referenceAsks  = 60  // questions of the calibration that the model is asked
	entropyScale   = .05 // scores are divided by it before they are made probabilities
	leastReference = 19  // questions that the level takes
)

// decides has a system of a part of kind gates decide, and nothing else.
func (a *asking) decides(ctx context.Context) error {
	switch name := a.cell.System.Gate; name {
	case "calibrated":
		return a.calibrated(ctx, answer.Standing(a.q.Text, a.history()))
	case relevanceGate, uncertaintyGate:
		known, err := a.reference(ctx)
		if err != nil {
			return err
		}
		return a.timed("gate", func() error {
			x, err := a.statistic(ctx, a.q.Text)
			notHigher, _ := slices.BinarySearchFunc(known, x, func(k, x float64) int {
				if k <= x {
					return -1
				}
				return 1
			})
			open := float64(1+notHigher) > testLevel*float64(1+len(known))
			a.item.Open, a.item.Calls = &open, map[bool]int{true: 1}[name == uncertaintyGate]
			return err
		})
	case "model", "supervisor":
		if _, err := a.s.Models().Language(ctx); err != nil { // loads it
			return err
		}
		return a.timed("gate", func() error { return a.decide(ctx) })
	default:
		open := name != "closed"
		a.item.Open = &open
		return nil
	}
}

// reference returns the statistic of the calibration's questions, ascending; where the model is asked, of the first one
// of some contexts.
func (a *asking) reference(ctx context.Context) (values []float64, err error) {
	key := a.cell.System.Gate + " " + a.cell.System.Score
	if known := a.s.references[key]; known != nil {
		return known, nil
	}
	seen := map[string]bool{}
	for _, q := range a.data.pseudo {
		if a.cell.System.Gate == uncertaintyGate && (seen[q.ContextID] || len(values) == referenceAsks) {
			continue
		}
		seen[q.ContextID] = true
		x, err := a.statistic(ctx, q.Text)
		if err != nil {
			return nil, err
		}
		values = append(values, x)
	}
	if len(values) < leastReference {
		return nil, fmt.Errorf("%w: part %s: the gate %s takes questions about %d contexts, there are %d", ErrMissing,
			a.cell.Part, a.cell.System.Gate, leastReference, len(values))
	}
	slices.Sort(values)
	a.s.references[key] = values
	return values, nil
}

// statistic returns the statistic of a question, which is high where documents are to be retrieved.
func (a *asking) statistic(ctx context.Context, question string) (float64, error) {
	if a.cell.System.Gate == uncertaintyGate {
		return a.uncertainty(ctx, question)
	}
	o := retrieve.DefaultOptions()
	o.Mode, o.K = retrieve.Dense, nearestScores
	found, _, err := a.s.Lookup(ctx, []string{question}, sluice.LookupOptions{Gate: answer.GateOpen, Retrieve: &o})
	if err != nil {
		return 0, err
	}
	var scores []float64
	for _, r := range found[0].Results {
		scores = append(scores, r.Score)
	}
	if len(scores) == 0 {
		return math.Inf(-1), nil
	}
	switch a.cell.System.Score {
	case "nearest":
		return scores[len(scores)-1], nil
	case "entropy": // of in-scope questions some contexts stand out
		return -entropy(scores, entropyScale), nil
	}
	return scores[0], nil
}

// uncertainty has the model begin an answer without passages. It returns the mean ratio of the second best token's
// probability to the best one's, or the mean entropy of the best tokens.
func (a *asking) uncertainty(ctx context.Context, question string) (float64, error) {
	gen, err := a.s.Models().Language(ctx)
	if err != nil {
		return 0, err
	}
	r, err := gen.Generate(ctx, llm.Request{Messages: []llm.Message{{Role: llm.User, Content: question}},
		MaxTokens: draftTokens, LogProbs: true, Alternatives: draftAsks, Priority: llm.Batch}, nil)
	if err != nil {
		return 0, err
	}
	sum, n := 0., 0.
	for _, t := range r.LogProbs {
		if len(t.Top) < 2 {
			continue
		}
		n++
		if a.cell.System.Score != "entropy" {
			sum += math.Exp(t.Top[1].LogProb - t.Top[0].LogProb)
			continue
		}
		var logs []float64
		for _, x := range t.Top {
			logs = append(logs, x.LogProb)
		}
		sum += entropy(logs, 1)
	}
	return sum / max(n, 1), nil
}

// entropy returns the entropy of the softmax of scores divided by a scale, in nats.
func entropy(scores []float64, scale float64) (sum float64) {
	top, all := slices.Max(scores), 0.
	for _, s := range scores {
		all += math.Exp((s - top) / scale)
	}
	for _, s := range scores {
		if p := math.Exp((s-top)/scale) / all; p > 0 {
			sum -= p * math.Log(p)
		}
	}
	return sum
}

// calibrated asks the calibrated gate.
func (a *asking) calibrated(ctx context.Context, queries []string) error {
	return a.timed("gate", func() error {
		decisions, err := a.s.Gate(ctx, queries)
		open := slices.ContainsFunc(decisions, func(d gate.Decision) bool { return d.Retrieve })
		a.item.Open = &open
		return err
	})
}

// The groups of GroupBy ByDistance beside Answerable and Unanswerable.
const (
	Near = "near" // about the topics of the data that the base lacks
	Far  = "far"  // of files of other data
)

// The measures of kind gates, in the group "all".
const (
	coverage     = "coverage" // share of answerable questions that the gate opens for
	balancedNear = "balanced_near"
	balancedFar  = "balanced_far"
)

// balance adds the rows of coverage and balanced accuracy.
func (r *run) balance(c Cell, groups map[string][]Item) {
	right := func(group string) (scores []metric.Score) {
		for _, it := range groups[group] {
			if s, ok := it.Scores["gate_right"]; ok {
				scores = append(scores, s)
			}
		}
		return scores
	}
	in := right(Answerable)
	if len(in) == 0 {
		return
	}
	r.add(c, allQuestions, coverage, metric.Summarise(in))
	for _, x := range []struct{ group, measure string }{{Near, balancedNear}, {Far, balancedFar}} {
		if out := right(x.group); len(out) > 0 {
			r.add(c, allQuestions, x.measure, metric.Balanced(in, out))
		}
	}
}

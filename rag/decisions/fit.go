package decisions

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
)

// The minimum input of Fit.
const (
	MinLabelled = 20 // questions with feedback
	MinEach     = 5  // of them in scope, and out of scope
)

// DefaultHoldout is the share of the labelled questions that Fit holds out.
const DefaultHoldout = .3

// Labelled is a question with its score and its feedback.
type Labelled struct {
	ID      string
	Score   float64
	InScope bool // the store should be used
}

// Cut is a policy with a threshold.
type Cut struct {
	Policy    string  `json:"policy"`
	Threshold float64 `json:"threshold"`
	Cutoff    float64 `json:"cutoff"`
}

// Effect counts the decisions of a cut-off about labelled questions. Balanced is the balanced accuracy.
type Effect struct {
	InScope    int     `json:"in_scope"`
	Opens      int     `json:"opens"` // of InScope
	OutOfScope int     `json:"out_of_scope"`
	KeptOut    int     `json:"kept_out"` // of OutOfScope
	Balanced   float64 `json:"balanced_accuracy"`
}

// Fitted is the result of Fit.
type Fitted struct {
	Questions int    `json:"questions"` // with feedback, each once
	Before    Cut    `json:"before"`    // in force
	After     Cut    `json:"after"`     // the best cut; equal to Before if none is better
	Changed   bool   `json:"changed"`
	Reason    string `json:"reason"` // why After was chosen

	TrainingBefore Effect `json:"training_before"`
	TrainingAfter  Effect `json:"training_after"`
	HoldoutBefore  Effect `json:"holdout_before"`
	HoldoutAfter   Effect `json:"holdout_after"`
}

// policies returns the policies that are tried with a threshold of 0.
func policies() []string {
	return []string{"maximum:p1", "maximum:p2.5", "maximum:p5", "maximum:p10", "maximum:p15", "maximum:p20",
		"maximum:q1",
		"maximum:p40", "maximum:median", "p1", "p5", "p10", "q1", "median"}
}

// Fit finds the policy and threshold of a calibration that tell labelled questions apart best, by the balanced accuracy
// on those that are not held out (holdout is a share; 0: DefaultHoldout). Of equally good ones it takes the one in
// force, then a policy without a threshold, then the one in force with a threshold. A policy that does worse than the
// one in force on the held-out questions is rejected. The labelled scores must be of the kind that c scores by. The
// error wraps ErrTooFew, with the counts, if there are too few questions.
func Fit(c *gate.Calibration, list []Labelled, holdout float64, seed uint64) (*Fitted, error) {
	holdout = cmp.Or(holdout, DefaultHoldout)
	in := 0
	for _, x := range list {
		if x.InScope {
			in++
		}
	}
	if len(list) < MinLabelled || in < MinEach || len(list)-in < MinEach {
		return nil,
			fmt.Errorf("%w: %d questions, %d of them in scope and %d out of scope; at least %d are needed, and %d "+
				"of each kind", ErrTooFew, len(list), in, len(list)-in, MinLabelled, MinEach)
	}
	if !(holdout > 0 && holdout < 1) {
		return nil, fmt.Errorf("decisions: a hold-out of %g is no share between 0 and 1", holdout)
	}
	training, held := split(list, holdout, seed)
	f := &Fitted{Questions: len(list), Before: Cut{c.Policy, c.Threshold, c.Cutoff}}
	f.After = f.Before
	best := effect(training, c.Metric, c.Cutoff).Balanced
	fitted := nearest(training, c.Metric, c.Cutoff)
	for _, x := range tries(c, fitted) {
		if b := effect(training, c.Metric, x.Cutoff).Balanced; b > best {
			best, f.After = b, x
		}
	}
	f.TrainingBefore, f.HoldoutBefore = effect(training, c.Metric, f.Before.Cutoff),
		effect(held, c.Metric, f.Before.Cutoff)
	f.TrainingAfter, f.HoldoutAfter = effect(training, c.Metric, f.After.Cutoff), effect(held, c.Metric, f.After.Cutoff)
	switch {
	case f.After == f.Before:
		f.Reason = "no other cut-off is better with the questions that it was fitted to"
	case f.HoldoutAfter.Balanced < f.HoldoutBefore.Balanced:
		f.Reason = fmt.Sprintf("policy %s with T = %.4f would be better with the questions that it was fitted to, "+
			"and worse "+
			"with those held out (%.3f, now %.3f)", f.After.Policy, f.After.Threshold, f.HoldoutAfter.Balanced,
			f.HoldoutBefore.Balanced)
		f.After, f.TrainingAfter, f.HoldoutAfter = f.Before, f.TrainingBefore, f.HoldoutBefore
	default:
		f.Changed = true
		f.Reason = "best balanced accuracy with the questions that it was fitted to"
	}
	return f, nil
}

// tries returns the cuts to compare: those without a threshold first, the nearest to the fitted cut-off first.
func tries(c *gate.Calibration, fitted float64) (list []Cut) {
	for _, name := range policies() {
		if n, err := c.WithPolicy(name, c.Score, 0); err == nil { // an error means that the distribution was not kept
			list = append(list, Cut{n.Policy, 0, n.Cutoff})
		}
	}
	slices.SortStableFunc(list, func(a, b Cut) int {
		return cmp.Compare(math.Abs(a.Cutoff-fitted), math.Abs(b.Cutoff-fitted))
	})
	threshold := c.PolicyValue - fitted
	if c.Metric.Ascending() {
		threshold = fitted - c.PolicyValue
	}
	if n, err := c.WithPolicy(c.Policy, c.Score, threshold); err == nil {
		list = append(list, Cut{n.Policy, threshold, n.Cutoff})
	}
	return list
}

// split holds out a share of each kind, at least one question of each. The result depends on the seed but not on the
// order of list.
func split(list []Labelled, share float64, seed uint64) (training, held []Labelled) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Labelled) int { return cmp.Compare(a.ID, b.ID) })
	r := rand.New(rand.NewPCG(seed, 0x736c))
	for _, kind := range []bool{true, false} {
		var of []Labelled
		for _, x := range list {
			if x.InScope == kind {
				of = append(of, x)
			}
		}
		r.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		n := min(max(int(math.Round(share*float64(len(of)))), 1), len(of)-1)
		held, training = append(held, of[:n]...), append(training, of[n:]...)
	}
	return training, held
}

func effect(list []Labelled, m kernels.Metric, cutoff float64) (e Effect) {
	for _, x := range list {
		open := m.Better(x.Score, cutoff)
		switch {
		case x.InScope:
			e.InScope++
			if open {
				e.Opens++
			}
		default:
			e.OutOfScope++
			if !open {
				e.KeptOut++
			}
		}
	}
	share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	e.Balanced = (share(e.Opens, e.InScope) + share(e.KeptOut, e.OutOfScope)) / 2
	return e
}

// nearest returns the cut-off with the best balanced accuracy, halfway between two scores. Ties go to the cut-off
// nearest to the one in force.
func nearest(list []Labelled, m kernels.Metric, now float64) (cutoff float64) {
	scores := make([]float64, len(list))
	for i, x := range list {
		scores[i] = x.Score
	}
	slices.Sort(scores)
	cutoff, best := now, effect(list, m, now).Balanced
	for i := 1; i < len(scores); i++ {
		if scores[i] == scores[i-1] {
			continue
		}
		at := scores[i-1] + (scores[i]-scores[i-1])/2
		b := effect(list, m, at).Balanced
		if b > best || b == best && cutoff != now && math.Abs(at-now) < math.Abs(cutoff-now) {
			cutoff, best = at, b
		}
	}
	return cutoff
}

package squad

import (
	"cmp"
	"slices"
)

// Extracted is what a system of extractive question answering says to a question of SQuAD 2.0.
type Extracted struct {
	Answer   string   // "": it has no answer
	NoAnswer float64  // confidence that the question has no answer, on any scale
	Truths   []string // the true answers; none: the question is unanswerable
}

// Part holds the means over a part of the questions, from 0 to 1.
type Part struct {
	Exact float64 `json:"exact" yaml:"exact"`
	F1    float64 `json:"f1" yaml:"f1"`
	Total int     `json:"total" yaml:"total"`
}

// Scores holds the measures of SQuAD 2.0, from 0 to 1: over all questions, over those that have an answer and
// over those that have none; and the best that any threshold of NoAnswer reaches, with that threshold.
type Scores struct {
	Part           `yaml:",inline"`
	HasAns         Part    `json:"has_ans" yaml:"has_ans"`
	NoAns          Part    `json:"no_ans" yaml:"no_ans"`
	BestExact      float64 `json:"best_exact" yaml:"best_exact"`
	ExactThreshold float64 `json:"best_exact_threshold" yaml:"best_exact_threshold"`
	BestF1         float64 `json:"best_f1" yaml:"best_f1"`
	F1Threshold    float64 `json:"best_f1_threshold" yaml:"best_f1_threshold"`
}

// Score compares answers with the true ones as SQuAD's evaluate-v2.0.py does (Rajpurkar, Jia and Liang 2018): what has
// a NoAnswer above the threshold counts as no answer, and the best thresholds are found as in that program, which
// begins with the threshold 0 for no answer at all and tries every answer in the order of NoAnswer.
func Score(list []Extracted, threshold float64) Scores {
	var s Scores
	exact, f1 := make([]float64, len(list)), make([]float64, len(list))
	for i, x := range list {
		truths := slices.DeleteFunc(slices.Clone(x.Truths), func(t string) bool { return len(answerTokens(t)) == 0 })
		exact[i], f1[i] = ExactMatch(x.Answer, truths), F1(x.Answer, truths)
		part := &s.HasAns
		if len(x.Truths) == 0 {
			part = &s.NoAns
		}
		e, f := exact[i], f1[i]
		if x.NoAnswer > threshold {
			e = 0
			if len(x.Truths) == 0 {
				e = 1
			}
			f = e
		}
		for _, p := range []*Part{&s.Part, part} {
			p.Exact, p.F1, p.Total = p.Exact+e, p.F1+f, p.Total+1
		}
	}
	for _, p := range []*Part{&s.Part, &s.HasAns, &s.NoAns} {
		p.Exact, p.F1 = p.Exact/float64(max(p.Total, 1)), p.F1/float64(max(p.Total, 1))
	}
	s.BestExact, s.ExactThreshold = bestThreshold(list, exact)
	s.BestF1, s.F1Threshold = bestThreshold(list, f1)
	return s
}

// bestThreshold returns the best mean of scores when the questions with a NoAnswer above a threshold get no answer.
func bestThreshold(list []Extracted, scores []float64) (mean, at float64) {
	order := make([]int, len(list))
	sum := 0.0
	for i, x := range list {
		order[i] = i
		if len(x.Truths) == 0 {
			sum++
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].NoAnswer, list[b].NoAnswer) })
	best := sum
	for _, i := range order {
		switch {
		case len(list[i].Truths) > 0:
			sum += scores[i]
		case list[i].Answer != "":
			sum--
		}
		if sum > best {
			best, at = sum, list[i].NoAnswer
		}
	}
	return best / float64(max(len(list), 1)), at
}

package metric

import (
	"maps"
	"math"
	"slices"
)

// Ranking is the result of one query, best first, and the relevance of the ids.
type Ranking struct {
	Found []string       // ids, better first, without duplicates
	Grade map[string]int // relevance by id; ids that are missing or not above 0 are irrelevant
}

// top calls relevant for each of the best k ids that is relevant, with its rank from 1; k 0 is all.
func (r Ranking) top(k int, relevant func(rank, grade int)) {
	for i, id := range r.Found {
		if k > 0 && i == k {
			return
		}
		if g := r.Grade[id]; g > 0 {
			relevant(i+1, g)
		}
	}
}

// relevant returns the number of relevant ids.
func (r Ranking) relevant() (n int) {
	for _, g := range r.Grade {
		if g > 0 {
			n++
		}
	}
	return n
}

// NDCG returns the discounted cumulative gain of the best k, Σ grade / log2(rank + 1), divided by that of the best
// possible order (Järvelin & Kekäläinen 2002; trec_eval's ndcg_cut). It is 0 if no id is relevant.
func (r Ranking) NDCG(k int) float64 {
	var gain float64
	r.top(k, func(rank, grade int) { gain += float64(grade) / math.Log2(float64(rank)+1) })
	grades := slices.DeleteFunc(slices.Collect(maps.Values(r.Grade)), func(g int) bool { return g <= 0 })
	slices.SortFunc(grades, func(a, b int) int { return b - a })
	if k > 0 {
		grades = grades[:min(k, len(grades))]
	}
	var ideal float64
	for i, g := range grades {
		ideal += float64(g) / math.Log2(float64(i)+2)
	}
	if ideal == 0 {
		return 0
	}
	return gain / ideal
}

// Recall returns the share of the relevant ids that are among the best k; 0 if no id is relevant.
func (r Ranking) Recall(k int) float64 { return ratio(r.hits(k), r.relevant()) }

// Precision returns the share of the best k that is relevant; if fewer than k were found, the missing ones count as
// irrelevant.
func (r Ranking) Precision(k int) float64 {
	if k == 0 {
		k = len(r.Found)
	}
	return ratio(r.hits(k), k)
}

func (r Ranking) hits(k int) (n int) {
	r.top(k, func(int, int) { n++ })
	return n
}

// ReciprocalRank returns 1 over the rank of the first relevant id, or 0 if no relevant id was found. Its mean over
// queries is MRR.
func (r Ranking) ReciprocalRank() (v float64) {
	r.top(0, func(rank, _ int) {
		if v == 0 {
			v = 1 / float64(rank)
		}
	})
	return v
}

// AveragePrecision returns the mean, over the relevant ids, of the precision at their ranks; ids that were not found
// count as 0.
func (r Ranking) AveragePrecision() float64 {
	var sum float64
	n := 0
	r.top(0, func(rank, _ int) {
		n++
		sum += float64(n) / float64(rank)
	})
	if all := r.relevant(); all > 0 {
		return sum / float64(all)
	}
	return 0
}

// ratio returns a / b, and 0 for b = 0.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

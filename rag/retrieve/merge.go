package retrieve

import (
	"slices"

	"github.com/sluice-rag/sluice/kernels"
)

// Merge merges the lists of several queries: each context with its best score, better first, k at most.
// Equal scores stay in the order in which they were found.
func Merge(lists [][]Result, metric kernels.Metric, k int) []Result {
	merged := []Result{}
	at := map[string]int{}
	for _, list := range lists {
		for _, r := range list {
			i, seen := at[r.ID]
			switch {
			case !seen:
				at[r.ID] = len(merged)
				merged = append(merged, r)
			case metric.Better(r.Score, merged[i].Score):
				merged[i].Score = r.Score
			}
		}
	}
	slices.SortStableFunc(merged, func(a, b Result) int {
		switch {
		case metric.Better(a.Score, b.Score):
			return -1
		case metric.Better(b.Score, a.Score):
			return 1
		}
		return 0
	})
	return merged[:min(k, len(merged))]
}

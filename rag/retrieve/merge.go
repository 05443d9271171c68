package retrieve

import "slices"

// Merge merges the lists of several queries: each context, with its copies, with its best score, better first, k at
// most. Equal scores stay in the order in which they were found. Lists that were made in different ways are merged by
// what the first one counts as better.
func Merge(lists []List, k int) []Result {
	merged := []Result{}
	at := map[string]int{}
	better := func(a, b float64) bool { return a > b }
	if len(lists) > 0 && lists[0].Taken.Ascending {
		better = func(a, b float64) bool { return a < b }
	}
	for _, list := range lists {
		for _, r := range list.Results {
			i, seen := at[r.ID]
			switch {
			case !seen:
				at[r.ID] = len(merged)
				for _, id := range r.Copies {
					at[id] = len(merged)
				}
				merged = append(merged, r)
			case better(r.Score, merged[i].Score):
				merged[i] = r
			}
		}
	}
	slices.SortStableFunc(merged, func(a, b Result) int {
		switch {
		case better(a.Score, b.Score):
			return -1
		case better(b.Score, a.Score):
			return 1
		}
		return 0
	})
	return merged[:min(k, len(merged))]
}

package retrieve

import (
	"cmp"
	"slices"
)

// Merge merges the lists of several queries: each context, with its copies, with its best score, better first, k at
// most. Equal scores stay in the order in which they were found. Lists that were made in different ways are merged by
// what the first one counts as better.
func Merge(lists []List, k int) []Result {
	merged := []Result{}
	at := map[string]int{}
	compare := func(a, b Result) int { return cmp.Compare(b.Score, a.Score) }
	if len(lists) > 0 && lists[0].Taken.Ascending {
		compare = func(a, b Result) int { return cmp.Compare(a.Score, b.Score) }
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
			case compare(r, merged[i]) < 0:
				merged[i] = r
			}
		}
	}
	slices.SortStableFunc(merged, compare)
	return merged[:min(k, len(merged))]
}

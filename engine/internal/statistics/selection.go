package statistics

import (
	"cmp"
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// selectRanks reorders v so that v[r] is what sorting would put there, for every rank of the sorted list
// (Hoare's selection, for several ranks at once).
func selectRanks[T cmp.Ordered](ctx context.Context, v []T, ranks []int) error {
	return selectFrom(ctx, v, ranks, 0, 64)
}

func selectFrom[T cmp.Ordered](ctx context.Context, v []T, ranks []int, base, depth int) error {
	for len(ranks) > 0 {
		if len(v) <= 24 || depth == 0 {
			slices.Sort(v)
			return nil
		}
		depth--
		less, equal, err := partition(ctx, v)
		if err != nil {
			return err
		}
		first, _ := slices.BinarySearch(ranks, base+less)
		last, _ := slices.BinarySearch(ranks, base+less+equal)
		if err := selectFrom(ctx, v[:less], ranks[:first], base, depth); err != nil {
			return err
		}
		v, ranks, base = v[less+equal:], ranks[last:], base+less+equal
	}
	return nil
}

// partition puts what is less than a middle element before what equals it, and the rest behind.
func partition[T cmp.Ordered](ctx context.Context, v []T) (less, equal int, err error) {
	n := len(v)
	a, b, c := v[n/4], v[n/2], v[n-1-n/4]
	pivot := max(min(a, b), min(max(a, b), c))
	i, j, k := 0, 0, n
	err = workers.Over(ctx, n, func(from, to int) {
		for ; from < to && j < k; from++ { // each step places one element
			switch x := v[j]; {
			case x < pivot:
				v[i], v[j] = x, v[i]
				i, j = i+1, j+1
			case x > pivot:
				k--
				v[j], v[k] = v[k], x
			default:
				j++
			}
		}
	})
	return i, k - i, err
}

package workers

import (
	"context"
	"slices"
)

// Stretch is how many items are gone over at most between two looks at the context.
const Stretch = 1 << 16

// Over calls fn for the ranges of at most Stretch items that make up [0, n), in order, and looks at the context before
// each of them.
func Over(ctx context.Context, n int, fn func(from, to int)) error {
	for from := 0; from < n; from += Stretch {
		if err := ctx.Err(); err != nil {
			return err
		}
		fn(from, min(n, from+Stretch))
	}
	return ctx.Err()
}

// Sort sorts a list on the pool's goroutines. Items that compare as equal come in any order, the same one whatever the
// number of threads. It takes memory for a second list; after an error the list holds anything.
func Sort[T any](ctx context.Context, p *Pool, list []T, compare func(a, b T) int) error {
	n := len(list)
	err := p.Each(ctx, Ceil(n, Stretch), 0, func(_, task int) error {
		slices.SortFunc(list[task*Stretch:min(n, (task+1)*Stretch)], compare)
		return nil
	})
	if err != nil || n <= Stretch {
		return err
	}
	from, to := list, make([]T, n)
	for size := Stretch; size < n; size *= 2 {
		err := p.Each(ctx, Ceil(n, 2*size), 0, func(_, task int) error {
			begin := task * 2 * size
			middle, end := min(begin+size, n), min(begin+2*size, n)
			return merge(ctx, from[begin:middle], from[middle:end], to[begin:end], compare)
		})
		if err != nil {
			return err
		}
		from, to = to, from
	}
	if &from[0] == &list[0] {
		return nil
	}
	return Over(ctx, n, func(begin, end int) { copy(list[begin:end], from[begin:end]) })
}

// merge merges two sorted lists into out.
func merge[T any](ctx context.Context, a, b, out []T, compare func(a, b T) int) error {
	return Over(ctx, len(out), func(from, to int) {
		for i := from; i < to; i++ {
			if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
				out[i], a = a[0], a[1:]
			} else {
				out[i], b = b[0], b[1:]
			}
		}
	})
}

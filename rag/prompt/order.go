package prompt

import (
	"fmt"
	"slices"
)

// Order is how passages stand in a prompt. Their numbers say their rank, whatever the order.
type Order string

// The orders. Models use what stands at the beginning and at the end of a long prompt better than what stands in its
// middle (Liu et al., "Lost in the Middle", 2023).
const (
	Forward Order = "forward" // the best passage first
	Reverse Order = "reverse" // the best passage last, next to the question
	Ends    Order = "ends"    // the best first, the second last, the third second, …: the worst in the middle
)

// Orders lists them.
func Orders() []Order { return []Order{Forward, Reverse, Ends} }

func (o Order) check() error {
	if o != "" && !slices.Contains(Orders(), o) {
		return fmt.Errorf("%w: order %q is none of %v", ErrTemplate, o, Orders())
	}
	return nil
}

// of puts a list that is sorted by rank in order.
func (o Order) of(ranked []shown) []shown {
	out := slices.Clone(ranked)
	switch o {
	case Reverse:
		slices.Reverse(out)
	case Ends:
		for i, p := range ranked {
			if i%2 == 0 {
				out[i/2] = p
			} else {
				out[len(out)-1-i/2] = p
			}
		}
	}
	return out
}

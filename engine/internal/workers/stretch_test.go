package workers

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
)

// countdown is a context that ends at the n-th look at it.
type countdown struct {
	context.Context
	looks, at int
}

func (c *countdown) Err() error {
	if c.looks++; c.looks >= c.at {
		return context.Canceled
	}
	return nil
}

func TestOver(t *testing.T) {
	for _, n := range []int{0, 1, Stretch - 1, Stretch, Stretch + 1, 5*Stretch + 7} {
		next := 0
		err := Over(t.Context(), n, func(from, to int) {
			if from != next || to <= from || to-from > Stretch {
				t.Errorf("%d items: range %d to %d after %d", n, from, to, next)
			}
			next = to
		})
		if err != nil || next != n {
			t.Errorf("%d items: %d visited, %v", n, next, err)
		}
	}
	ranges := 0
	if err := Over(&countdown{t.Context(), 0, 3}, 100*Stretch,
		func(int, int) { ranges++ }); !errors.Is(err, context.Canceled) || ranges != 2 {
		t.Errorf("ended at the third look: %d ranges, %v", ranges, err)
	}
}

func TestSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, threads := range []int{1, 3} {
		p := &Pool{Budget: cores.New(threads), Threads: threads}
		for _, n := range []int{0, 1, 1000, Stretch, Stretch + 1, 3 * Stretch, 4*Stretch + 99} {
			list := make([]int32, n)
			for i := range list {
				list[i] = rng.Int32N(1000)
			}
			want := slices.Clone(list)
			slices.Sort(want)
			if err := Sort(t.Context(), p, list, cmp.Compare); err != nil || !slices.Equal(list, want) {
				t.Errorf("%d threads, %d items: not in order, %v", threads, n, err)
			}
		}
		if p.Budget.Free() != threads {
			t.Errorf("%d of %d tokens came back", p.Budget.Free(), threads)
		}
	}
}

// TestSortLooks: whatever look the context ends at, the sort ends there.
func TestSortLooks(t *testing.T) {
	list := make([]int32, 3*Stretch)
	p := &Pool{Budget: cores.New(1), Threads: 1}
	all := &countdown{t.Context(), 0, 1 << 30}
	if err := Sort(all, p, list, cmp.Compare); err != nil || all.looks < 3*3 {
		t.Fatalf("%d looks, %v", all.looks, err)
	}
	for at := 1; at < all.looks-1; at++ { // the work is done before the last looks
		c := &countdown{t.Context(), 0, at}
		if err := Sort(c, p, list, cmp.Compare); !errors.Is(err, context.Canceled) || c.looks > at+8 {
			t.Fatalf("ended at look %d of %d: %d looks, %v", at, all.looks, c.looks, err)
		}
	}
}

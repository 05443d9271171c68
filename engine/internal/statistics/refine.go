package statistics

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/workers"
)

// target is an order statistic by score, known to lie in [low, high] (keys).
type target struct {
	rank      int64
	low, high uint64
}

// shift makes [low, high] fit refineBins bins of 2^shift keys.
func (t *target) shift() int { return max(0, bits.Len64(t.high-t.low)-bits.Len64(refineBins-1)) }

// refine narrows the targets down to one key each: by counting, 12 bits a pass, until what is left
// between the ends fits the memory and is picked out by its rank.
func (j *job) refine(ctx context.Context, targets []target) error {
	inside := make([]int64, len(targets)) // how many values are left
	for i := range inside {
		inside[i] = j.negatives.total
	}
	for slices.ContainsFunc(targets, func(t target) bool { return t.low < t.high }) {
		left := int64(0)
		for i, t := range targets {
			if t.low < t.high && (i == 0 || !t.beside(targets[i-1])) {
				left += inside[i]
			}
		}
		if left <= min(j.room/64, j.keepRoom()) {
			if err := j.collect(ctx, targets, inside); err != nil {
				return err
			}
			continue
		}
		counts := make([][]int64, j.blocks.Workers)
		under := make([][]int64, j.blocks.Workers)
		err := j.strips(ctx, func(worker int, s *strip) {
			if counts[worker] == nil {
				counts[worker], under[worker] = make([]int64, len(targets)*refineBins), make([]int64, len(targets))
			}
			for _, x := range s.scores {
				k := key(x)
				for i := range targets {
					switch t := &targets[i]; {
					case k < t.low:
						under[worker][i]++
					case k <= t.high:
						counts[worker][i*refineBins+int((k-t.low)>>t.shift())]++
					}
				}
			}
		})
		if err != nil {
			return err
		}
		for i := range targets {
			inside[i] = targets[i].narrow(i, counts, under, j.negatives.total)
		}
	}
	return nil
}

// beside reports whether both lie between the same ends.
func (t target) beside(o target) bool { return t.low == o.low && t.high == o.high }

// reset is for bounds that turn out to be wrong, as those from merged parts can be.
func (t *target) reset() { t.low, t.high = key(-math.MaxFloat64), key(math.MaxFloat64) }

// narrow takes the bin that holds the rank, and says how many values it holds. Counts begin at the
// target's offset in each worker's.
func (t *target) narrow(at int, counts, under [][]int64, total int64) int64 {
	var below int64
	for _, u := range under {
		if u != nil {
			below += u[at]
		}
	}
	shift := t.shift()
	for bin := uint64(0); below <= t.rank && bin < refineBins; bin++ {
		var n int64
		for _, c := range counts {
			if c != nil {
				n += c[at*refineBins+int(bin)]
			}
		}
		if below+n > t.rank {
			t.low += bin << shift
			t.high = min(t.high, t.low+(1<<shift-1))
			return n
		}
		below += n
	}
	t.reset()
	return total
}

// collect takes all values between the ends of each target and picks the one of its rank.
func (j *job) collect(ctx context.Context, targets []target, inside []int64) error {
	type found struct {
		values [][]float64 // of the first of the targets that are beside each other
		under  []int64
	}
	workers := make([]found, j.blocks.Workers)
	err := j.strips(ctx, func(worker int, s *strip) {
		f := &workers[worker]
		if f.values == nil {
			*f = found{make([][]float64, len(targets)), make([]int64, len(targets))}
		}
		for _, x := range s.scores {
			k := key(x)
			for i := range targets {
				if i > 0 && targets[i].beside(targets[i-1]) {
					continue
				}
				switch t := &targets[i]; {
				case k < t.low:
					f.under[i]++
				case k <= t.high:
					f.values[i] = append(f.values[i], x)
				}
			}
		}
	})
	if err != nil {
		return err
	}
	for from := 0; from < len(targets); {
		to := from + 1
		for to < len(targets) && targets[to].beside(targets[from]) {
			to++
		}
		var values []float64
		var under int64
		for _, f := range workers {
			if f.values != nil {
				values, under = append(values, f.values[from]...), under+f.under[from]
			}
		}
		var ranks []int
		for i := from; i < to; i++ {
			ranks = append(ranks, int(targets[i].rank-under))
		}
		fits := ranks[0] >= 0 && ranks[len(ranks)-1] < len(values)
		if fits {
			if err := selectRanks(ctx, values, ranks); err != nil {
				return err
			}
		}
		for i := from; i < to; i++ {
			if fits {
				targets[i].low = key(values[ranks[i-from]])
				targets[i].high = targets[i].low
			} else {
				targets[i].reset()
				inside[i] = j.negatives.total
			}
		}
		from = to
	}
	return nil
}

// key maps float64 to integers of the same order; unkey is its inverse.
func key(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

func unkey(k uint64) float64 {
	if k>>63 == 1 {
		return math.Float64frombits(k &^ (1 << 63))
	}
	return math.Float64frombits(^k)
}

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

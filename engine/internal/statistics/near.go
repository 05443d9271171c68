package statistics

import (
	"cmp"
	"slices"

	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// ranges are where it matters which values there are, and not just how many.
type ranges []bracket

func (n ranges) meets(low, high float32) bool {
	return slices.ContainsFunc(n, func(r bracket) bool { return low <= r.high && high >= r.low })
}

// near tells between which values each statistic and its window lie, from the ranges of merged parts' runs alone, and
// adds the ends of brackets: runs that hold none of it are as good as at one place. Runs without a range are all near.
func (r *resolver) near(l *wanted) ranges {
	all := ranges{{minusInf, plusInf}}
	if r.cells.scale == 0 || slices.ContainsFunc(r.t.kept, func(k run) bool { return k.of == nil }) {
		return all
	}
	pad := 2*r.b.epsilon + 4/r.cells.scale
	byLow, byHigh := slices.Clone(r.t.kept), slices.Clone(r.t.kept)
	slices.SortFunc(byLow, func(a, b run) int { return cmp.Compare(a.low, b.low) })
	slices.SortFunc(byHigh, func(a, b run) int { return cmp.Compare(a.high, b.high) })
	out := ranges{{l.low, l.low}, {l.high, l.high}}
	for _, b := range l.brackets {
		out = append(out, bracket{b.low, b.low}, bracket{b.high, b.high})
	}
	for _, s := range r.b.statistics {
		i := len(l.brackets) - 1
		for i >= 0 && r.t.below[i] > s.rank {
			i--
		}
		if i < 0 {
			out = append(out, bracket{minusInf, l.low})
			continue
		}
		b, rank := l.brackets[i], s.rank-r.t.below[i] // of the values in the bracket
		// As many values as the rank may lie below the first run, and lie in the last run or below for certain.
		first := ranked(byLow, rank, func(k run) bool { return k.high >= b.low && k.low <= b.high })
		last := ranked(byHigh, rank, func(k run) bool { return k.low >= b.low && k.high <= b.high })
		low, high := b.low, b.high
		if first != nil {
			low = max(low, first.low)
		}
		if last != nil {
			high = last.high
		} else if i == len(l.brackets)-1 {
			out = append(out, bracket{l.high, plusInf})
		}
		out = append(out, bracket{scan.Down(float64(low) - pad), up(float64(high) + pad)})
	}
	return out
}

// ranked returns the first of some runs up to which, among those of a kind, there are more values than rank.
func ranked(runs []run, rank int64, of func(run) bool) *run {
	n := int64(0)
	for i, k := range runs {
		if of(k) {
			if n += int64(k.n); n > rank {
				return &runs[i]
			}
		}
	}
	return nil
}

package statistics

import (
	"context"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// The mean of dot products comes from sums of vectors: Σᵢⱼ xᵢ·yⱼ = (Σxᵢ)·(Σyⱼ), less the near pairs that D− leaves
// out. Coordinates of vectors of length 1 are rounded to whole units of scores.SumUnit first, so that the sums are
// integers: any division into blocks gives the same bits.

// meanOfSums sets the mean of dot products and the bound of its error.
func (j *job) meanOfSums(ctx context.Context) error {
	d, err := j.newDots(ctx)
	if err != nil {
		return err
	}
	sum, err := d.sum(ctx, ascendingFrom(0, j.c.N), ascendingFrom(0, j.q.N))
	if err != nil {
		return err
	}
	j.setMean(sum, j.q.Dim, d.scale)
	return nil
}

// setMean sets the mean from the sum of the dot products of D−; scale is what a dot product of 1 stands for.
func (j *job) setMean(sum *big.Int, dim int, scale float64) {
	s := &j.out.NegativeSummary
	unit := new(big.Int).Lsh(big.NewInt(s.N), 100) // scores.SumUnit², and the mean
	mean, _ := new(big.Rat).SetFrac(sum, unit).Float64()
	s.Mean = mean * scale
	// A vector is off by at most √dim·2⁻⁵¹ of its length, and as much as 3·2⁻⁵³ of it for the factor.
	pair := 0x1p-50 * (math.Sqrt(float64(dim)) + 3) * scale
	if j.in.Negatives.Kind == distribution.NegativesAll { // of own pairs, another number is subtracted
		pair *= 1 + float64(j.q.N)/float64(s.N)
	}
	s.MeanError = 1.01*pair + 0x1p-52*math.Abs(s.Mean)
}

// dots adds up dot products of a job's rows.
type dots struct {
	j     *job
	c, q  []float64 // factor of each row, which makes its length at most 1
	scale float64   // score = scale · dot product of the vectors with their factors
}

func (j *job) newDots(ctx context.Context) (d *dots, err error) {
	d = &dots{j: j}
	var c, q float64
	if d.c, c, err = j.factors(ctx, j.c); err == nil {
		d.q, q, err = j.factors(ctx, j.q)
	}
	d.scale = c * q
	return d, err
}

// factors returns what rows are multiplied by: for a cosine 1/norm, else one power of two for all, 1/scale.
func (j *job) factors(ctx context.Context, o *device.Operand) (factors []float64, scale float64, err error) {
	scale = 1
	if j.in.Metric != kernels.Cosine {
		norm, err := largest(ctx, o.Norms)
		if err != nil {
			return nil, 0, err
		}
		scale = 1 / device.PowerOfTwo([]float64{norm})
	}
	factors, err = listOf(ctx, o.N, func(i int) float64 {
		switch norm := o.Norms[i]; {
		case j.in.Metric != kernels.Cosine:
			return 1 / scale
		case norm > 0:
			return 1 / norm
		}
		return 0
	})
	return factors, scale, err
}

// sum returns the sum over the pairs of D− among some rows and lanes, which ascend, in units of scores.SumUnit².
func (d *dots) sum(ctx context.Context, rows, lanes []int32) (*big.Int, error) {
	if d.j.in.Negatives.Kind == distribution.NegativesCrossGroup && d.j.in.Group == nil {
		return new(big.Int), ctx.Err()
	}
	c, err := d.vectors(ctx, d.j.c, d.c, rows)
	if err != nil {
		return nil, err
	}
	q, err := d.vectors(ctx, d.j.q, d.q, lanes)
	if err != nil {
		return nil, err
	}
	var near *big.Int
	if d.j.in.Negatives.Kind == distribution.NegativesCrossGroup {
		near, err = d.groups(ctx, rows, lanes)
	} else {
		near, err = d.own(ctx, rows, lanes)
	}
	if err != nil {
		return nil, err
	}
	return near.Sub(inner(c, q), near), nil
}

// own returns the sum of D+ where both a query and its own context are listed.
func (d *dots) own(ctx context.Context, rows, lanes []int32) (*big.Int, error) {
	sum := make(vector, 1)
	err := workers.Over(ctx, len(lanes), func(from, to int) {
		for _, q := range lanes[from:to] {
			if len(rows) < d.j.c.N {
				if _, listed := slices.BinarySearch(rows, d.j.in.Owner[q]); !listed {
					continue
				}
			}
			sum.add([]int64{int64(math.RoundToEven(d.j.out.Positive[q] / d.scale / scores.SumUnit))})
		}
	})
	return new(big.Int).Lsh(integer(sum[0]), 50), err
}

// groups returns the sum of all pairs within groups.
func (d *dots) groups(ctx context.Context, rows, lanes []int32) (*big.Int, error) {
	j := d.j
	group := func(c int32) int32 { return j.in.Group[c] }
	groupOf := func(q int32) int32 { return j.in.Group[j.in.Owner[q]] }
	var err error
	if rows, err = sortedBy(ctx, j, rows, len(rows), group); err != nil {
		return nil, err
	}
	if lanes, err = sortedBy(ctx, j, lanes, len(lanes), groupOf); err != nil {
		return nil, err
	}
	type shared struct{ rows, lanes []int32 } // of one group
	var list []shared
	err = workers.Over(ctx, len(lanes), func(from, to int) {
		for l := from; l < to; l++ {
			of := groupOf(lanes[l])
			if l > 0 && groupOf(lanes[l-1]) == of {
				last := &list[len(list)-1].lanes
				*last = (*last)[:len(*last)+1]
				continue
			}
			first := sort.Search(len(rows), func(i int) bool { return group(rows[i]) >= of })
			end := sort.Search(len(rows), func(i int) bool { return group(rows[i]) > of })
			list = append(list, shared{rows[first:end], lanes[l : l+1]})
		}
	})
	if err != nil {
		return nil, err
	}
	sums := make([]*big.Int, len(list))
	err = j.r.Pool.Each(ctx, len(list), j.blocks.Workers, func(_, task int) error {
		c, err := d.add(ctx, j.c.Rows, d.c, list[task].rows)
		if err != nil {
			return err
		}
		q, err := d.add(ctx, j.q.Rows, d.q, list[task].lanes)
		if err != nil {
			return err
		}
		sums[task] = inner(c, q)
		return nil
	})
	sum := new(big.Int)
	for _, x := range sums {
		if x != nil {
			sum.Add(sum, x)
		}
	}
	return sum, err
}

const sumChunk = 512 // rows

// vectors returns the sum of some rows.
func (d *dots) vectors(ctx context.Context, o *device.Operand, factor []float64, list []int32) (vector, error) {
	n := len(list)
	parts := make([]vector, workers.Ceil(n, sumChunk))
	err := d.j.r.Pool.Each(ctx, len(parts), d.j.blocks.Workers, func(_, task int) (err error) {
		parts[task], err = d.add(ctx, o.Rows, factor, list[task*sumChunk:min(n, (task+1)*sumChunk)])
		return err
	})
	total := make(vector, o.Dim)
	for _, p := range parts {
		total.plus(p)
	}
	return total, err
}

// add returns the sum of a list of rows, on one goroutine.
func (d *dots) add(ctx context.Context, rows cpu.Rows, factor []float64, list []int32) (vector, error) {
	total, sum := make(vector, rows.Dim), make([]int64, rows.Dim)
	for part := range slices.Chunk(list, scores.SumRows) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		clear(sum)
		if err := scores.Sum(d.j.r.Host, sum, rows, factor, part); err != nil {
			return nil, err
		}
		total.add(sum)
	}
	return total, nil
}

// vector is a sum of vectors, in units of scores.SumUnit: 2³¹ rows of coordinates up to 2⁵⁰ fit 128 bits.
type vector []tiles.Sum

func (v vector) add(x []int64) {
	for i, n := range x {
		lo, carry := bits.Add64(v[i].Lo, uint64(n), 0)
		v[i] = tiles.Sum{Hi: v[i].Hi + n>>63 + int64(carry), Lo: lo}
	}
}

func (v vector) plus(o vector) {
	for i, x := range o {
		lo, carry := bits.Add64(v[i].Lo, x.Lo, 0)
		v[i] = tiles.Sum{Hi: v[i].Hi + x.Hi + int64(carry), Lo: lo}
	}
}

func integer(x tiles.Sum) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(x.Hi), 64)
	return n.Add(n, new(big.Int).SetUint64(x.Lo))
}

// inner returns the dot product of two sums.
func inner(x, y vector) *big.Int {
	all, low, high := new(big.Int), tiles.Sum{}, int64(0) // low, and its overflow high
	for i, a := range x {
		b := y[i]
		if a.Hi != int64(a.Lo)>>63 || b.Hi != int64(b.Lo)>>63 {
			all.Add(all, new(big.Int).Mul(integer(a), integer(b)))
			continue
		}
		hi, lo := bits.Mul64(a.Lo, b.Lo)
		product := int64(hi - uint64(a.Hi)&b.Lo - uint64(b.Hi)&a.Lo) // of signed factors
		var carry uint64
		low.Lo, carry = bits.Add64(low.Lo, lo, 0)
		sum, over := bits.Add64(uint64(low.Hi), uint64(product), carry)
		low.Hi, high = int64(sum), high+product>>63+int64(over)
	}
	rest := new(big.Int).Lsh(big.NewInt(high), 128)
	rest.Add(rest, new(big.Int).Lsh(new(big.Int).SetUint64(uint64(low.Hi)), 64))
	return all.Add(all, rest.Add(rest, new(big.Int).SetUint64(low.Lo)))
}

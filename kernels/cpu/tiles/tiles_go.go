package tiles

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/sluice-rag/sluice/kernels"
)

// The plain Go versions of the tile kernels, for F32. A panel is [dim][Panel] float32 on both sides.

// block is the number of terms of a dot product summed in one chain; the chains' sums are added in order.
const block = 64

// tile is the values of Panel × Panel pairs, [row][column].
type tile [Panel][Panel]float32

// float32s returns panel i of p.
func (p *Panels) float32s(i int) [][Panel]float32 {
	if p.Dim == 0 {
		return nil
	}
	first := &p.data[i*p.Dim*Panel*4]
	return unsafe.Slice((*[Panel]float32)(unsafe.Pointer(first)), p.Dim)
}

// fill computes the values of a tile.
func (t *tile) fill(rows *Panels, row int, columns *Panels, column int) {
	x, y := rows.float32s(row), columns.float32s(column)
	for i := range Panel {
		var sum [Panel]float32
		for k0 := 0; k0 < len(x); k0 += block {
			var chain [Panel]float32
			for k := k0; k < min(k0+block, len(x)); k++ {
				xk, yk := x[k][i], &y[k]
				for l := range chain {
					chain[l] += float32(xk * yk[l])
				}
			}
			for l := range sum {
				sum[l] += chain[l]
			}
		}
		if rows.Metric == kernels.L2 {
			for l := range sum {
				sum[l] = sum[l] + rows.terms[row*Panel+i] + columns.terms[column*Panel+l]
			}
		}
		t[i] = sum
	}
}

func goCount(c *Count, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) error {
	var t tile
	for column := column0; column < column1; column++ {
		for row := row0; row < row1; row++ {
			t.fill(rows, row, columns, column)
			var sum, sum2 [Panel / 2]float32
			for i := range min(Panel, rows.N-row*Panel) {
				for l := range min(Panel, columns.N-column*Panel) {
					v := t[i][l]
					x := v
					if rows.Metric == kernels.L2 {
						x = float32(math.Sqrt(max(0, -2*float64(v))))
					}
					if c.Pair(v, x, row*Panel+i, column*Panel+l, row0*Panel, column0*Panel) {
						sum[l%len(sum)] += x
						sum2[l%len(sum)] += float32(x * x)
					}
				}
			}
			if err := errors.Join(c.Sum.add(&sum), c.Sum2.add(&sum2)); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds a tile's sum, rounded to units of 2⁻³⁰.
func (s *Sum) add(columns *[Panel / 2]float32) (err error) {
	var total float64
	for _, x := range columns {
		total += float64(x)
	}
	units := math.RoundToEven(total * (1 << 30))
	if !(math.Abs(units) < 1<<62) {
		return fmt.Errorf("%w: a tile's sum of %v", kernels.ErrRange, total)
	}
	*s, err = s.Plus(sumOf(int64(units)))
	return err
}

// Pair adds one pair of vectors to the count: v is its tile value, x the value for bins and the caller's sums (for l2
// the scaled distance). It reports whether the pair is counted. row0 and column0 are the call's first row and column.
func (c *Count) Pair(v, x float32, row, column, row0, column0 int) (counted bool) {
	own := int(c.Own[column]) == row
	near := own || c.RowGroup != nil && c.RowGroup[row] == c.ColumnGroup[column]
	e := Entry{v, uint32(row-row0)<<16 | uint32(column-column0)}
	if counted = !own && !(near && c.CrossGroup); counted {
		c.Counted++
		keep := v <= c.Min || v >= c.Max
		for b, low := range c.Low {
			if v < low {
				c.Below[b]++
			}
			keep = keep || v >= low && v <= c.High[b]
		}
		if keep {
			c.KeptFull = !add(&c.Kept, e) && cap(c.Kept) > 0 || c.KeptFull
		}
		if n := len(c.Bins); n > 0 {
			bin := float64((x - c.BinLow) * c.BinScale)
			c.Bins[int(min(max(bin, 0), float64(n-1)))]++
		}
	}
	if c.NoBest {
		return counted
	}
	if near {
		if best := &c.BestAll[column-column0]; v >= *best-c.Margin {
			c.AllFull = !add(&c.All, e) || c.AllFull
			*best = max(*best, v)
		}
	} else if best := &c.BestOther[column-column0]; v >= *best-c.Margin {
		c.OtherFull = !add(&c.Other, e) || c.OtherFull
		*best = max(*best, v)
	}
	return counted
}

// add appends e if there is capacity.
func add(list *[]Entry, e Entry) bool {
	if len(*list) == cap(*list) {
		return false
	}
	*list = append(*list, e)
	return true
}

func goMatrix(out []float32, stride int, rows *Panels, row0, row1 int, columns *Panels, column0, column1 int) {
	var t tile
	for row := row0; row < row1; row++ {
		for column := column0; column < column1; column++ {
			t.fill(rows, row, columns, column)
			for i := range min(Panel, rows.N-row*Panel) {
				to := out[((row-row0)*Panel+i)*stride+(column-column0)*Panel:]
				for l := range min(Panel, columns.N-column*Panel) {
					to[l] = unscale(t[i][l], rows.Metric, rows.Scale, columns.Scale)
				}
			}
		}
	}
}

// unscale converts a tile's value to the metric's own unit.
func unscale(v float32, metric kernels.Metric, scaleX, scaleY float64) float32 {
	switch metric {
	case kernels.IP:
		return float32(float64(v) / scaleX / scaleY)
	case kernels.L2:
		return float32(math.Sqrt(max(0, -2*float64(v))) / scaleX)
	}
	return min(max(v, -1), 1)
}

package devicetest

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

// Count implements device.Device, pair by pair, lanes outside.
func (d *StandIn) Count(c *device.Count, rows device.Set, row0, row1 int, lanes device.Set, lane0, lane1 int) error {
	leave, err := d.enter("Count")
	if err != nil {
		return err
	}
	defer leave()
	left, right, err := d.tiles(rows, row0, row1, lanes, lane0, lane1)
	if err != nil {
		return err
	}
	if row1-row0 > device.MaxSide || lane1-lane0 > device.MaxSide || len(c.Low) > device.MaxBrackets {
		return fmt.Errorf("%w: %d×%d panels, %d brackets", kernels.ErrShape, row1-row0, lane1-lane0, len(c.Low))
	}
	n := counting{c, left, right, row0 * device.Panel, lane0 * device.Panel}
	for lane := lane0; lane < lane1; lane++ {
		for row := row0; row < row1; row++ {
			if err := n.tile(row, lane); err != nil {
				return err
			}
		}
	}
	return nil
}

// counting is one call of Count.
type counting struct {
	*device.Count
	rows, lanes *set
	row0, lane0 int // first of the call
}

// tile counts the pairs of two panels and rounds their sums to units of 2⁻³⁰.
func (n *counting) tile(rowPanel, lanePanel int) error {
	var sum, sum2 float64
	for lane := lanePanel * device.Panel; lane < min(n.lanes.n, (lanePanel+1)*device.Panel); lane++ {
		for row := rowPanel * device.Panel; row < min(n.rows.n, (rowPanel+1)*device.Panel); row++ {
			v := value(n.rows, row, n.lanes, lane)
			near := n.Own[lane] == int32(row) || n.RowGroup != nil && n.RowGroup[row] == n.ColumnGroup[lane]
			if !n.NoBest {
				n.best(v, row, lane, near)
			}
			if n.Own[lane] == int32(row) || n.CrossGroup && near {
				continue
			}
			x := float64(v)
			if n.rows.metric == kernels.L2 {
				x = math.Sqrt(max(0, -2*x))
			}
			n.negative(v, x, row, lane)
			sum, sum2 = sum+x, sum2+x*x
		}
	}
	return errors.Join(add(&n.Sum, sum), add(&n.Sum2, sum2))
}

// add adds x, rounded to units of 2⁻³⁰.
func add(to *tiles.Sum, x float64) (err error) {
	units := math.Round(x * (1 << 30))
	if !(math.Abs(units) < 1<<62) {
		return fmt.Errorf("%w: a tile's sum of %v", kernels.ErrRange, x)
	}
	*to, err = to.Plus(tiles.Sum{Hi: int64(units) >> 63, Lo: uint64(int64(units))})
	return err
}

func (n *counting) entry(v float32, row, lane int) device.Entry {
	return device.Entry{Value: v, At: uint32(row-n.row0)<<16 | uint32(lane-n.lane0)}
}

// negative enters a pair that is counted; x is what its histogram is about.
func (n *counting) negative(v float32, x float64, row, lane int) {
	n.Counted++
	kept := v <= n.Min || v >= n.Max
	for b := range n.Low {
		if v < n.Low[b] {
			n.Below[b]++
		} else if v <= n.High[b] {
			kept = true
		}
	}
	if kept {
		if len(n.Kept) < cap(n.Kept) {
			n.Kept = append(n.Kept, n.entry(v, row, lane))
		} else if cap(n.Kept) > 0 {
			n.KeptFull = true
		}
	}
	if bins := len(n.Bins); bins > 0 {
		at := (float32(x) - n.BinLow) * n.BinScale
		n.Bins[int(min(max(at, 0), float32(bins-1)))]++
	}
}

// best enters a pair among the candidates for its lane's maximum.
func (n *counting) best(v float32, row, lane int, near bool) {
	list, full, best := &n.Other, &n.OtherFull, &n.BestOther[lane-n.lane0]
	if near {
		list, full, best = &n.All, &n.AllFull, &n.BestAll[lane-n.lane0]
	}
	if v < *best-n.Margin {
		return
	}
	*best = max(*best, v)
	if len(*list) == cap(*list) {
		*full = true
		return
	}
	*list = append(*list, n.entry(v, row, lane))
}

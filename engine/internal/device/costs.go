package device

import (
	"context"
	"math"
	"time"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The sizes of a calibration.
const (
	costDim  = 384
	costRows = 1 << 14    // different rows
	costStep = 1.5 / 1000 // seconds: what takes longer is long enough to be measured
	minRun   = 64         // vectors on a side of the first, smallest, run
	copyRoom = 24 << 20   // bytes of the longest copy
	retries  = 3          // of a run whose length is right; the best counts
	launches = 8          // calls of one pair
)

// Indexed is how many elements of an index a byte that is read from memory stands for, until searches have shown.
const Indexed = 2

// Measured is what a calibration found out about a device.
type Measured struct {
	Rates
	Transfer float64 `json:",omitempty"` // bytes per second to the device; 0: it has no memory of its own
	Launch   float64 // seconds of the shortest call
	Seconds  float64 // that the calibration took
}

// Measure times the calls of a device on one thread, for at most about that long: tiles of each format, canonical
// scores, reading, copies and the shortest call. What it has no time for keeps 0, but for tiles of float32.
func Measure(ctx context.Context, d Device, budget time.Duration) (m Measured, err error) {
	begun := time.Now()
	c := &calibration{ctx: ctx, d: d, end: begun.Add(budget), rows: costVectors()}
	defer func() { m.Seconds = time.Since(begun).Seconds() }()
	if err := c.copy(&m); err != nil {
		return m, err
	}
	defer c.d.Release(c.rows.Resident)
	if err := c.launch(&m); err != nil {
		return m, err
	}
	for _, t := range []kernels.DType{kernels.F32, kernels.BF16x3, kernels.BF16, kernels.I8, kernels.FP8, kernels.I16} {
		if !d.Has(t) || t != kernels.F32 && c.late() {
			continue
		}
		if m.Tiles[t], err = c.tiles(t); err != nil {
			return m, err
		}
	}
	if m.Read, err = c.read(); err != nil {
		return m, err
	}
	m.Scores, err = c.scores()
	return m, err
}

// calibration is one call of Measure.
type calibration struct {
	ctx  context.Context
	d    Device
	end  time.Time
	rows cpu.Rows
}

// costVectors are rows that look like embeddings as far as arithmetic is concerned: no zeros, no denormals.
func costVectors() cpu.Rows {
	r := cpu.Rows{Data: make([]float32, costRows*costDim), Norms: make([]float64, costRows), N: costRows, Dim: costDim,
		Stride: costDim}
	seed := uint32(1)
	for i := range r.Data {
		seed = seed*1664525 + 1013904223
		r.Data[i] = math.Float32frombits(0x3d000000|seed>>9) * float32(1-int32(seed>>7&2))
	}
	return r
}

func (c *calibration) late() bool { return time.Now().After(c.end) || c.ctx.Err() != nil }

// timer notes how long a call takes, several times.
type timer func(call func() error) error

// grow calls run with sizes from first on, doubled each time, until what it times takes long enough, size is largest
// or time is up, and returns the best rate: units(size) per second.
func (c *calibration) grow(first, largest int, units func(size int) float64,
	run func(size int, timed timer) error) (best float64, err error) {
	for size := first; ; size = min(2*size, largest) {
		took := math.Inf(1)
		err := run(size, func(call func() error) error {
			for range retries {
				begun := time.Now()
				if err := call(); err != nil {
					return err
				}
				took = min(took, max(time.Since(begun).Seconds(), 1e-9))
				if took < costStep && size < largest || c.late() {
					break
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		best = max(best, units(size)/took)
		if took >= costStep || size == largest || c.late() {
			return best, c.ctx.Err()
		}
	}
}

// copy times copies to the device and leaves one of all rows there.
func (c *calibration) copy(m *Measured) (err error) {
	none := false
	bytes := func(n int) float64 { return float64(CopyBytes(n, costDim)) }
	rate, err := c.grow(minRun, min(costRows, copyRoom/(4*costDim)), bytes,
		func(n int, timed timer) error {
			return timed(func() error {
				copied, err := c.d.Upload(c.rows.Slice(0, n))
				none = err == nil && copied == nil
				c.d.Release(copied)
				return err
			})
		})
	if err != nil || none {
		return err
	}
	m.Transfer = rate
	c.rows.Resident, err = c.d.Upload(c.rows)
	return err
}

// launch times the shortest call.
func (c *calibration) launch(m *Measured) error {
	m.Launch = math.Inf(1)
	var out [1]float64
	for range launches {
		begun := time.Now()
		if err := c.d.Pairs(kernels.IP, out[:], c.rows, []int32{1}, c.rows, []int32{2}); err != nil {
			return err
		}
		m.Launch = min(m.Launch, time.Since(begun).Seconds())
	}
	return nil
}

// packed runs fn on two packed sets of a and b vectors.
func (c *calibration) packed(t kernels.DType, a, b int, fn func(rows, lanes Set) error) error {
	var made [2]Set
	for side, n := range [2]int{a, b} {
		order := make([]int32, n)
		for i := range order {
			order[i] = int32(i % costRows)
		}
		s, err := c.d.New(Side(side), t, kernels.Cosine, n, costDim, 1)
		if err != nil {
			return err
		}
		defer c.d.Free(s)
		if err := c.d.Pack(s, c.rows, order, 0, s.Count()); err != nil {
			return err
		}
		made[side] = s
	}
	return fn(made[0], made[1])
}

// counting returns a count that finds next to nothing.
func counting(lanes int) *Count {
	c := &Count{Low: []float32{2}, High: []float32{3}, Below: make([]int64, 1), Min: float32(math.Inf(-1)),
		Max: float32(math.Inf(1)), NoBest: true, Own: make([]int32, lanes)}
	for i := range c.Own {
		c.Own[i] = -1
	}
	return c
}

// count is the rate of Count over sets that grow; the time to pack them does not count.
func (c *calibration) count(t kernels.DType, shape func(size int) (a, b int), largest int,
	units func(size int) float64) (float64, error) {
	return c.grow(minRun, largest, units, func(size int, timed timer) error {
		a, b := shape(size)
		return c.packed(t, a, b, func(rows, lanes Set) error {
			k := counting(lanes.Count() * Panel)
			return timed(func() error { return c.d.Count(k, rows, 0, rows.Count(), lanes, 0, lanes.Count()) })
		})
	})
}

// tiles returns the rate of multiply-adds in a format.
func (c *calibration) tiles(t kernels.DType) (float64, error) {
	return c.count(t, func(n int) (int, int) { return n, n }, costRows,
		func(n int) float64 { return float64(n) * float64(n) * costDim })
}

// read returns how fast sets are read: all of one against a panel.
func (c *calibration) read() (float64, error) {
	t := kernels.F32
	if c.d.Has(kernels.BF16) {
		t = kernels.BF16
	}
	return c.count(t, func(n int) (int, int) { return n, Panel }, min(4*costRows, MaxSide*Panel),
		func(n int) float64 { return float64(c.d.Bytes(t, n, costDim)) })
}

// scores returns the rate of multiply-adds of canonical scores.
func (c *calibration) scores() (float64, error) {
	const few = 128
	out := make([]float64, few*costRows)
	work := func(n int) float64 { return few * float64(n) * costDim }
	return c.grow(minRun, costRows, work, func(n int, timed timer) error {
		return timed(func() error {
			return c.d.Scores(kernels.Cosine, out, n, c.rows.Slice(0, few), c.rows.Slice(0, n))
		})
	})
}

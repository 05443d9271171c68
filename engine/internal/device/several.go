package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Several is a Device that stands for several ones. Each has all sets and copies of rows, and a call goes to the one
// with the fewest calls in progress: tiles are split among the devices, and the caller adds up their counts as it does
// for one device. The value of a tile may vary between calls within Bound, because the devices may differ.
type Several struct {
	of   []Device
	busy []atomic.Int32 // calls in progress, by device
}

// NewSeveral joins at least one device; their types may differ.
func NewSeveral(of []Device) *Several { return &Several{of: of, busy: make([]atomic.Int32, len(of))} }

// Describe implements Device: the names of all devices, and the task size and memory of the smallest.
func (d *Several) Describe() Info {
	i := d.of[0].Describe()
	names := []string{i.Name}
	for _, other := range d.of[1:] {
		o := other.Describe()
		names = append(names, o.Name)
		if o.Tiles != i.Tiles {
			i.Tiles = strings.Join([]string{i.Tiles, o.Tiles}, " + ")
		}
		i.CountWork, i.MatrixWork = min(i.CountWork, o.CountWork), min(i.MatrixWork, o.MatrixWork)
		if o.Memory > 0 && (i.Memory == 0 || o.Memory < i.Memory) {
			i.Memory = o.Memory
		}
	}
	i.Name = strings.Join(names, " + ")
	return i
}

// Has implements Device: all devices must have the format.
func (d *Several) Has(t kernels.DType) bool {
	return !slices.ContainsFunc(d.of, func(one Device) bool { return !one.Has(t) })
}

// Bytes implements Device: the largest size of any device.
func (d *Several) Bytes(t kernels.DType, n, dim int) (bytes int64) {
	for _, one := range d.of {
		bytes = max(bytes, one.Bytes(t, n, dim))
	}
	return bytes
}

// each runs fn for all devices concurrently.
func (d *Several) each(fn func(i int, one Device) error) error {
	errs := make([]error, len(d.of))
	var wait sync.WaitGroup
	for i, one := range d.of[1:] {
		wait.Go(func() {
			defer panics.Into(&errs[i+1])
			errs[i+1] = fn(i+1, one)
		})
	}
	errs[0] = fn(0, d.of[0])
	wait.Wait()
	return errors.Join(errs...)
}

// on calls fn with the device that has the fewest calls in progress.
func (d *Several) on(fn func(i int, one Device) error) error {
	best := 0
	for i := range d.of {
		if d.busy[i].Load() < d.busy[best].Load() {
			best = i
		}
	}
	d.busy[best].Add(1)
	defer d.busy[best].Add(-1)
	return fn(best, d.of[best])
}

// copies holds the copies of the same rows, by device.
type copies struct{ of []any }

func (d *Several) Upload(rows cpu.Rows) (any, error) {
	c := &copies{make([]any, len(d.of))}
	err := d.each(func(i int, one Device) (err error) {
		c.of[i], err = one.Upload(rows)
		return err
	})
	if err != nil {
		d.Release(c)
		return nil, err
	}
	if !slices.ContainsFunc(c.of, func(x any) bool { return x != nil }) {
		return nil, nil
	}
	return c, nil
}

func (d *Several) Release(resident any) {
	if c, ok := resident.(*copies); ok {
		for i, one := range d.of {
			one.Release(c.of[i]) // a second call does nothing
		}
	}
}

// view returns the rows as device i sees them.
func view(rows cpu.Rows, i int) cpu.Rows {
	if c, ok := rows.Resident.(*copies); ok {
		rows.Resident = c.of[i]
	}
	return rows
}

// sets holds a copy of the same set or codes on each device.
type sets struct {
	Set
	owner *Several
	of    []Set
	axes  *Axes // of codes
}

// Axes implements Codes.
func (s *sets) Axes() *Axes { return s.axes }

// Norm implements Set: the largest norm that a device reports.
func (s *sets) Norm() (norm float64) {
	for _, one := range s.of {
		norm = max(norm, one.Norm())
	}
	return norm
}

func (s *sets) Short() bool { return slices.ContainsFunc(s.of, Set.Short) }

func (d *Several) New(side Side, t kernels.DType, m kernels.Metric, n, dim int, scale float64) (Set, error) {
	return d.newSets(nil, func(_ int, one Device) (Set, error) { return one.New(side, t, m, n, dim, scale) })
}

// newSets makes a set on each device. If one fails, the others are freed.
func (d *Several) newSets(axes *Axes, one func(i int, d Device) (Set, error)) (Codes, error) {
	s := &sets{owner: d, axes: axes, of: make([]Set, len(d.of))}
	err := d.each(func(i int, of Device) error {
		set, err := one(i, of)
		if err == nil {
			s.of[i] = set
		}
		return err
	})
	if err != nil {
		for i, set := range s.of {
			if set != nil {
				d.of[i].Free(set)
			}
		}
		return nil, err
	}
	s.Set = s.of[0]
	return s, nil
}

func (d *Several) Free(s Set) {
	if s, ok := s.(*sets); ok && s.owner == d {
		s.owner = nil
		for i, one := range s.of {
			d.of[i].Free(one)
		}
	}
}

func (d *Several) own(s Set) (*sets, error) {
	if s, ok := s.(*sets); ok && s.owner == d {
		return s, nil
	}
	return nil, fmt.Errorf("%w: a set of another device, or one that was freed", kernels.ErrArgument)
}

func (d *Several) Pack(s Set, rows cpu.Rows, order []int32, from, to int) error {
	set, err := d.own(s)
	if err != nil {
		return err
	}
	return d.each(func(i int, one Device) error { return one.Pack(set.of[i], view(rows, i), order, from, to) })
}

// Bound implements Device: the largest bound of any device.
func (d *Several) Bound(left, right Set) (bound float64) {
	l, r := left.(*sets), right.(*sets)
	for i, one := range d.of {
		bound = max(bound, one.Bound(l.of[i], r.of[i]))
	}
	return bound
}

// onBoth calls fn with the device that has the fewest calls in progress, and its sets of both sides.
func (d *Several) onBoth(rows, lanes Set, fn func(one Device, rows, lanes Set) error) error {
	l, err := d.own(rows)
	if err != nil {
		return err
	}
	r, err := d.own(lanes)
	if err != nil {
		return err
	}
	return d.on(func(i int, one Device) error { return fn(one, l.of[i], r.of[i]) })
}

func (d *Several) Count(c *Count, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error {
	return d.onBoth(rows, lanes, func(one Device, rows, lanes Set) error {
		return one.Count(c, rows, row0, row1, lanes, lane0, lane1)
	})
}

func (d *Several) Matrix(out []float32, stride int, rows Set, row0, row1 int, lanes Set, lane0, lane1 int) error {
	return d.onBoth(rows, lanes, func(one Device, rows, lanes Set) error {
		return one.Matrix(out, stride, rows, row0, row1, lanes, lane0, lane1)
	})
}

func (d *Several) Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	return d.on(func(i int, one Device) error { return one.Scores(m, out, stride, view(a, i), view(b, i)) })
}

func (d *Several) Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	return d.on(func(i int, one Device) error { return one.Pairs(m, out, view(a, i), rowsA, view(b, i), rowsB) })
}

// HasScan implements Device: all devices must have scans.
func (d *Several) HasScan() bool {
	return !slices.ContainsFunc(d.of, func(one Device) bool { return !one.HasScan() })
}

func (d *Several) Code(ctx context.Context, rows cpu.Rows, x *Axes, head int) (Codes, error) {
	return d.newSets(x, func(i int, one Device) (Set, error) { return one.Code(ctx, view(rows, i), x, head) })
}

func (d *Several) Scan(s *Scan) error {
	c, ok := s.Codes.(*sets)
	if !ok || c.owner != d {
		return fmt.Errorf("%w: codes of another device, or ones that were freed", kernels.ErrArgument)
	}
	return d.on(func(i int, one Device) error {
		part := *s
		part.Codes, part.Rows, part.Queries = c.of[i].(Codes), view(s.Rows, i), view(s.Queries, i)
		err := one.Scan(&part)
		s.Found, s.Survivors, s.Full = part.Found, part.Survivors, part.Full
		return err
	})
}

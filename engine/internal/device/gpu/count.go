package gpu

import (
	"fmt"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// placed is a call of Count in the GPU's memory: one piece with what is looked for, labels, best values and counts,
// which travels to and fro at once, and the lists of pairs.
type placed struct {
	c                   *device.Count
	block               cuda.Ptr
	host                []byte // of the block
	kept, other, all    cuda.Ptr
	found, own          int // offsets in the block
	rowGroup, laneGroup int
	bestOther, bestAll  int
	bins                int
	back                int // what comes back begins here
	temporary           pieces
	got                 *found
}

// place makes room for a call and fills in what is sent.
func (d *Device) place(c *device.Count, l *set, row0, row1 int, r *set, lane0, lane1 int) (p *placed, err error) {
	p = &placed{c: c}
	r0, r1 := row0*device.Panel, min(l.n, row1*device.Panel)
	q0, q1 := lane0*device.Panel, min(r.n, lane1*device.Panel)
	width := (lane1 - lane0) * device.Panel
	at := func(bytes int) (offset int) {
		offset = len(p.host)
		p.host = append(p.host, make([]byte, (bytes+7)/8*8)...)
		return offset
	}
	at(len(bytesOf(make([]look, 1))))
	p.own = at(4 * (q1 - q0))
	if c.RowGroup != nil {
		p.rowGroup, p.laneGroup = at(4*(r1-r0)), at(4*(q1-q0))
	}
	p.back = len(p.host)
	p.found = at(len(bytesOf(make([]found, 1))))
	p.bins = at(8 * len(c.Bins))
	if !c.NoBest {
		p.bestOther, p.bestAll = at(4*width), at(4*width)
	}
	p.fill(l, r0, r1, q0, q1, width)
	if p.block, err = p.temporary.take(d, int64(len(p.host))); err != nil {
		return p, err
	}
	for _, x := range []struct {
		to   *cuda.Ptr
		room int
	}{{&p.kept, cap(c.Kept)}, {&p.other, cap(c.Other)}, {&p.all, cap(c.All)}} {
		if x.room == 0 {
			continue
		}
		if *x.to, err = p.temporary.take(d, 8*int64(x.room)); err != nil {
			return p, err
		}
	}
	return p, nil
}

// fill writes what is looked for, labels, and the best values so far.
func (p *placed) fill(l *set, r0, r1, q0, q1, width int) {
	c := p.c
	k := look{Min: c.Min, Max: c.Max, Margin: c.Margin, BinLow: c.BinLow, BinScale: c.BinScale,
		Brackets: int32(len(c.Low)), CrossGroup: flag(c.CrossGroup), Best: flag(!c.NoBest),
		IsL2: flag(l.metric == kernels.L2)}
	copy(k.Low[:], c.Low)
	copy(k.High[:], c.High)
	copy(p.host, bytesOf([]look{k}))
	copy(p.host[p.own:], bytesOf(c.Own[q0:q1]))
	if c.RowGroup != nil {
		copy(p.host[p.rowGroup:], bytesOf(c.RowGroup[r0:r1]))
		copy(p.host[p.laneGroup:], bytesOf(c.ColumnGroup[q0:q1]))
	}
	if c.NoBest {
		return
	}
	best := make([]uint32, width)
	for _, x := range []struct {
		to   int
		from []float32
	}{{p.bestOther, c.BestOther}, {p.bestAll, c.BestAll}} {
		for i := range best {
			best[i] = ordered(x.from[i])
		}
		copy(p.host[x.to:], bytesOf(best))
	}
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func (p *placed) free(d *Device) { p.temporary.free(d) }

// arguments returns the last of the kernels that count.
func (p *placed) arguments() []uint64 {
	at := func(offset int, there bool) uint64 {
		if !there {
			return 0
		}
		return uint64(p.block) + uint64(offset)
	}
	groups, best := p.c.RowGroup != nil, !p.c.NoBest
	return []uint64{uint64(p.block), at(p.found, true), at(p.own, true), at(p.rowGroup, groups),
		at(p.laneGroup, groups),
		at(p.bestOther, best), at(p.bestAll, best), uint64(p.kept), uint64(cap(p.c.Kept)), uint64(p.other),
		uint64(cap(p.c.Other)), uint64(p.all), uint64(cap(p.c.All)), at(p.bins, true), uint64(len(p.c.Bins))}
}

// send writes the block.
func (p *placed) send(s *cuda.Stream) error { return s.Write(p.block, p.host) }

// receive reads what was found, and as much of the lists as there is.
func (p *placed) receive(s *cuda.Stream) error {
	if err := s.Read(p.host[p.back:], p.block+cuda.Ptr(p.back)); err != nil {
		return err
	}
	one := make([]found, 1)
	copy(bytesOf(one), p.host[p.found:])
	p.got = &one[0]
	for _, x := range []struct {
		list *[]device.Entry
		from cuda.Ptr
		n    uint64
	}{{&p.c.Kept, p.kept, p.got.Kept}, {&p.c.Other, p.other, p.got.Other}, {&p.c.All, p.all, p.got.All}} {
		n := int(min(x.n, uint64(cap(*x.list))))
		*x.list = (*x.list)[:n]
		if n == 0 {
			continue
		}
		if err := s.Read(bytesOf(*x.list), x.from); err != nil {
			return err
		}
	}
	return nil
}

// add adds what was found to the caller's counts.
func (p *placed) add() (err error) {
	c, got := p.c, p.got
	if got.Overflow != 0 {
		return fmt.Errorf("gpu: %w: a tile's sum", kernels.ErrRange)
	}
	if c.Sum, err = c.Sum.Plus(units(got.Sum)); err != nil {
		return err
	}
	if c.Sum2, err = c.Sum2.Plus(units(got.Sum2)); err != nil {
		return err
	}
	c.Counted += int64(got.Counted)
	for b := range c.Below {
		c.Below[b] += int64(got.Below[b])
	}
	bins := make([]int64, len(c.Bins))
	copy(bytesOf(bins), p.host[p.bins:])
	for i, n := range bins {
		c.Bins[i] += n
	}
	c.KeptFull = c.KeptFull || cap(c.Kept) > 0 && got.Kept > uint64(cap(c.Kept))
	c.OtherFull = c.OtherFull || got.Other > uint64(cap(c.Other))
	c.AllFull = c.AllFull || got.All > uint64(cap(c.All))
	if c.NoBest {
		return nil
	}
	width := (len(p.host) - p.bestAll) / 4
	best := make([]uint32, width)
	for _, x := range []struct {
		from int
		to   []float32
	}{{p.bestOther, c.BestOther}, {p.bestAll, c.BestAll}} {
		copy(bytesOf(best), p.host[x.from:])
		for i, b := range best {
			x.to[i] = unordered(b)
		}
	}
	return nil
}

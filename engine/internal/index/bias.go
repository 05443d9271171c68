package index

import (
	"context"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// biases holds what one query adds to the closeness of rows: as given by the caller, and for a list also sorted by
// chunk.
type biases struct {
	all  kernels.Biases   // nil: no biases
	list kernels.BiasList // the same biases if they are a list, else nil

	begin   []int32      // the entries of chunk number n are [begin[n], begin[n+1])
	entries []placedBias // by chunk
	largest []float32    // of each chunk; 0 for a chunk without biases
	next    []int32
}

// placedBias is the bias of a row, identified by its place in its chunk.
type placedBias struct {
	place int32
	value float32 // rounded up
}

// set checks a list and sorts it by chunk with a counting sort, in time proportional to the list's length. Other kinds
// of biases are read when a search reaches them.
func (b *biases) set(ctx context.Context, query int, all kernels.Biases, s *snapshot) error {
	b.all, b.list = nil, nil
	if err := device.CheckBias(ctx, query, all, s.rows); err != nil {
		return err
	}
	list, ok := all.(kernels.BiasList)
	if !ok || len(list) == 0 {
		if !ok {
			b.all = all
		}
		return nil
	}
	b.all, b.list = all, list
	b.begin = slices.Grow(b.begin[:0], s.chunks+1)[:s.chunks+1]
	b.next = slices.Grow(b.next[:0], s.chunks)[:s.chunks]
	b.largest = slices.Grow(b.largest[:0], s.chunks)[:s.chunks]
	clear(b.next)
	clear(b.largest)
	err := s.eachPart(ctx, list, func(part kernels.BiasList, g *group, where []uint32, chunk int) {
		next := b.next[chunk:]
		for _, e := range part {
			next[where[e.Row-g.first]/chunkRows]++
		}
	})
	if err != nil {
		return err
	}
	total := int32(0)
	for i, n := range b.next {
		b.begin[i], b.next[i] = total, total
		total += n
	}
	b.begin[s.chunks] = total
	b.entries = slices.Grow(b.entries[:0], int(total))[:total]
	return s.eachPart(ctx, list, func(part kernels.BiasList, g *group, where []uint32, chunk int) {
		next, largest := b.next[chunk:], b.largest[chunk:]
		for _, e := range part {
			w, value := where[e.Row-g.first], -scan.Down(-e.Value)
			c := w / chunkRows
			b.entries[next[c]] = placedBias{int32(w % chunkRows), value}
			next[c]++
			largest[c] = max(largest[c], value)
		}
	})
}

// eachPart calls fn for each piece of a list that lies in one coded group, with the places of that group's rows and
// the number of its first chunk.
func (s *snapshot) eachPart(ctx context.Context, list kernels.BiasList,
	fn func(part kernels.BiasList, g *group, where []uint32, chunk int)) error {
	chunk := 0
	for _, g := range s.groups {
		if part := list.Between(g.first, g.first+g.N); len(g.chunks) > 0 && len(part) > 0 {
			where, err := g.places(ctx)
			if err == nil {
				err = workers.Over(ctx, len(part), func(from, to int) { fn(part[from:to], g, where, chunk) })
			}
			if err != nil {
				return err
			}
		}
		chunk += len(g.chunks)
	}
	return nil
}

// places returns the place of each row of the group: chunk·chunkRows + place in the chunk.
func (g *group) places(ctx context.Context) ([]uint32, error) {
	g.locate.Lock()
	defer g.locate.Unlock()
	if g.where != nil {
		return g.where, nil
	}
	where := make([]uint32, g.N)
	for c := range g.chunks {
		if c%(workers.Stretch/chunkRows) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for place, row := range g.chunks[c].rows {
			where[row] = uint32(c*chunkRows + place)
		}
	}
	g.where = where
	return where, nil
}

// read writes the biases of chunk number n, rounded up, to out, and returns the largest. If the largest is 0, the
// contents of out are undefined.
func (b *biases) read(n int, u unit, out []float32) (largest float32, err error) {
	if b.list == nil {
		largest, err = device.ReadBias(b.all, u.block(n), out[:len(u.g.chunks[u.chunk].rows)])
		clear(out[len(u.g.chunks[u.chunk].rows):])
		return largest, err
	}
	if b.largest[n] > 0 {
		clear(out)
		for _, e := range b.entries[b.begin[n]:b.begin[n+1]] {
			out[e.place] = e.value
		}
	}
	return b.largest[n], nil
}

// exact returns the exact bias of a row for which read returned value.
func (b *biases) exact(row int, value float32) float64 {
	if b.list == nil || value == 0 {
		return float64(value)
	}
	return b.list.At(row)
}

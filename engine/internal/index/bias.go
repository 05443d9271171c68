package index

import (
	"math"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// biases are what one query adds to the closeness of rows: as they were given, and by chunk, for the bounds.
type biases struct {
	list []kernels.Bias

	begin   []int32      // the entries of chunk number n are [begin[n], begin[n+1])
	entries []placedBias // by chunk
	largest []float32    // of each chunk; 0 where there is none
	next    []int32
}

// placedBias is a bias of a row, by its place in its chunk.
type placedBias struct {
	place int32
	value float32 // rounded up
}

// set checks a list and sorts it by chunk: a counting sort, in time proportional to the list's length.
func (b *biases) set(query int, list []kernels.Bias, s *snapshot) error {
	b.list = nil
	if len(list) == 0 {
		return nil
	}
	if err := device.CheckBias(query, list, s.rows); err != nil {
		return err
	}
	b.list = list
	b.begin = slices.Grow(b.begin[:0], s.chunks+1)[:s.chunks+1]
	b.next = slices.Grow(b.next[:0], s.chunks)[:s.chunks]
	b.largest = slices.Grow(b.largest[:0], s.chunks)[:s.chunks]
	clear(b.next)
	clear(b.largest)
	s.eachPart(list, func(part []kernels.Bias, g *group, chunk int) {
		where, next := g.places(), b.next[chunk:]
		for _, e := range part {
			next[where[e.Row-g.first]/chunkRows]++
		}
	})
	total := int32(0)
	for i, n := range b.next {
		b.begin[i], b.next[i] = total, total
		total += n
	}
	b.begin[s.chunks] = total
	b.entries = slices.Grow(b.entries[:0], int(total))[:total]
	s.eachPart(list, func(part []kernels.Bias, g *group, chunk int) {
		where, next, largest := g.places(), b.next[chunk:], b.largest[chunk:]
		for _, e := range part {
			w, value := where[e.Row-g.first], roundUp(e.Value)
			c := w / chunkRows
			b.entries[next[c]] = placedBias{int32(w % chunkRows), value}
			next[c]++
			largest[c] = max(largest[c], value)
		}
	})
	return nil
}

// eachPart calls fn with the part of a list that lies in each coded group, and the number of its first chunk.
func (s *snapshot) eachPart(list []kernels.Bias, fn func(part []kernels.Bias, g *group, chunk int)) {
	chunk := 0
	for _, g := range s.groups {
		if part := between(list, g.first, g.first+g.N); len(g.chunks) > 0 && len(part) > 0 {
			fn(part, g, chunk)
		}
		chunk += len(g.chunks)
	}
}

// between is the part of a list whose rows are in [from, to).
func between(list []kernels.Bias, from, to int) []kernels.Bias {
	i := sort.Search(len(list), func(i int) bool { return list[i].Row >= from })
	return list[i : i+sort.Search(len(list)-i, func(j int) bool { return list[i+j].Row >= to })]
}

// places tells where each row of the group is: chunk·chunkRows + place.
func (g *group) places() []uint32 {
	g.locate.Do(func() {
		g.where = make([]uint32, g.N)
		for c := range g.chunks {
			for place, row := range g.chunks[c].rows {
				g.where[row] = uint32(c*chunkRows + place)
			}
		}
	})
	return g.where
}

// roundUp is x as a float32 that is not smaller.
func roundUp(x float64) float32 {
	f := float32(x)
	if float64(f) < x {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// most is at least the largest bias in chunk number n.
func (b *biases) most(n int) float32 {
	if len(b.list) == 0 {
		return 0
	}
	return b.largest[n]
}

// fill writes the biases of the places of chunk number n, rounded up.
func (b *biases) fill(n int, out []float32) {
	clear(out)
	for _, e := range b.entries[b.begin[n]:b.begin[n+1]] {
		out[e.place] = e.value
	}
}

// at is the bias of a row.
func (b *biases) at(row int) float64 {
	if part := between(b.list, row, row+1); len(part) > 0 {
		return part[0].Value
	}
	return 0
}

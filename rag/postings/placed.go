package postings

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/sluice-rag/sluice/kernels"
)

// placed are postings in the order of the blocks in which a prepared set's searches read biases: so that a search that
// comes to a few of the blocks reads only what lies in these.
type placed struct {
	rows  []*int32 // of each block, where its row numbers lie: a block of another set is not taken for one of these
	parts []placedSegment
}

// placedSegment is a segment's postings by block and place: at is number·placesPerBlock + place, ascending in a list.
type placedSegment struct {
	seg  *segment
	ends []uint64 // of the lists, which begin where the segment's do: rows without a place are left out
	at   []uint32
	tf   []uint16
}

// placesPerBlock is how many rows a block may have.
const placesPerBlock = 1024

// placeTask is of how many terms the lists are put in order at a time.
const placeTask = 4096

// Place prepares the index for searches of a prepared set whose blocks these are (engine.Set.Blocks): biases are then
// read block by block, in time that goes with the blocks that a search comes to. Indexes that come of this one by With
// keep that. It changes no score; one call at a time.
func (x *Index) Place(ctx context.Context, blocks []kernels.RowBlock, each Each) error {
	p := &placed{}
	at := make([]uint32, x.Rows())
	for i := range at {
		at[i] = none
	}
	for _, b := range blocks {
		if b.Number < 0 || b.Len == 0 {
			continue
		}
		if b.Len > placesPerBlock || b.Rows == nil || b.Number >= 1<<22 {
			return fmt.Errorf("postings: %w: block %d of %d rows", kernels.ErrShape, b.Number, b.Len)
		}
		for len(p.rows) <= b.Number {
			p.rows = append(p.rows, nil)
		}
		p.rows[b.Number] = &b.Rows[0]
		for i := range b.Len {
			if row := b.Row(i); row < len(at) {
				at[row] = uint32(b.Number*placesPerBlock + i)
			}
		}
	}
	for _, s := range x.segments {
		part, err := place(ctx, s, at[s.first:][:s.rows()], each)
		if err != nil {
			return err
		}
		p.parts = append(p.parts, part)
	}
	x.placed.Store(p)
	return nil
}

// Placed reports whether the index is prepared for searches of a prepared set whose blocks these are.
func (x *Index) Placed(blocks []kernels.RowBlock) bool {
	p := x.placed.Load()
	return slices.ContainsFunc(blocks, p.has)
}

// place puts a segment's lists in the order of the places of its rows.
func place(ctx context.Context, s *segment, places []uint32, each Each) (p placedSegment, err error) {
	p = placedSegment{seg: s, ends: make([]uint64, s.terms()), at: make([]uint32, len(s.at)),
		tf: make([]uint16, len(s.tf))}
	order := func(task int) error {
		var entries []uint64
		for term := task * placeTask; term < min((task+1)*placeTask, s.terms()); term++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			entries = entries[:0]
			l := s.list(term)
			for i, row := range l.at {
				if places[row] != none {
					entries = append(entries, uint64(places[row])<<16|uint64(l.tf[i]))
				}
			}
			slices.Sort(entries)
			to := s.begins[term]
			for i, e := range entries {
				p.at[to+uint64(i)], p.tf[to+uint64(i)] = uint32(e>>16), uint16(e)
			}
			p.ends[term] = to + uint64(len(entries))
		}
		return nil
	}
	return p, each.run(ctx, (s.terms()+placeTask-1)/placeTask, order)
}

// list is a term's postings by place.
func (p *placedSegment) list(term string) placedList {
	i, ok := p.seg.find(term)
	if !ok {
		return placedList{}
	}
	from, to := p.seg.begins[i], p.ends[i]
	return placedList{at: p.at[from:to], tf: p.tf[from:to]}
}

type placedList struct {
	at []uint32
	tf []uint16
}

// has reports whether a block is one that the postings are placed by.
func (p *placed) has(b kernels.RowBlock) bool {
	return p != nil && b.Number >= 0 && b.Number < len(p.rows) && len(b.Rows) > 0 && p.rows[b.Number] == &b.Rows[0]
}

// length is the number of terms of a row's text.
func (x *Index) length(row int) uint32 {
	i := sort.Search(len(x.segments), func(i int) bool { return x.segments[i].first > row }) - 1
	return x.segments[i].length[row-x.segments[i].first]
}

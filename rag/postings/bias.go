package postings

import (
	"slices"
	"sort"
	"sync"

	"github.com/sluice-rag/sluice/kernels"
)

// Part is a query's score with a weight ≥ 0.
type Part struct {
	Query  *Query
	Weight float64
}

// Biases are what queries of one index add to the rows' similarities: the sum of the weighted scores in float32, term
// after term. Rows that follow each other are read from the lists, and so are the blocks that the index is placed by
// (Index.Place); before the first other block all rows are summed in one pass over the postings.
type Biases struct {
	x     *Index
	terms []term

	placing sync.Once
	placed  *placed
	summing sync.Once
	sums    []float32 // of all rows
}

// term is a term of one of the queries.
type term struct {
	weighted // with the part's weight in its own
	query    *Query
	placed   []placedList
}

// Biases are the query's scores times a weight ≥ 0.
func (q *Query) Biases(weight float64) *Biases { return Sum(Part{q, weight}) }

// Sum are the biases of several queries of one index together.
func Sum(parts ...Part) *Biases {
	b := &Biases{}
	for _, p := range parts {
		b.x, b.terms = p.Query.x, slices.Grow(b.terms, len(p.Query.terms))
		for _, t := range p.Query.terms {
			t.weight *= p.Weight
			b.terms = append(b.terms, term{weighted: t, query: p.Query})
		}
	}
	return b
}

// Read implements kernels.Biases.
func (b *Biases) Read(block kernels.RowBlock, out []float32) error {
	switch {
	case len(b.terms) == 0:
	case block.Rows == nil:
		b.readRange(block.First, out)
	case b.place().has(block):
		b.readPlaced(block, out)
	default:
		sums := b.sum()
		for i := range out {
			if row := block.Row(i); row < len(sums) {
				out[i] = sums[row]
			}
		}
	}
	return nil
}

// readRange reads rows that follow each other.
func (b *Biases) readRange(first int, out []float32) {
	for i := range b.terms {
		t := &b.terms[i]
		for _, l := range t.lists {
			from, to := max(first, l.seg.first), min(first+len(out), l.seg.first+l.seg.rows())
			if from >= to {
				continue
			}
			j, _ := slices.BinarySearch(l.at, uint32(from-l.seg.first))
			for end := uint32(to - l.seg.first); j < len(l.at) && l.at[j] < end; j++ {
				row := l.seg.first + int(l.at[j])
				out[row-first] += float32(t.query.part(&t.weighted, l.tf[j], l.seg.length[l.at[j]], row))
			}
		}
	}
}

// ReadRows adds the biases of rows, ascending, to out. It takes time that goes with the rows rather than the postings.
func (b *Biases) ReadRows(rows []int, out []float32) {
	for i := range b.terms {
		t := &b.terms[i]
		for _, l := range t.lists {
			from, _ := slices.BinarySearch(rows, l.seg.first)
			c := cursor{at: l.at}
			for place, row := range rows[from:] {
				if row -= l.seg.first; row >= l.seg.rows() {
					break
				}
				if c.next = c.seek(c.next, uint32(row)); c.next == len(l.at) {
					break
				}
				if l.at[c.next] == uint32(row) {
					part := t.query.part(&t.weighted, l.tf[c.next], l.seg.length[row], l.seg.first+row)
					out[from+place] += float32(part)
				}
			}
		}
	}
}

// place finds the placed lists of the terms. It returns nil if the index has no placed lists.
func (b *Biases) place() *placed {
	b.placing.Do(func() {
		if b.placed = b.x.placed.Load(); b.placed == nil {
			return
		}
		for i := range b.terms {
			for s := range b.placed.parts {
				if l := b.placed.parts[s].list(b.terms[i].text); len(l.at) > 0 {
					b.terms[i].placed = append(b.terms[i].placed, l)
				}
			}
		}
	})
	return b.placed
}

// readPlaced reads a block that the index is placed by.
func (b *Biases) readPlaced(block kernels.RowBlock, out []float32) {
	from := uint32(block.Number * placesPerBlock)
	for i := range b.terms {
		t := &b.terms[i]
		for _, l := range t.placed {
			j := sort.Search(len(l.at), func(j int) bool { return l.at[j] >= from })
			if t.query.scoring.Kind == Cover {
				for w := float32(t.weight); j < len(l.at) && l.at[j] < from+placesPerBlock; j++ {
					out[l.at[j]-from] += w
				}
				continue
			}
			for ; j < len(l.at) && l.at[j] < from+placesPerBlock; j++ {
				row := block.Row(int(l.at[j] - from))
				out[l.at[j]-from] += float32(t.query.part(&t.weighted, l.tf[j], b.x.length(row), row))
			}
		}
	}
}

// sum makes one pass over the postings.
func (b *Biases) sum() []float32 {
	b.summing.Do(func() {
		b.sums = make([]float32, b.x.Rows())
		b.readRange(0, b.sums)
	})
	return b.sums
}

// At is a row's bias, the one that Read writes.
func (b *Biases) At(row int) float32 {
	var out [1]float32
	b.readRange(row, out[:])
	return out[0]
}

// Of are the biases for a search among some of the rows only: row i of that search is rows[i].
func (b *Biases) Of(rows []int) kernels.Biases { return subset{b, rows} }

type subset struct {
	b    *Biases
	rows []int
}

func (s subset) Read(block kernels.RowBlock, out []float32) error {
	if len(s.b.terms) == 0 {
		return nil
	}
	sums := s.b.sum()
	if block.Rows == nil {
		for i, row := range s.rows[block.First:][:len(out)] {
			if row < len(sums) {
				out[i] = sums[row]
			}
		}
		return nil
	}
	for i := range out {
		if row := s.rows[block.Row(i)]; row < len(sums) {
			out[i] = sums[row]
		}
	}
	return nil
}

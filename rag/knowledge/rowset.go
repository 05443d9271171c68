package knowledge

import (
	"context"
	"slices"
	"sync"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
)

// minNarrowed is from how many rows on a selection of an indexed store is searched by the index: fewer are copied and
// read in full as fast.
const minNarrowed = 1024

// rowset are some of a snapshot's rows, ascending and without deleted ones, with what searches of them alone go by.
type rowset struct {
	rows []int

	mu       sync.Mutex
	bits     []uint64
	of       any            // the prepared set that narrowed is of
	narrowed engine.Vectors // no rows: the set has no index
}

// has reports whether a row is one of the set.
func (r *rowset) has(row int) bool { return r.bits[row/64]>>(row%64)&1 != 0 }

// narrow has c searched for the rows of r alone: by the index of c's prepared set, if it has one.
func (r *rowset) narrow(ctx context.Context, c *retrieve.Contexts) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Rows, c.Selected = r.rows, true
	if len(r.rows) < minNarrowed {
		return nil
	}
	if r.bits == nil {
		r.bits = make([]uint64, (c.Vectors.Rows+63)/64)
		for _, row := range r.rows {
			r.bits[row/64] |= 1 << (row % 64)
		}
	}
	c.Allowed = r.has
	if c.Vectors.Set == nil {
		return nil
	}
	if r.of != c.Vectors.Set {
		some, _, err := engine.Only(ctx, c.Vectors, r.rows)
		if err != nil {
			return err
		}
		r.of, r.narrowed = c.Vectors.Set, some
	}
	if r.narrowed.Set != nil {
		c.Vectors, c.Narrowed = r.narrowed, true
	}
	return nil
}

// numbers returns the domains of the rows by number: 0 for rows of no domain, of a small one, and deleted ones. nil:
// there is no large domain.
func (p *partitions) numbers(rows int) []int32 {
	var names []string
	for name, list := range p.rows {
		if len(list) >= minNarrowed {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	numbers := make([]int32, rows)
	for i, name := range names {
		for _, row := range p.rows[name] {
			numbers[row] = int32(i + 1)
		}
	}
	return numbers
}

// mixedShare of rows that lie in a block of the index with more rows of another domain are the reason to make it anew.
const mixedShare = .25

// mixed reports whether the blocks of an index have rows of several domains of a router each.
func (s *Snapshot) mixed(ctx context.Context, r *route.Router, blocks []engine.RowBlock) (bool, error) {
	p, err := s.partitions(ctx, r)
	if err != nil {
		return false, err
	}
	numbers := p.numbers(s.View.Vectors.Rows)
	if numbers == nil {
		return false, nil
	}
	counts, mixed := make([]int, slices.Max(numbers)+1), 0
	for _, b := range blocks {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if b.Number < 0 {
			continue
		}
		clear(counts)
		live := 0
		for i := range b.Len {
			if row := b.Row(i); row < len(numbers) && !s.View.Deleted(row) {
				counts[numbers[row]]++
				live++
			}
		}
		mixed += live - slices.Max(counts)
	}
	return float64(mixed) > mixedShare*float64(len(numbers)), nil
}

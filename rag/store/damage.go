package store

import (
	"context"
	"fmt"
	"slices"
)

// Damage describes what a View leaves out.
type Damage struct {
	Blocks    []*BlockError
	Chunks    int
	Documents []string // ids of documents that chunks are left out of, the first of them
	More      int      // documents beyond these
}

// documentsNamed is how many documents a Damage names.
const documentsNamed = 5

func (d *Damage) String() string {
	names := fmt.Sprintf("%q", d.Documents)
	if d.More > 0 {
		names += fmt.Sprintf(" and %d more documents", d.More)
	}
	return fmt.Sprintf("%d chunks are left out, of %s: %v", d.Chunks, names, d.Blocks[0])
}

// leaveOut lets the rows of damaged blocks count as deleted.
func (v *View) leaveOut(ctx context.Context, q queryer, blocks []*BlockError) error {
	rows := *v.rows // the store's own list stays as it is
	rows.dead = slices.Clone(rows.dead)
	d := &Damage{Blocks: blocks}
	for _, b := range blocks {
		for row := max(b.Rows[0], v.First); row < b.Rows[1]; row++ {
			if i := int(row - v.First); !rows.isDead(i) {
				rows.kill(i)
				d.Chunks++
			}
		}
		var id string
		err := each(ctx, q, []any{&id}, func() error {
			switch {
			case slices.Contains(d.Documents, id):
			case len(d.Documents) < documentsNamed:
				d.Documents = append(d.Documents, id)
			default:
				d.More++
			}
			return nil
		}, `SELECT DISTINCT d.id FROM chunks c JOIN documents d ON d.no = c.document WHERE c.row >= ? AND c.row < ?
			ORDER BY c.row`, b.Rows[0], b.Rows[1])
		if err != nil {
			return err
		}
	}
	if d.Chunks == 0 { // all of them were deleted before
		return nil
	}
	v.rows, v.Damage = &rows, d
	if v.Count() == 0 {
		return blocks[0]
	}
	return nil
}

// withoutDamage replaces the mapping by one in memory, in which the rows of damaged blocks are zero: what stands in the
// file may be no numbers. It is made anew for each View, since it does not grow.
func (s *Store) withoutDamage(ctx context.Context, now state, damaged []*BlockError) error {
	m := s.mapped
	if m.base != nil {
		var err error
		if m, err = s.segments.readAll(ctx, now.firstRow, now.endRow); err != nil {
			return err
		}
		m.checksums, m.whole = s.mapped.checksums, s.mapped.whole
		_ = s.mapped.release() // Views that use it keep it
		s.mapped = m
	}
	m.damaged = damaged
	for _, d := range damaged {
		clear(m.rows(d.Rows[0], d.Rows[1]))
	}
	return nil
}

package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
)

// rowList is what a View knows of each row from first … end−1, live or deleted, in memory. A list that has a successor
// is not changed any more; the successor shares its slices and goes on behind their ends.
type rowList struct {
	state
	ids     []string            // of deleted rows: what they were, or ""
	digests [][sha256.Size]byte // of the texts
	groups  []int64             // number of the topic; a document without one is −its number
	dead    []uint64            // a bit per row
	deleted int                 // bits set
}

func (l *rowList) isDead(i int) bool { return l.dead[i/64]>>(i%64)&1 != 0 }

func (l *rowList) kill(i int) {
	if !l.isDead(i) {
		l.dead[i/64] |= 1 << (i % 64)
		l.deleted++
	}
}

// grow adds rows up to end, which are dead until they are set.
func (l *rowList) grow(end int64) {
	from, n := len(l.ids), int(end-l.firstRow)
	l.ids = append(l.ids, make([]string, n-from)...)
	l.digests = append(l.digests, make([][sha256.Size]byte, n-from)...)
	l.groups = append(l.groups, make([]int64, n-from)...)
	dead := make([]uint64, (n+63)/64)
	copy(dead, l.dead)
	l.dead = dead
	for i := from; i < n; i++ {
		l.kill(i)
	}
}

// readRows reads the list of a state within its transaction: all of it, or what has changed since old, which is an
// older state's or nil.
func readRows(ctx context.Context, q queryer, now state, old *rowList) (*rowList, error) {
	l := &rowList{state: now}
	if old != nil && old.firstRow == now.firstRow && old.endRow <= now.endRow && old.generation <= now.generation &&
		old.generation >= now.regrouped {
		*l = *old
		l.state = now
	} else {
		old = &rowList{state: state{firstRow: now.firstRow, endRow: now.firstRow}}
	}
	l.grow(now.endRow)
	var row, group int64
	var id string
	var digest sql.RawBytes
	err := each(ctx, q, []any{&row, &id, &digest, &group}, func() error {
		if len(digest) != sha256.Size {
			return fmt.Errorf("%w: chunk %q has a text digest of %d bytes", ErrCorrupt, id, len(digest))
		}
		i := int(row - now.firstRow)
		l.ids[i], l.groups[i] = id, group
		copy(l.digests[i][:], digest)
		l.dead[i/64] &^= 1 << (i % 64)
		l.deleted--
		return nil
	}, `SELECT row, id, digest, coalesce(topic, -document) FROM chunks WHERE row >= ? AND row < ? ORDER BY row`,
		old.endRow, now.endRow)
	if err != nil || old.endRow == old.firstRow {
		return l, err
	}
	err = each(ctx, q, []any{&row}, func() error { l.kill(int(row - now.firstRow)); return nil },
		`SELECT row FROM deleted WHERE generation > ? AND row >= ? AND row < ?`, old.generation, now.firstRow,
		old.endRow)
	return l, err
}

package store

import (
	"context"
	"database/sql"
	"fmt"
)

// CompactShare is the share of deleted rows from which Compact pays.
const CompactShare = 1.0 / 3

// compactRows are moved at once.
const compactRows = 4096

// Compact gives back the space of deleted rows if at least a share of minShare is deleted: it writes the live vectors
// once more, as new rows in new segments, has the chunks name these in one transaction, and removes the old segments.
// Views go on as they are. It returns how many rows it has given back; 0 when it did not pay. An interrupted one leaves
// the store as it was.
func (s *Store) Compact(ctx context.Context, minShare float64) (rows int64, err error) {
	if s.write == nil {
		return 0, fmt.Errorf("%w: %s: open it without ReadOnly to compact", ErrReadOnly, s.dir)
	}
	first := int64(0)
	err = s.transactAlone(ctx, "compact", func(ctx context.Context, tx *change) error {
		var deleted int64
		if err := tx.QueryRow(`SELECT count(*) FROM deleted`).Scan(&deleted); err != nil {
			return err
		}
		if all := tx.endRow - tx.firstRow; deleted == 0 || float64(deleted) < minShare*float64(all) {
			return nil
		}
		rows = deleted
		err := s.compact(ctx, tx)
		first = tx.firstRow
		return err
	})
	if err != nil || rows == 0 {
		return 0, err
	}
	s.removeOld(first)
	return rows, nil
}

// compact moves the live rows of the change's store to the beginning of the next segment.
func (s *Store) compact(ctx context.Context, tx *change) error {
	g := &s.segments
	first := (tx.next + g.rows - 1) / g.rows * g.rows
	end := tx.endRow
	tx.next, tx.end = first, first
	if _, err := tx.Exec(`PRAGMA defer_foreign_keys = ON`); err != nil { // texts and chunks move one after the other
		return err
	}
	var updates [2]*sql.Stmt
	for i, q := range [...]string{`UPDATE texts SET row = ? WHERE row = ?`, `UPDATE chunks SET row = ? WHERE row = ?`} {
		var err error
		if updates[i], err = tx.Prepare(q); err != nil {
			return err
		}
		defer updates[i].Close()
	}
	for from := tx.firstRow; from < end; {
		to := min(from+compactRows, (from/g.rows+1)*g.rows, end)
		if err := s.move(ctx, tx, updates[:], from, to); err != nil {
			return err
		}
		from = to
	}
	if err := s.step("rows"); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM deleted; DELETE FROM blocks WHERE no < ?`,
		first/s.settings.blockRows); err != nil {
		return err
	}
	tx.firstRow, tx.endRow = first, first
	return nil
}

// move writes the live ones of rows from … to−1, which are compared with their checksums, behind the change's last row.
func (s *Store) move(ctx context.Context, tx *change, updates []*sql.Stmt, from, to int64) error {
	g := &s.segments
	b, err := g.read(ctx, from, to)
	if err != nil {
		return err
	}
	size := g.rowBytes()
	err = s.checkBlocks(ctx, tx, from, to, func(first, last int64) ([]byte, error) {
		return b[(first-from)*size : (last-from)*size], nil
	})
	if err != nil {
		return err
	}
	var rows []int64
	var row int64
	err = each(ctx, tx, []any{&row}, func() error { rows = append(rows, row); return nil },
		`SELECT row FROM chunks WHERE row >= ? AND row < ? ORDER BY row`, from, to)
	if err != nil || len(rows) == 0 {
		return err
	}
	vectors := floats(b)
	dim := int64(g.head.Dim)
	for i, row := range rows { // live rows move forward within their own memory
		copy(vectors[int64(i)*dim:(int64(i)+1)*dim], vectors[(row-from)*dim:(row-from+1)*dim])
	}
	vectors = vectors[:int64(len(rows))*dim]
	at := tx.end
	tx.end += int64(len(rows))
	if err := g.write(ctx, at, vectors); err != nil {
		return err
	}
	if err := s.putBlocks(ctx, tx.Tx, at, at, bytesOf(vectors)); err != nil {
		return err
	}
	for i, row := range rows {
		for _, update := range updates {
			if _, err := update.Exec(at+int64(i), row); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// removeOld removes the segments of rows below first. What stays of them, because the process ends here, goes with the
// next Compact. Views of this and other processes keep what they have mapped.
func (s *Store) removeOld(first int64) {
	for no := first/s.segments.rows - 1; no >= 0; no-- {
		if s.segments.fs.Remove(s.segments.path(no)) != nil {
			return
		}
	}
}

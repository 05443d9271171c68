package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"path/filepath"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Check reads everything and compares: SQLite's integrity and foreign keys, every segment's header and
// size, every block's checksum, every text's digest, and that every row is live or deleted. The first fault is returned
// as ErrCorrupt.
func (s *Store) Check(ctx context.Context) error {
	for _, q := range []string{`SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		`SELECT format('%s row %s refers to a missing %s', "table", rowid, parent) FROM pragma_foreign_key_check`} {
		var fault string
		err := s.each(ctx, []any{&fault}, func() error {
			return fmt.Errorf("%w: %s: %s", ErrCorrupt, filepath.Join(s.dir, databaseName), fault)
		}, q)
		if err != nil {
			return s.wrap("check", err)
		}
	}
	return s.wrap("check", s.checkRows(ctx))
}

func (s *Store) checkRows(ctx context.Context) error {
	texts, err := s.beginRead(ctx)
	if err != nil {
		return err
	}
	defer texts.close()
	now, err := readState(ctx, texts.tx)
	if err != nil {
		return err
	}
	err = s.checkBlocks(ctx, texts.tx, now.firstRow, now.endRow, func(from, to int64) ([]byte, error) {
		return s.segments.read(ctx, from, to)
	})
	if err != nil {
		return err
	}
	next := now.firstRow
	var row int64
	var id string
	var isDead bool
	var chunk corpus.Chunk
	var digest sql.RawBytes
	return each(ctx, texts.tx, []any{&row, &id, &isDead, &digest, &chunk.Heading, &chunk.Text}, func() error {
		if row != next {
			return fmt.Errorf("%w: %s: row %d is neither live nor deleted, or both", ErrCorrupt,
				filepath.Join(s.dir, databaseName), min(row, next))
		}
		next++
		if isDead {
			return ctx.Err()
		}
		if sum := sha256.Sum256([]byte(chunk.EmbedText())); string(sum[:]) != string(digest) {
			return fmt.Errorf("%w: %s: the text of chunk %q is not the one committed", ErrCorrupt,
				filepath.Join(s.dir, databaseName), id)
		}
		return nil
	}, `SELECT row, id, 0, digest, coalesce(heading, ''), coalesce(text, '') FROM chunks LEFT JOIN texts USING (row)
		UNION ALL SELECT row, '', 1, x'', '', '' FROM deleted ORDER BY row`)
}

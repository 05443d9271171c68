package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Check reads everything and compares: SQLite's integrity and foreign keys, every segment's header and
// size, every live vector's checksum, every text's digest. The first fault is returned as ErrCorrupt.
func (s *Store) Check(ctx context.Context) error {
	for _, q := range []string{`SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'`,
		`SELECT format('%s row %s refers to a missing %s', "table", rowid, parent) FROM pragma_foreign_key_check`} {
		err := each(s.read, func(scan func(...any) error) error {
			var fault string
			if err := scan(&fault); err != nil {
				return err
			}
			return fmt.Errorf("%w: %s: %s", ErrCorrupt, filepath.Join(s.dir, databaseName), fault)
		}, q)
		if err != nil {
			return wrap(s.dir, "check", err)
		}
	}
	return wrap(s.dir, "check", s.checkRows(ctx))
}

func (s *Store) checkRows(ctx context.Context) error {
	var end int64
	if err := s.read.QueryRowContext(ctx, `SELECT end_row FROM store`).Scan(&end); err != nil {
		return err
	}
	if err := s.checkSegments(end); err != nil {
		return err
	}
	const block = 1024 // vectors read at once
	var v vectorSums
	err := each(s.read, func(scan func(...any) error) error {
		var row int64
		var crc uint32
		var id string
		var chunk corpus.Chunk
		var digest sql.RawBytes
		if err := scan(&row, &id, &crc, &digest, &chunk.Heading, &chunk.Text); err != nil {
			return err
		}
		if sum := sha256.Sum256([]byte(chunk.EmbedText())); string(sum[:]) != string(digest) {
			return fmt.Errorf("%w: %s: the text of chunk %q is not the one committed", ErrCorrupt,
				filepath.Join(s.dir, databaseName), id)
		}
		v.rows, v.ids, v.sums = append(v.rows, row), append(v.ids, id), append(v.sums, crc)
		if len(v.rows) < block {
			return nil
		}
		return v.check(ctx, &s.segments)
	}, `SELECT row, id, crc, digest, coalesce(heading, ''), coalesce(text, '') FROM chunks LEFT JOIN texts USING (row) ORDER BY row`)
	if err != nil {
		return err
	}
	return v.check(ctx, &s.segments)
}

// vectorSums are rows whose vectors are to be compared with their checksums.
type vectorSums struct {
	rows []int64
	ids  []string
	sums []uint32
}

func (v *vectorSums) check(ctx context.Context, g *segments) error {
	if len(v.rows) == 0 {
		return ctx.Err()
	}
	data, err := g.gather(ctx, v.rows, v.rows[len(v.rows)-1]+1)
	if err != nil {
		return err
	}
	size := int(g.rowBytes())
	for i, row := range v.rows {
		if crc32.Checksum(asBytes(data)[i*size:(i+1)*size], castagnoli) != v.sums[i] {
			return fmt.Errorf("%w: %s: the vector of chunk %q (row %d) is not the one committed", ErrCorrupt,
				g.path(row/g.rows), v.ids[i], row)
		}
	}
	*v = vectorSums{}
	return nil
}

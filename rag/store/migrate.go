package store

import (
	"context"
	"database/sql"
	"fmt"
	"hash/crc32"
	"strings"
)

// migrate brings a store of an older version up to this one, a transaction for each version; the writer's lock is held.
func migrate(ctx context.Context, db *sql.DB, dir string, x seams) error {
	for {
		var version int
		if err := db.QueryRow(`PRAGMA user_version`).Scan(&version); err != nil {
			return err
		}
		var err error
		switch version {
		case 1:
			err = migrate1(ctx, db, dir, x)
		case 2:
			err = migrate2(db, x)
		case 3:
			err = migrate3(db, x)
		case 4:
			err = migrate4(db, x)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// migrate4 brings version 4 up to version 5: no file's state is known, so that each one is read once more.
func migrate4(db *sql.DB, x seams) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(files + `
PRAGMA user_version = 5`); err != nil {
		return err
	}
	if err := x.step("migrate"); err != nil {
		return err
	}
	return tx.Commit()
}

// migrate3 brings version 3 up to version 4: no chunk has a label.
func migrate3(db *sql.DB, x seams) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(labels + `
PRAGMA user_version = 4`); err != nil {
		return err
	}
	if err := x.step("migrate"); err != nil {
		return err
	}
	return tx.Commit()
}

// migrate2 brings version 2 up to version 3: documents keep their ids. Where their files are is learnt when these are
// ingested again.
func migrate2(db *sql.DB, x seams) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, column := range []string{`collection INTEGER`, `path TEXT`, `line INTEGER`, `partial INTEGER`} {
		none := "0"
		if strings.HasSuffix(column, "TEXT") {
			none = "''"
		}
		if _, err := tx.Exec(`ALTER TABLE documents ADD COLUMN ` + column + ` NOT NULL DEFAULT ` + none); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(collections + `
PRAGMA user_version = 3`); err != nil {
		return err
	}
	if err := x.step("migrate"); err != nil {
		return err
	}
	return tx.Commit()
}

// migrate1 brings a store of version 1 up to version 2 in one transaction. Vectors and texts
// stay where they are. Version 1 had a checksum per vector in chunks, which each block is compared with before it gets
// its own: damage does not pass for what was committed. Its deleted rows were those that chunks did not have.
func migrate1(ctx context.Context, db *sql.DB, dir string, x seams) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	set := settings{blockRows: blockRows}
	var id []byte
	if err := tx.QueryRow(`SELECT id, encoder_digest, dim, segment_rows, end_row FROM store`).Scan(&id,
		&set.encoder.Digest, &set.encoder.Dim, &set.segmentRows, &set.endRow); err != nil {
		return err
	}
	if set.encoder.Dim < 1 || set.encoder.Dim > maxDim || set.segmentRows < 1 || set.segmentRows%1024 != 0 {
		return fmt.Errorf("%w: settings do not fit together (dimension %d, %d rows per segment)", ErrCorrupt,
			set.encoder.Dim, set.segmentRows)
	}
	copy(set.id[:], id)
	if _, err := tx.Exec(deletedAndBlocks); err != nil {
		return err
	}
	g := set.segments(dir, x.fs)
	put, err := tx.Prepare(`INSERT INTO blocks VALUES (?, ?)`)
	if err != nil {
		return err
	}
	defer put.Close()
	for from := int64(0); from < set.endRow; from += blockRows {
		to := min(from+blockRows, set.endRow)
		b, err := g.read(ctx, from, to)
		if err != nil {
			return err
		}
		if err := checkVersion1(tx, &g, b, from, to); err != nil {
			return err
		}
		if _, err := put.Exec(from/blockRows, crc32.Checksum(b, castagnoli)); err != nil {
			return err
		}
	}
	for _, q := range []string{
		fmt.Sprintf(`WITH RECURSIVE all_rows (row) AS (SELECT 0 UNION ALL SELECT row + 1 FROM all_rows WHERE row + 1 < %d)
			INSERT INTO deleted SELECT row, 0 FROM all_rows WHERE row < %[1]d AND row NOT IN (SELECT row FROM chunks)`,
			set.endRow),
		`ALTER TABLE chunks DROP COLUMN crc`,
		fmt.Sprintf(`ALTER TABLE store ADD COLUMN block_rows INTEGER NOT NULL DEFAULT %d`, blockRows),
		`ALTER TABLE store ADD COLUMN first_row INTEGER NOT NULL DEFAULT 0`,
		`ALTER TABLE store ADD COLUMN generation INTEGER NOT NULL DEFAULT 0`,
		`ALTER TABLE store ADD COLUMN regrouped INTEGER NOT NULL DEFAULT 0`,
		`PRAGMA user_version = 2`,
	} {
		if _, err := tx.Exec(q); err != nil {
			return err
		}
	}
	if err := x.step("migrate"); err != nil {
		return err
	}
	return tx.Commit()
}

// checkVersion1 compares the live vectors among rows from … to−1, whose bytes b has, with their checksums.
func checkVersion1(tx *sql.Tx, g *segments, b []byte, from, to int64) error {
	size := g.rowBytes()
	return each(tx, func(scan func(...any) error) error {
		var row int64
		var id string
		var crc uint32
		if err := scan(&row, &id, &crc); err != nil {
			return err
		}
		if crc32.Checksum(b[(row-from)*size:(row-from+1)*size], castagnoli) != crc {
			return fmt.Errorf("%w: %s: the vector of chunk %q (row %d) is not the one committed", ErrCorrupt,
				g.path(row/g.rows), id, row)
		}
		return nil
	}, `SELECT row, id, crc FROM chunks WHERE row >= ? AND row < ?`, from, to)
}

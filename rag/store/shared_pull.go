package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
)

// pullRows of vectors are written at once.
const pullRows = 4096

// sharedTables are in every replica; a store that is not shared has no kept, and latest only when it is needed.
const sharedTables = latest + `
CREATE TABLE IF NOT EXISTS kept (
	name TEXT PRIMARY KEY,              -- FOLDER/NAME of a file of a calibration or the router
	data BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS replica (   -- this table alone is not in the database
	one    INTEGER PRIMARY KEY CHECK (one = 1),
	change TEXT NOT NULL                -- id of the last one
) STRICT;`

// keptOrder is the order in which files are written: a file that names others comes last.
const keptOrder = `name LIKE '%.json', name`

// table is one that is in PostgreSQL as in SQLite.
type table struct {
	name          string
	columns, keys []string
	types         map[string]string // SQLite's: INTEGER, TEXT or BLOB
}

// list returns the columns, each formatted, with commas between them.
func list(columns []string, format string) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = strings.ReplaceAll(format, "$", c)
	}
	return strings.Join(out, ", ")
}

// learn makes the tables of a replica and reads which there are. The caller has the replica for itself.
func (r *Shared) learn() error {
	if err := r.lock.take(context.Background()); err != nil {
		return err
	}
	defer r.lock.give(false)
	if _, err := r.replica.Exec(sharedTables); err != nil {
		return wrap(r.dir, "open", err)
	}
	r.tables = nil
	var in, column, kind string
	var key int
	err := each(context.Background(), r.replica, []any{&in, &column, &kind, &key}, func() error {
		if n := len(r.tables); n == 0 || r.tables[n-1].name != in {
			r.tables = append(r.tables, table{name: in, types: map[string]string{}})
		}
		t := &r.tables[len(r.tables)-1]
		if t.columns, t.types[column] = append(t.columns, column), kind; key > 0 {
			t.keys = append(t.keys, column) // keys stand first in all tables, in their order
		}
		return nil
	}, `SELECT t.name, c.name, c.type, c.pk FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
		WHERE t.type = 'table' AND t.name <> 'replica' ORDER BY t.name, c.cid`)
	return wrap(r.dir, "open", err)
}

// readsOnly is a transaction of the database that sees one state.
var readsOnly = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// pull brings the replica to the database's generation, in one transaction of each. With mend it reads everything, into
// a replica that is in use.
func (r *Shared) pull(ctx context.Context, mend *mending) error {
	if err := r.lock.take(ctx); err != nil {
		return err
	}
	defer r.lock.give(false)
	tx, err := r.pool.BeginTx(ctx, readsOnly)
	if err != nil {
		return r.away(err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	return r.pullIn(ctx, tx, mend)
}

// pullIn is pull in a transaction of the database. The caller has the writer's lock.
func (r *Shared) pullIn(ctx context.Context, pg pgx.Tx, mend *mending) error {
	h, err := r.head(ctx, pg)
	if err != nil {
		return r.away(err)
	}
	tx, err := r.replica.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return wrap(r.dir, "follow the database", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	local, err := readState(context.WithoutCancel(ctx), tx)
	switch {
	case err != nil:
		return wrap(r.dir, "follow the database", err)
	case !h.there || local.generation > h.generation:
		return fmt.Errorf("%w: %s is of generation %d, the replica in %s of %d: delete that folder if the database "+
			"was restored from a backup", errStray, r.name, h.generation, r.dir, local.generation)
	case local.generation == h.generation && mend == nil:
		return nil
	}
	if err := r.sameHistory(ctx, pg, tx, local.generation, h.generation); err != nil {
		return err
	}
	p := &pulling{Shared: r, tx: tx, head: h, since: local.generation, mend: mend}
	if mend != nil || local.generation < h.horizon {
		p.since = -1
	}
	if err := p.run(ctx, pg); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return wrap(r.dir, "follow the database", err)
	}
	p.tidy(local)
	return nil
}

// sameHistory sees that the replica's last change is one of the database, which may have been restored from a backup
// and gone on, and makes the database's last change that of the replica.
func (r *Shared) sameHistory(ctx context.Context, pg pgx.Tx, tx *sql.Tx, local, now int64) error {
	var mine, theirs, last string
	err := tx.QueryRow(`SELECT coalesce((SELECT change FROM replica), '')`).Scan(&mine)
	if err != nil {
		return wrap(r.dir, "follow the database", err)
	}
	id := `coalesce((SELECT id FROM ` + r.table("changes") + ` WHERE generation = %s), '')`
	err = pg.QueryRow(ctx, fmt.Sprintf(`SELECT `+id+`, `+id, "$1", "$2"), local, now).Scan(&theirs, &last)
	if err != nil {
		return r.away(err)
	}
	if mine != "" && mine != theirs {
		return fmt.Errorf("%w: change %d of %s is another one than in %s", errStray, local, r.name, r.dir)
	}
	_, err = tx.Exec(`INSERT OR REPLACE INTO replica VALUES (1, ?)`, last)
	return wrap(r.dir, "follow the database", err)
}

type pulling struct {
	*Shared
	tx    *sql.Tx
	head  sharedHead
	since int64 // generation of the replica; −1: everything is read
	mend  *mending
	files []string // keys of those that have gone
}

// run asks for all that has changed in one round trip, and applies it.
func (p *pulling) run(ctx context.Context, pg pgx.Tx) error {
	b := &pgx.Batch{}
	b.Queue(`SELECT tab, key FROM `+p.table("gone")+` WHERE seq > $1`, p.since)
	for _, t := range p.tables {
		order := list(t.keys, `"$"`)
		if t.name == "kept" {
			order = keptOrder
		}
		b.Queue(`SELECT `+list(t.columns, `"$"`)+` FROM `+p.table(t.name)+` WHERE seq > $1 ORDER BY `+order, p.since)
	}
	vectors := `SELECT row, vector_send(embedding) FROM ` + p.table("vectors")
	if p.mend == nil {
		b.Queue(vectors+` WHERE seq > $1 ORDER BY row`, p.since)
	} else {
		b.Queue(vectors+` WHERE row / $1 = ANY($2::bigint[]) ORDER BY row`, p.head.settings.blockRows, p.mend.blocks)
	}
	results := pg.SendBatch(ctx, b)
	err := p.gone(results)
	for i := 0; i < len(p.tables) && err == nil; i++ {
		err = p.lines(ctx, p.tables[i], results)
	}
	if err == nil {
		err = p.vectors(ctx, results)
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return p.away(err)
}

// gone deletes the lines that have gone; all lines, if everything is read.
func (p *pulling) gone(results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	byName := map[string]table{}
	for _, t := range p.tables {
		byName[t.name] = t
		if p.since < 0 {
			if _, err := p.tx.Exec(`DELETE FROM ` + t.name); err != nil {
				return p.local(err)
			}
		}
	}
	for rows.Next() && p.since >= 0 {
		var name, key string
		if err := rows.Scan(&name, &key); err != nil {
			return err
		}
		t := byName[name]
		if _, err := p.tx.Exec(`DELETE FROM `+name+` WHERE `+t.isKey(`?1`), key); err != nil {
			return p.local(err)
		}
		if name == "kept" {
			p.files = append(p.files, key)
		}
	}
	rows.Close()
	return rows.Err()
}

// isKey is a condition of SQLite: a line has the key in a JSON list.
func (t *table) isKey(json string) string {
	parts := make([]string, len(t.keys))
	for i, k := range t.keys {
		parts[i] = fmt.Sprintf(`"%s" = json_extract(%s, '$[%d]')`, k, json, i)
	}
	return strings.Join(parts, " AND ")
}

// local marks an error of the replica.
func (p *pulling) local(err error) error { return wrap(p.dir, "follow the database", err) }

// lines writes the changed lines of a table, and the files of kept.
func (p *pulling) lines(ctx context.Context, t table, results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	put, err := p.tx.Prepare(`INSERT OR REPLACE INTO ` + t.name + ` VALUES (` + list(t.columns, "?") + `)`)
	if err != nil {
		return p.local(err)
	}
	defer put.Close()
	for rows.Next() {
		line, err := rows.Values()
		if err != nil {
			return err
		}
		if _, err := put.Exec(line...); err != nil {
			return p.local(err)
		}
		if t.name == "kept" {
			if err := p.putFile(line[0].(string), line[1].([]byte)); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// vectors writes the new rows into the segments.
func (p *pulling) vectors(ctx context.Context, results pgx.BatchResults) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	g := p.head.settings.segments(p.dir, p.x.fs)
	var first, next int64
	var data []float32
	flush := func() error {
		var err error
		if p.mend == nil {
			err = g.write(ctx, first, data)
		} else {
			err = g.patch(first, data)
		}
		first, data = next, data[:0]
		return p.local(err)
	}
	for rows.Next() {
		var row int64
		var raw []byte
		if err := rows.Scan(&row, &raw); err != nil {
			return err
		}
		if row != next || len(data) == pullRows*p.head.settings.encoder.Dim {
			if err := flush(); err != nil {
				return err
			}
			first = row
		}
		next = row + 1
		before := len(data)
		if data = appendVector(data, raw); len(data)-before != p.head.settings.encoder.Dim {
			return fmt.Errorf("%w: %s: the vector of row %d has %d dimensions, expected %d", ErrCorrupt, p.name, row,
				len(data)-before, p.head.settings.encoder.Dim)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return flush()
}

// tidy removes what the replica does not need any more; local is its state before.
func (p *pulling) tidy(local state) {
	for _, key := range p.files {
		p.removeFile(key)
	}
	if first := p.head.settings.firstRow; first > local.firstRow {
		s := Store{segments: p.head.settings.segments(p.dir, p.x.fs)}
		s.removeOld(first)
	}
}

// vectorHead is what a vector of pgvector begins with in its binary form: the dimensions, and two bytes of nothing.
const vectorHead = 4

// appendVector reads a vector in pgvector's binary form.
func appendVector(to []float32, raw []byte) []float32 {
	for at := vectorHead; at+4 <= len(raw); at += 4 {
		to = append(to, math.Float32frombits(binary.BigEndian.Uint32(raw[at:])))
	}
	return to
}

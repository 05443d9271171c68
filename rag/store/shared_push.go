package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-rag/sluice/internal/panics"
)

// pushBytes are sent in one statement at most, and pushLines.
const (
	pushBytes = 4 << 20
	pushLines = 4096
)

// turnAtDatabase is a transaction of the database that changes the store; there is one at a time. nil: the store is
// not shared.
type turnAtDatabase struct {
	*Shared
	conn *pgxpool.Conn
	pg   pgx.Tx
	id   string // of the change
}

// begin waits for the other writers of the database and brings the replica up to date. The caller has the writer's
// lock of the replica. end has to follow.
func (r *Shared) begin(ctx context.Context, write *sql.DB) (t *turnAtDatabase, err error) {
	if r == nil {
		return nil, nil
	}
	short, cancel := within(ctx, sharedPatient)
	defer cancel()
	t = &turnAtDatabase{Shared: r, id: rand.Text()}
	if t.conn, err = r.pool.Acquire(short); err != nil {
		return nil, r.away(err)
	}
	if t.pg, err = t.conn.Begin(short); err == nil {
		err = t.wait(ctx)
	}
	if err == nil {
		err = r.pullIn(ctx, t.pg, nil)
	}
	if err == nil {
		_, err = write.Exec(r.watch())
	}
	if err != nil {
		t.end()
		return nil, r.away(err)
	}
	return t, nil
}

func (t *turnAtDatabase) wait(ctx context.Context) error {
	ctx, cancel := within(ctx, sharedPatient+sharedAnswer)
	defer cancel()
	_, err := t.pg.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d; SELECT pg_advisory_xact_lock(%d)`,
		sharedPatient.Milliseconds(), t.key))
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" {
		return fmt.Errorf("%w: %s, for %s: wait for it, or end it; reading is possible meanwhile", ErrLocked, t.name,
			sharedPatient)
	}
	return err
}

// remember writes the id of the change into the replica.
func (t *turnAtDatabase) remember(tx *sql.Tx) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO replica VALUES (1, ?)`, t.id)
	return err
}

// end gives the connection back, and undoes what was not committed.
func (t *turnAtDatabase) end() {
	if t == nil {
		return
	}
	if t.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sharedAnswer)
		defer cancel()
		_ = t.pg.Rollback(ctx) // after Commit it does nothing
	}
	t.conn.Release()
}

// watch returns the statements that note the keys of all lines that the connection changes, in touched.
func (r *Shared) watch() string {
	var b strings.Builder
	b.WriteString(`CREATE TEMP TABLE IF NOT EXISTS touched (tab TEXT, k TEXT);
		CREATE INDEX IF NOT EXISTS temp.touched_keys ON touched (tab, k);
		DELETE FROM touched;`)
	for _, t := range r.tables {
		for _, on := range [...]struct{ what, lines string }{
			{"INSERT", "new"}, {"UPDATE", "old new"}, {"DELETE", "old"},
		} {
			fmt.Fprintf(&b, `CREATE TEMP TRIGGER IF NOT EXISTS %s_%s AFTER %[2]s ON main.%[1]s BEGIN `, t.name, on.what)
			for line := range strings.FieldsSeq(on.lines) {
				fmt.Fprintf(&b, `INSERT INTO touched VALUES ('%s', json_array(%s));`, t.name, list(t.keys, line+`."$"`))
			}
			b.WriteString(`END;`)
		}
	}
	return b.String()
}

// commit makes in the database the change that tx makes in the replica, with the vectors of rows first … end−1. When it
// returns without an error, the change is durable.
func (t *turnAtDatabase) commit(ctx context.Context, tx *sql.Tx, g *segments, c *change) error {
	if t == nil {
		return nil
	}
	if err := t.push(ctx, tx, c.generation, c.firstRow); err != nil {
		return t.away(err)
	}
	if err := t.pushVectors(ctx, g, c.next, c.end, c.generation); err != nil {
		return t.away(err)
	}
	if err := t.remember(tx); err != nil {
		return err
	}
	return t.settle(ctx)
}

// settle commits. If the answer gets lost, the database is asked whether it has the change.
func (t *turnAtDatabase) settle(ctx context.Context) error {
	short, cancel := within(context.WithoutCancel(ctx), sharedPatient)
	defer cancel()
	err := t.away(t.pg.Commit(short))
	if err == nil || !errors.Is(err, ErrAway) {
		return err
	}
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		has, askErr := t.has(short)
		switch {
		case askErr == nil && has:
			return nil
		case askErr == nil:
			return err
		}
		select {
		case <-short.Done():
			return fmt.Errorf("%w: %w; to repeat it does no harm", ErrUncertain, err)
		case <-time.After(pause):
		}
	}
}

// has reports whether the database has the change. It waits for the transaction whose answer was lost.
func (t *turnAtDatabase) has(ctx context.Context) (has bool, err error) {
	tx, err := t.pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, t.key); err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM `+t.table("changes")+` WHERE id = $1)`, t.id).Scan(&has)
	return has, err
}

// push sends the lines that were touched.
func (t *turnAtDatabase) push(ctx context.Context, tx *sql.Tx, generation, firstRow int64) error {
	b := &pgx.Batch{}
	send := func() error {
		err := t.pg.SendBatch(ctx, b).Close()
		b = &pgx.Batch{}
		return err
	}
	for _, in := range t.tables {
		if err := t.pushGone(ctx, tx, in, generation, b); err != nil {
			return err
		}
		l := lines{table: in, into: t.table(in.name), generation: generation}
		err := eachLine(tx, func(scan func(...any) error) error {
			if err := l.add(scan); err != nil || !l.full() {
				return err
			}
			l.queue(b)
			return send()
		}, `SELECT `+list(in.columns, `"$"`)+` FROM (SELECT DISTINCT k FROM temp.touched WHERE tab = ?) CROSS JOIN `+
			in.name+` ON `+in.isKey("k"), in.name)
		if err != nil {
			return err
		}
		l.queue(b)
	}
	b.Queue(`INSERT INTO `+t.table("changes")+` VALUES ($1, $2, now(), $3)`, generation, t.id, host())
	// Compact has renumbered all rows: an older replica reads everything anew, and needs no list of what was deleted.
	b.Queue(`UPDATE `+t.table("about")+` SET horizon = $1, compacted = $2 WHERE compacted < $2`, generation, firstRow)
	b.Queue(`DELETE FROM ` + t.table("gone") + ` WHERE seq <= (SELECT horizon FROM ` + t.table("about") + `)`)
	b.Queue(`DELETE FROM `+t.table("vectors")+` WHERE row < $1`, firstRow)
	b.Queue(`SELECT pg_notify($1, '')`, t.channel())
	return send()
}

// pushGone deletes the lines that were touched and are not there, and notes their keys.
func (t *turnAtDatabase) pushGone(
	ctx context.Context, tx *sql.Tx, in table, generation int64, b *pgx.Batch,
) error {
	var keys []json.RawMessage
	var key string
	err := each(ctx, tx, []any{&key}, func() error { keys = append(keys, json.RawMessage(key)); return nil },
		`SELECT DISTINCT k FROM temp.touched WHERE tab = ? AND NOT EXISTS (SELECT 1 FROM `+in.name+` WHERE `+
			in.isKey("k")+`)`,
		in.name)
	if err != nil || len(keys) == 0 {
		return err
	}
	all, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	parts := make([]string, len(in.keys))
	for i, k := range in.keys {
		parts[i] = fmt.Sprintf(`t."%s" = (v->>%d)::%s`, k, i, postgresTypes[in.types[k]])
	}
	b.Queue(`WITH k AS (SELECT v FROM json_array_elements($1::text::json) AS v),
			d AS (DELETE FROM `+t.table(in.name)+` AS t USING k WHERE `+strings.Join(parts, " AND ")+`)
		INSERT INTO `+t.table("gone")+` SELECT '`+in.name+`', v::text, $2 FROM k
		ON CONFLICT (tab, key) DO UPDATE SET seq = excluded.seq`, string(all), generation)
	return nil
}

// postgresTypes are PostgreSQL's names of SQLite's types.
var postgresTypes = map[string]string{"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea"}

// lines are some lines of a table, by columns.
type lines struct {
	table
	into       string
	generation int64
	columns    []any // []*int64, []*string or [][]byte
	count      int
	bytes      int
}

// add reads a line.
func (l *lines) add(scan func(...any) error) error {
	if l.columns == nil {
		for _, c := range l.table.columns {
			switch l.types[c] {
			case "INTEGER":
				l.columns = append(l.columns, &[]*int64{})
			case "TEXT":
				l.columns = append(l.columns, &[]*string{})
			default:
				l.columns = append(l.columns, &[][]byte{})
			}
		}
	}
	line := make([]any, len(l.columns))
	for i, c := range l.columns {
		switch c := c.(type) {
		case *[]*int64:
			*c = append(*c, nil)
			line[i] = &(*c)[l.count]
		case *[]*string:
			*c = append(*c, nil)
			line[i] = &(*c)[l.count]
		case *[][]byte:
			*c = append(*c, nil)
			line[i] = &(*c)[l.count]
		}
	}
	if err := scan(line...); err != nil {
		return err
	}
	for _, c := range l.columns {
		switch c := c.(type) {
		case *[]*string:
			if s := (*c)[l.count]; s != nil {
				l.bytes += len(*s)
			}
		case *[][]byte:
			l.bytes += len((*c)[l.count])
		}
	}
	l.count++
	return nil
}

func (l *lines) full() bool { return l.count == pushLines || l.bytes > pushBytes }

// queue has the lines inserted, in place of those with the same keys.
func (l *lines) queue(b *pgx.Batch) {
	if l.count == 0 {
		return
	}
	arrays := make([]string, len(l.columns))
	args := make([]any, len(l.columns), len(l.columns)+1)
	for i, c := range l.table.columns {
		arrays[i] = fmt.Sprintf("$%d::%s[]", i+1, postgresTypes[l.types[c]])
		args[i] = l.columns[i]
	}
	b.Queue(fmt.Sprintf(`INSERT INTO %s (%s, seq) SELECT u.*, $%d::bigint FROM unnest(%s) AS u
		ON CONFLICT (%s) DO UPDATE SET %s, seq = excluded.seq`, l.into, list(l.table.columns, `"$"`), len(args)+1,
		strings.Join(arrays, ", "), list(l.keys, `"$"`), list(l.table.columns, `"$" = excluded."$"`)),
		append(args, l.generation)...)
	l.columns, l.count, l.bytes = nil, 0, 0
}

// pushVectors copies rows of the segments into the database.
func (t *turnAtDatabase) pushVectors(ctx context.Context, g *segments, first, end, generation int64) error {
	if first >= end {
		return nil
	}
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := panics.Call(func() error { return writeVectors(ctx, w, g, first, end, generation) })
		w.CloseWithError(err)
		written <- err
	}()
	_, err := t.pg.Conn().PgConn().CopyFrom(ctx, r, `COPY `+t.table("vectors")+` FROM STDIN (FORMAT binary)`)
	r.Close()
	if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed // PostgreSQL has only its text
	}
	return err
}

// writeVectors writes the lines of table vectors in the binary form of COPY.
func writeVectors(ctx context.Context, w io.Writer, g *segments, first, end, generation int64) error {
	if _, err := io.WriteString(w, "PGCOPY\n\xff\r\n\x00"+strings.Repeat("\x00", 8)); err != nil {
		return err
	}
	size := g.rowBytes()
	for from := first; from < end; {
		to := min(from+pullRows, (from/g.rows+1)*g.rows, end)
		raw, err := g.read(ctx, from, to)
		if err != nil {
			return err
		}
		var b []byte
		for row := from; row < to; row++ {
			b = binary.BigEndian.AppendUint16(b, 3)
			b = binary.BigEndian.AppendUint32(b, 8)
			b = binary.BigEndian.AppendUint64(b, uint64(row))
			b = binary.BigEndian.AppendUint32(b, uint32(vectorHead+size))
			b = binary.BigEndian.AppendUint16(b, uint16(g.head.Dim))
			b = append(b, 0, 0)
			for v := raw[(row-from)*size : (row-from+1)*size]; len(v) > 0; v = v[4:] {
				b = binary.BigEndian.AppendUint32(b, binary.LittleEndian.Uint32(v))
			}
			b = binary.BigEndian.AppendUint32(b, 8)
			b = binary.BigEndian.AppendUint64(b, uint64(generation))
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		from = to
	}
	_, err := w.Write([]byte{0xff, 0xff})
	return err
}

// host names the machine in the list of changes.
func host() string {
	name, _ := os.Hostname() // "" if it has none
	return name
}

// create makes the store in the database, and the replica, unless another process is faster.
func (r *Shared) create(ctx context.Context, o Options) error {
	if _, err := r.setAside(); err != nil { // of a store that the database had once
		return err
	}
	o.Shared, o.ReadOnly, o.Groups = nil, false, nil
	s, err := open(ctx, r.dir, o, r.x)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err = r.publish(ctx, r.dir)
	return err
}

// publish makes the store in the database out of one in a folder; made is false if another process was faster.
func (r *Shared) publish(ctx context.Context, dir string) (made bool, err error) {
	p := &Shared{name: r.name, base: r.base, key: r.key, pool: r.pool, dir: dir, x: r.x}
	if p.replica, err = openWriter(dir, false); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.replica.Close()) }()
	if p.lock, err = openLock(dir, r.x.patient); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.lock.close()) }()
	if err := p.learn(); err != nil {
		return false, err
	}
	settings, _, err := readSettings(ctx, p.replica)
	if err != nil {
		return false, err
	}
	t := &turnAtDatabase{Shared: p, id: rand.Text()}
	if t.conn, err = p.pool.Acquire(ctx); err != nil {
		return false, p.away(err)
	}
	defer t.end()
	if t.pg, err = t.conn.Begin(ctx); err == nil {
		err = t.wait(ctx)
	}
	if err != nil {
		return false, p.away(err)
	}
	there := false
	err = t.pg.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, p.base+".changes").Scan(&there)
	if err != nil || there {
		return false, p.away(err)
	}
	if _, err := t.pg.Exec(ctx, p.schema(settings.encoder.Dim)); err != nil {
		return false, fmt.Errorf("make the store (the user needs the right to make a schema, and pgvector has to be "+
			"installed): %w", p.away(err))
	}
	tx, err := p.replica.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing of the store is changed but the list of files
	if _, err := tx.Exec(p.watch()); err != nil {
		return false, err
	}
	if err := p.keep(tx); err != nil {
		return false, err
	}
	for _, in := range p.tables {
		if _, err := tx.Exec(`INSERT INTO touched SELECT '` + in.name + `', json_array(` +
			list(in.keys, `"$"`) + `) FROM ` + in.name); err != nil {
			return false, err
		}
	}
	g := settings.segments(dir, p.x.fs)
	err = t.push(ctx, tx, settings.generation, settings.firstRow)
	if err == nil {
		err = t.pushVectors(ctx, &g, settings.firstRow, settings.endRow, settings.generation)
	}
	if err != nil {
		return false, p.away(err)
	}
	if err := t.remember(tx); err != nil {
		return false, err
	}
	if err := t.settle(ctx); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// inlineDim is up to how many dimensions a vector fits into a page of PostgreSQL with its row. Out of line, it would
// keep the planner from scanning in parallel.
const inlineDim = 1900

func (r *Shared) schema(dim int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `CREATE EXTENSION IF NOT EXISTS vector;
		CREATE SCHEMA IF NOT EXISTS %[1]s;
		CREATE TABLE %[2]s (format int NOT NULL, horizon bigint NOT NULL, compacted bigint NOT NULL);
		INSERT INTO %[2]s VALUES (%[3]d, -1, 0);
		CREATE TABLE %[4]s (generation bigint PRIMARY KEY, id text NOT NULL UNIQUE, at timestamptz NOT NULL,
			host text NOT NULL);
		CREATE TABLE %[5]s (tab text, key text, seq bigint NOT NULL, PRIMARY KEY (tab, key));
		CREATE TABLE %[6]s (row bigint PRIMARY KEY, embedding vector(%[7]d) NOT NULL, seq bigint NOT NULL);
		CREATE TABLE %[8]s (kind text, place bigint, id text NOT NULL UNIQUE, key text NOT NULL, line json NOT NULL,
			PRIMARY KEY (kind, place));
		CREATE INDEX ON %[8]s (key);`,
		pgx.Identifier{r.base}.Sanitize(), r.table("about"), sharedFormat, r.table("changes"), r.table("gone"),
		r.table("vectors"), dim, r.table("journal"))
	if dim <= inlineDim {
		fmt.Fprintf(&b, `ALTER TABLE %s ALTER embedding SET STORAGE PLAIN;`, r.table("vectors"))
	}
	for _, t := range r.tables {
		columns := make([]string, len(t.columns))
		for i, c := range t.columns {
			columns[i] = fmt.Sprintf(`"%s" %s`, c, postgresTypes[t.types[c]])
		}
		fmt.Fprintf(&b, `CREATE TABLE %s (%s, seq bigint NOT NULL, PRIMARY KEY (%s));`, r.table(t.name),
			strings.Join(columns, ", "), list(t.keys, `"$"`))
	}
	names := []string{"gone", "vectors"}
	for _, t := range r.tables {
		names = append(names, t.name)
	}
	for _, name := range names {
		fmt.Fprintf(&b, `CREATE INDEX ON %s (seq);`, r.table(name))
	}
	return b.String()
}

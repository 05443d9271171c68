package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// mend gives a replica what the database has: all lines, the vectors of damaged blocks, and the files.
func (s *Store) mend(ctx context.Context, blocks []int64) error {
	r := s.shared
	err := r.pull(ctx, &mending{blocks})
	if err == nil {
		err = r.putFiles(ctx, false)
	}
	select {
	case <-s.viewing: // what was mapped is to be compared again
		_ = s.mapped.release() // Views that use it keep it
		s.mapped, s.rows = nil, nil
		s.viewing <- struct{}{}
	case <-ctx.Done():
	}
	return err
}

// mending is a pull of everything into a replica in use, whose segments are right but for some blocks.
type mending struct{ blocks []int64 }

// patch writes rows that are there already, into files that others may have mapped.
func (g *segments) patch(first int64, data []float32) error {
	for dim := int64(g.head.Dim); len(data) > 0; {
		n := min(int64(len(data))/dim, g.rows-first%g.rows)
		f, err := g.fs.OpenFile(g.path(first/g.rows), os.O_RDWR)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(bytesOf(data[:n*dim]), g.offset(first%g.rows))
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		first, data = first+n, data[n*dim:]
	}
	return nil
}

const mendReplica = "'sluice docs repair' makes the replica what the database has"

// compare finds the tables in which the replica differs from the database, and rows of vectors that do.
func (s *Store) compare(ctx context.Context, found func(Finding)) error {
	pg, texts, err := s.bothAt(ctx)
	if err != nil {
		return err
	}
	defer texts.close()
	defer pg.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it only reads
	now, err := readState(ctx, texts.tx)
	for i := 0; i < len(s.shared.tables) && err == nil; i++ {
		err = s.compareLines(ctx, pg, texts, s.shared.tables[i], found)
	}
	if err == nil {
		err = s.compareVectors(ctx, pg, now, found)
	}
	return err
}

// bothAt begins to read the database and the replica in the same state.
func (s *Store) bothAt(ctx context.Context) (pg pgx.Tx, texts *reader, err error) {
	r := s.shared
	if err := r.lock.take(ctx); err != nil {
		return nil, nil, err
	}
	defer r.lock.give(false)
	if pg, err = r.pool.BeginTx(ctx, readsOnly); err != nil {
		return nil, nil, r.away(err)
	}
	if err = r.pullIn(ctx, pg, nil); err == nil {
		if texts, err = s.beginRead(ctx); err == nil {
			_, err = readState(ctx, texts.tx) // the state that the transaction sees from now on
		}
	}
	if err != nil {
		_ = pg.Rollback(context.WithoutCancel(ctx)) // the first error counts
	}
	return pg, texts, err
}

// compareLines reports the first difference between the lines of a table.
func (s *Store) compareLines(ctx context.Context, pg pgx.Tx, texts *reader, t table, found func(Finding)) error {
	keys := make([]string, len(t.keys))
	for i, k := range t.keys {
		if keys[i] = fmt.Sprintf("%q", k); t.types[k] == "TEXT" {
			keys[i] += ` COLLATE "C"`
		}
	}
	far, err := pg.Query(ctx, `SELECT `+list(t.columns, `"$"`)+` FROM `+s.shared.table(t.name)+` ORDER BY `+
		list(keys, "$"))
	if err != nil {
		return s.shared.away(err)
	}
	defer far.Close()
	differ := func(line []any) error {
		found(Finding{What: "replica", Where: t.name, Mend: mendReplica,
			Problem: fmt.Sprintf("the line %.60q is not that of %s", fmt.Sprint(line[:len(t.keys)]), s.shared.name)})
		return errDiffers
	}
	err = eachLine(texts.tx, func(scan func(...any) error) error {
		line, to := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i := range line {
			to[i] = &line[i]
		}
		if err := scan(to...); err != nil {
			return err
		}
		if !far.Next() {
			return errors.Join(s.shared.away(far.Err()), differ(line))
		}
		other, err := far.Values()
		if err == nil && !reflect.DeepEqual(line, other) {
			err = differ(line)
		}
		return errors.Join(err, ctx.Err())
	}, `SELECT `+list(t.columns, `"$"`)+` FROM `+t.name+` ORDER BY `+list(t.keys, `"$"`))
	if err == nil && far.Next() {
		if line, valuesErr := far.Values(); valuesErr == nil {
			err = differ(line)
		}
	}
	if errors.Is(err, errDiffers) {
		return ctx.Err()
	}
	return errors.Join(err, s.shared.away(far.Err()))
}

var errDiffers = errors.New("store: the replica differs")

// compareVectors reports the first row whose vector differs.
func (s *Store) compareVectors(ctx context.Context, pg pgx.Tx, now state, found func(Finding)) error {
	far, err := pg.Query(ctx, `SELECT row, vector_send(embedding) FROM `+s.shared.table("vectors")+` ORDER BY row`)
	if err != nil {
		return s.shared.away(err)
	}
	defer far.Close()
	g, dim := &s.segments, s.settings.encoder.Dim
	var here []float32
	var theirs []float32
	next := now.firstRow
	for far.Next() {
		var row int64
		var raw []byte
		if err := far.Scan(&row, &raw); err != nil {
			return s.shared.away(err)
		}
		if len(here) == 0 && next < now.endRow {
			b, err := g.read(ctx, next, min(next+pullRows, (next/g.rows+1)*g.rows, now.endRow))
			if err != nil {
				return err
			}
			here = floats(b)
		}
		theirs = appendVector(theirs[:0], raw)
		if row != next || len(here) < dim || string(bytesOf(here[:dim])) != string(bytesOf(theirs)) {
			break
		}
		here, next = here[dim:], next+1
	}
	if err := far.Err(); err != nil {
		return s.shared.away(err)
	}
	if next < now.endRow {
		found(Finding{What: "replica", Where: g.path(next / g.rows), Mend: mendReplica,
			Problem: fmt.Sprintf("the vector of row %d is not that of %s", next, s.shared.name)})
	}
	return nil
}

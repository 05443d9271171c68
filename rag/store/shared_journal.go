package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/panics"
)

const (
	journalEvery   = 200 * time.Millisecond // between two writes
	journalWaiting = 16 << 20               // bytes of lines that wait for the database at most
	journalLine    = 100                    // bytes that a line takes besides its text, about
	journalBatch   = 4 << 20                // bytes that are written in one transaction, about
	journalPage    = 4096                   // lines that are read at a time
)

// Journal is a list of lines that all processes of a shared store append to, in its database. Lines are written in the
// background: Add never waits for the database. While that is away, lines wait in memory up to a limit; beyond it they
// are dropped and counted (SharedStatus.Dropped).
type Journal struct {
	r     *Shared
	kind  string
	limit int64

	mu      sync.Mutex
	waiting []journalEntry
	bytes   int           // of waiting
	full    bool          // lines are dropped
	more    chan struct{} // holds a token when lines may wait; nil before the first one
	closed  bool

	writing sync.Mutex // while lines are written
	ctx     context.Context
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// journalEntry is a line of a journal.
type journalEntry struct {
	id   string // by which it is not written twice
	key  string // what Find looks for
	text []byte // JSON
}

func newLine(key string, text []byte) journalEntry { return journalEntry{rand.Text(), key, text} }

// Journal opens a journal of the database. Only the newest lines of a kind are kept, about limit bytes of them. The
// caller closes it before the store.
func (r *Shared) Journal(kind string, limit int64) *Journal {
	j := &Journal{r: r, kind: kind, limit: limit}
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// Add appends a line, which is in the database a moment later.
func (j *Journal) Add(key string, text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := len(text) + journalLine
	if j.closed || j.bytes+size > journalWaiting {
		if j.r.dropped.Add(1); !j.full {
			j.full = true
			j.r.log.Warn("the database has not taken what waits for it: further lines are dropped", "journal", j.kind,
				"waiting", len(j.waiting))
		}
		return
	}
	j.full = false
	j.waiting, j.bytes = append(j.waiting, newLine(key, text)), j.bytes+size
	if j.more == nil {
		j.more = make(chan struct{}, 1)
		j.ended.Go(func() {
			defer panics.Log(j.r.log, "writing a journal")
			j.run()
		})
	}
	select {
	case j.more <- struct{}{}:
	default:
	}
}

// run writes what waits, until the journal is closed.
func (j *Journal) run() {
	pause := journalEvery
	for {
		select {
		case <-j.ctx.Done():
			return
		case <-j.more:
		}
		select {
		case <-j.ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = journalEvery
		if err := j.Flush(j.ctx); errors.Is(err, ErrAway) {
			pause = retryLast
			select {
			case j.more <- struct{}{}:
			default:
			}
		}
	}
}

// Append writes a line after those that wait, and returns when it is durable.
func (j *Journal) Append(ctx context.Context, key string, text []byte) error {
	if err := j.Flush(ctx); err != nil {
		return err
	}
	ctx, cancel := within(ctx, sharedAnswer)
	defer cancel()
	return j.write(ctx, []journalEntry{newLine(key, text)})
}

// Flush writes what waits, and returns when it is durable. What the database refuses is dropped, counted and logged;
// while it is away (ErrAway), lines go on waiting.
func (j *Journal) Flush(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	for {
		batch := j.next()
		if len(batch) == 0 {
			return nil
		}
		short, cancel := within(ctx, sharedAnswer)
		err := j.write(short, batch)
		cancel()
		if errors.Is(err, ErrAway) || ctx.Err() != nil {
			return err
		}
		j.done(len(batch))
		if err != nil {
			j.r.dropped.Add(int64(len(batch)))
			j.r.log.Warn("lines are missing in the database", "journal", j.kind, "lines", len(batch), "error", err)
			return err
		}
	}
}

// next returns the first lines that wait.
func (j *Journal) next() []journalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for bytes := 0; n < len(j.waiting) && bytes < journalBatch; n++ {
		bytes += len(j.waiting[n].text)
	}
	return j.waiting[:n:n]
}

// done forgets the first lines.
func (j *Journal) done(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.waiting[:n] {
		j.bytes -= len(l.text) + journalLine
	}
	j.waiting = append([]journalEntry(nil), j.waiting[n:]...)
}

// write appends lines. A line's place is the number of bytes up to its end, since the first line that was ever written;
// one process at a time writes, so that nobody who reads on from a place misses a line.
func (j *Journal) write(ctx context.Context, batch []journalEntry) error {
	var ids, keys, lines []string
	for _, l := range batch {
		ids, keys, lines = append(ids, l.id), append(keys, l.key), append(lines, string(l.text))
	}
	table := j.r.table("journal")
	last := `(SELECT coalesce(max(place), 0) FROM ` + table + ` WHERE kind = $1)`
	return j.r.away(pgx.BeginFunc(ctx, j.r.pool, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT pg_advisory_xact_lock($1)`, -j.r.key)
		b.Queue(`INSERT INTO `+table+` (kind, place, id, key, line)
			SELECT $1, `+last+` + sum(octet_length(line)) OVER (ORDER BY n), id, key, line::json
			FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS u(id, key, line, n)
			WHERE id NOT IN (SELECT id FROM `+table+` WHERE id = ANY($2))`, j.kind, ids, keys, lines)
		b.Queue(`DELETE FROM `+table+` WHERE kind = $1 AND place <= `+last+` - $2`, j.kind, j.limit)
		return tx.SendBatch(ctx, b).Close()
	}))
}

// Read calls f with the lines after a place, 0 for all, the oldest first, and their places.
func (j *Journal) Read(ctx context.Context, after int64, f func(place int64, line []byte) error) error {
	for n := journalPage; n == journalPage; {
		short, cancel := within(ctx, sharedPatient)
		rows, err := j.r.pool.Query(short, `SELECT place, line FROM `+j.r.table("journal")+`
			WHERE kind = $1 AND place > $2 ORDER BY place LIMIT $3`, j.kind, after, journalPage)
		n = 0
		var line []byte
		if err == nil {
			_, err = pgx.ForEachRow(rows, []any{&after, &line}, func() error { n++; return f(after, line) })
		}
		cancel()
		if err != nil {
			return j.r.away(err)
		}
	}
	return nil
}

// Find returns the last line with a key, or ErrNotFound.
func (j *Journal) Find(ctx context.Context, key string) (line []byte, err error) {
	ctx, cancel := within(ctx, sharedAnswer)
	defer cancel()
	err = j.r.pool.QueryRow(ctx, `SELECT line FROM `+j.r.table("journal")+`
		WHERE kind = $1 AND key = $2 ORDER BY place DESC LIMIT 1`, j.kind, key).Scan(&line)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	return line, j.r.away(err)
}

// Close writes what waits, for which it takes a few seconds at most, and ends writing. Closing nil, or twice, is
// harmless.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.stop()
	j.ended.Wait()
	err := j.Flush(context.Background())
	if errors.Is(err, ErrAway) {
		n := len(j.waiting)
		j.done(n)
		return fmt.Errorf("%d lines of the journal of %s are lost: %w", n, j.kind, err)
	}
	return err
}

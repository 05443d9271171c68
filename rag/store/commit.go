package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// maxRows keeps row numbers within the int32 that the engine uses for them.
const maxRows = math.MaxInt32

// Commit makes a batch durable, all of it or nothing, and returns the ids of its chunks (Chunks, then
// Known; each once): they survive whatever happens from now on. After an error the store is as it was
// before, and the next Commit works. Errors: ErrInput, ErrDimension, kernels.ErrNonFinite, ErrNotFound
// (Known), ErrConflict, ErrOvertaken, ErrReadOnly, ErrUncertain, syscall.ENOSPC, the context's.
//
// Rows are written behind the last committed one and counted by the SQLite transaction. If that
// transaction fails in COMMIT itself (its fsync, say), the log may yet hold it and a power cut may
// bring it to life: its rows are therefore never used again, and become deleted ones; until a later transaction
// has said so, this Store keeps the writer's lock. A failure before that leaves the rows to the next Commit.
func (s *Store) Commit(ctx context.Context, b Batch) ([]string, error) {
	if s.write == nil {
		return nil, fmt.Errorf("%w: %s: open it without ReadOnly to commit", ErrReadOnly, s.dir)
	}
	if err := checkBatch(b, s.settings.encoder.Dim); err != nil {
		return nil, fmt.Errorf("store %s: %w", s.dir, err)
	}
	digests := make([][sha256.Size]byte, len(b.Chunks))
	for i := range b.Chunks {
		digests[i] = sha256.Sum256([]byte(b.Chunks[i].EmbedText()))
	}
	var c *commit
	err := s.join(&member{ctx: ctx, doing: "commit", chunks: len(b.Chunks),
		fn: func(ctx context.Context, tx *change) error {
			c = newCommit(s, b, digests)
			return c.run(ctx, tx)
		}})
	if err != nil {
		return nil, err
	}
	return c.ids, nil
}

func newCommit(s *Store, b Batch, digests [][sha256.Size]byte) *commit {
	c := &commit{store: s, batch: b, digests: digests, documents: map[string]int64{}, topics: map[string]any{"": nil},
		takes: map[string]bool{}}
	for _, id := range b.Take {
		c.takes[id] = true
	}
	return c
}

// change is a transaction that writes.
type change struct {
	*sql.Tx
	state                 // as it began, but for the generation, which is the one that it makes
	next, end int64       // rows that it writes
	regroups  bool        // a chunk that stays gets another document or topic
	unseen    bool        // nothing that readers see changes; the transaction is shared with nobody
	vectors   [][]float32 // of rows next … end−1 that are still to be written
}

// transaction runs fn in a transaction. The caller has the writer's lock.
func (s *Store) transaction(ctx context.Context, fn func(context.Context, *change) error) (err error) {
	if err := errors.Join(ctx.Err(), s.step("begin")); err != nil {
		return err
	}
	turn, err := s.shared.begin(ctx, s.write)
	if err != nil {
		return err
	}
	defer turn.end()
	// Without the context's cancellation: fn and its loops ask it, and no statement is long.
	tx, err := s.write.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	c := &change{Tx: tx}
	if c.state, err = readState(context.WithoutCancel(ctx), tx); err == nil {
		c.generation++
		c.next = max(c.endRow, s.burnt)
		c.end = c.next
		if err = fn(ctx, c); err == nil {
			err = s.writeVectors(ctx, c)
		}
		if err == nil {
			err = c.finish()
		}
	}
	if err == nil {
		err = errors.Join(ctx.Err(), s.step("commit"))
	}
	if err == nil && !c.unseen {
		err = turn.commit(ctx, tx, &s.segments, c)
	}
	if err != nil {
		_ = tx.Rollback()
		s.segments.trim(c.next, c.end)
		return err
	}
	if err := tx.Commit(); err != nil {
		s.burnt = max(s.burnt, c.end) // see Commit
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	s.burnt = 0
	return nil
}

// writeVectors writes the vectors of all who share the transaction, with one sync, and the checksums of their blocks.
func (s *Store) writeVectors(ctx context.Context, c *change) error {
	if len(c.vectors) == 0 {
		return nil
	}
	all := c.vectors[0]
	if len(c.vectors) > 1 {
		all = slices.Concat(c.vectors...)
	}
	if err := s.segments.pad(c.endRow, c.next); err != nil {
		return err
	}
	if err := s.segments.write(ctx, c.next, all); err != nil {
		return err
	}
	if err := s.step("rows"); err != nil {
		return err
	}
	return s.putBlocks(ctx, c.Tx, c.endRow, c.next, bytesOf(all))
}

// finish writes the state that the change leaves. Rows that were skipped are deleted ones.
func (c *change) finish() error {
	if c.unseen {
		return nil
	}
	if c.next > c.endRow && c.end > c.next {
		if _, err := c.Exec(`WITH RECURSIVE skipped (row) AS (SELECT ?1 UNION ALL SELECT row + 1 FROM skipped WHERE row + 1 < ?2)
			INSERT INTO deleted SELECT row, ?3 FROM skipped`, c.endRow, c.next, c.generation); err != nil {
			return err
		}
	}
	end, regrouped := c.endRow, c.regrouped
	if c.end > c.next {
		end = c.end
	}
	if c.regroups {
		regrouped = c.generation
	}
	_, err := c.Exec(`UPDATE store SET first_row = ?, end_row = ?, generation = ?, regrouped = ?`, c.firstRow, end,
		c.generation, regrouped)
	return err
}

type commit struct {
	store     *Store
	batch     Batch
	digests   [][sha256.Size]byte // of the chunks' EmbedText
	ids       []string            // distinct, in order
	held      map[string]held     // what the store has of ids
	fresh     []int               // chunks that get a row and whose vector is written
	first     int64               // row of the first of these
	documents map[string]int64    // id → number
	topics    map[string]any      // name → number; "" → NULL

	collections []Collection
	takes       map[string]bool // ids of Batch.Take
}

func (c *commit) run(ctx context.Context, tx *change) error {
	s := c.store
	if err := c.inTurn(tx); err != nil {
		return err
	}
	if err := c.plan(tx); err != nil {
		return err
	}
	if n := tx.end + int64(len(c.fresh)) - tx.firstRow; n > maxRows {
		return fmt.Errorf("%w: %d rows are the limit of a store, this makes %d: 'sluice compact', or ingest into "+
			"another folder", ErrInput, maxRows, n)
	}
	c.first = tx.end
	if len(c.fresh) > 0 {
		tx.end += int64(len(c.fresh))
		tx.vectors = append(tx.vectors, c.vectors())
	}
	var err error
	if c.collections, err = s.collections(ctx, tx); err != nil {
		return err
	}
	retitled, err := c.retitled(ctx, tx)
	if err != nil {
		return err
	}
	if err := c.putDocuments(ctx, tx.Tx); err != nil {
		return err
	}
	if err := c.deleteStale(ctx, tx); err != nil {
		return err
	}
	if err := c.putChunks(ctx, tx); err != nil {
		return err
	}
	if err := c.updatePlaces(ctx, tx); err != nil {
		return err
	}
	if err := c.putLabels(ctx, tx); err != nil {
		return err
	}
	if err := c.renewRetitled(ctx, tx, retitled); err != nil {
		return err
	}
	return putFiles(ctx, tx, c.batch.Files)
}

// plan finds out which chunks are new or changed. Of duplicates the first one counts (checkBatch has
// seen that their texts are equal).
func (c *commit) plan(tx *change) (err error) {
	seen := make(map[string]bool, len(c.batch.Chunks)+len(c.batch.Known))
	distinct := func(id string) bool {
		if seen[id] {
			return false
		}
		seen[id] = true
		c.ids = append(c.ids, id)
		return true
	}
	first := make([]int, 0, len(c.batch.Chunks))
	for i := range c.batch.Chunks {
		if distinct(c.batch.Chunks[i].ID) {
			first = append(first, i)
		}
	}
	for i := range c.batch.Known {
		distinct(c.batch.Known[i].ID)
	}
	if c.held, err = lookup(context.Background(), tx, c.ids); err != nil {
		return err
	}
	for _, i := range first {
		if h, ok := c.held[c.batch.Chunks[i].ID]; !ok || h.damaged || h.digest != c.digests[i] {
			c.fresh = append(c.fresh, i)
		}
	}
	for i := range c.batch.Known {
		k := &c.batch.Known[i]
		if h, ok := c.held[k.ID]; !ok || h.damaged || h.digest != sha256.Sum256([]byte(k.EmbedText())) {
			return fmt.Errorf("%w: chunk %q is given as known, but the store does not hold it with this text: commit "+
				"it with its vector", ErrNotFound, k.ID)
		}
	}
	return nil
}

// vectors returns the vectors of the fresh chunks in order. It returns the batch's own slice if all chunks are fresh.
func (c *commit) vectors() []float32 {
	if len(c.fresh) == len(c.batch.Chunks) {
		return c.batch.Vectors
	}
	dim := c.store.settings.encoder.Dim
	v := make([]float32, 0, len(c.fresh)*dim)
	for _, i := range c.fresh {
		v = append(v, c.batch.Vectors[i*dim:(i+1)*dim]...)
	}
	return v
}

func (c *commit) putDocuments(ctx context.Context, tx *sql.Tx) error {
	put, err := tx.Prepare(`INSERT INTO documents
			(id, source, title, topic, digest, meta, added, collection, path, line, partial)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET source = excluded.source, title = excluded.title, topic = excluded.topic,
			meta = excluded.meta, partial = excluded.partial,
			added = iif(digest = excluded.digest, added, excluded.added), digest = excluded.digest,
			(collection, path, line) = (iif(excluded.path = '', collection, excluded.collection),
				iif(excluded.path = '', path, excluded.path), iif(excluded.path = '', line, excluded.line))
		RETURNING no`)
	if err != nil {
		return err
	}
	defer put.Close()
	now := time.Now().UTC().Format(time.RFC3339)
	for _, d := range c.batch.Documents {
		if err := ctx.Err(); err != nil {
			return err
		}
		meta, err := json.Marshal(d.Meta)
		if err != nil {
			return err
		}
		if err := c.checkPlace(tx, d); err != nil {
			return err
		}
		var no int64
		at, added := placeOf(c.collections, d), now
		if then, known := c.batch.added[d.ID]; known {
			added = then
		}
		if err := put.QueryRow(d.ID, d.Source, d.Title, d.Topic, d.Digest, string(meta), added, at.collection, at.path,
			at.line, c.batch.Partial).Scan(&no); err != nil {
			return err
		}
		c.documents[d.ID] = no
	}
	return nil
}

// deleteStale deletes the rows that the fresh chunks replace, and with Replace the chunks that their documents do not
// list.
func (c *commit) deleteStale(ctx context.Context, tx *change) error {
	var rows []int64
	for _, i := range c.fresh {
		if h, ok := c.held[c.batch.Chunks[i].ID]; ok {
			rows = append(rows, h.row)
		}
	}
	if c.batch.Replace {
		listed := make(map[string]bool, len(c.ids))
		for _, id := range c.ids {
			listed[id] = true
		}
		for _, d := range c.batch.Documents {
			var row int64
			var id string
			err := each(ctx, tx, []any{&row, &id}, func() error {
				if !listed[id] {
					rows = append(rows, row)
				}
				return nil
			}, `SELECT row, id FROM chunks WHERE document = ?`, c.documents[d.ID])
			if err != nil {
				return err
			}
		}
	}
	return tx.deleteRows(ctx, rows)
}

func (c *commit) putChunks(ctx context.Context, tx *change) error {
	chunk, err := tx.Prepare(`INSERT INTO chunks (row, id, digest, document, topic, tokens) VALUES (?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer chunk.Close()
	text, err := tx.Prepare(`INSERT INTO texts (row, source, heading, anchor, start_byte, end_byte, text) VALUES (?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	defer text.Close()
	for n, i := range c.fresh {
		k := &c.batch.Chunks[i]
		document, topic, err := c.numbers(ctx, tx.Tx, k)
		if err != nil {
			return err
		}
		row := c.first + int64(n)
		if _, err := chunk.Exec(row, k.ID, c.digests[i][:], document, topic, k.Tokens); err != nil {
			return err
		}
		if _, err := text.Exec(row, k.Source, k.Heading, k.Anchor, k.Start, k.End, k.Text); err != nil {
			return err
		}
	}
	return nil
}

// updatePlaces brings the places of unchanged chunks up to date: an edit further up in a file moves
// the byte range of every chunk below it. Lines that are right already are not written.
func (c *commit) updatePlaces(ctx context.Context, tx *change) error {
	fresh := make(map[string]bool, len(c.fresh))
	for _, i := range c.fresh {
		fresh[c.batch.Chunks[i].ID] = true
	}
	for _, list := range [][]corpus.Chunk{c.batch.Chunks, c.batch.Known} {
		for i := range list {
			k := &list[i]
			if fresh[k.ID] {
				continue
			}
			document, topic, err := c.numbers(ctx, tx.Tx, k)
			if err != nil {
				return err
			}
			row := c.held[k.ID].row
			r, err := tx.Exec(`UPDATE chunks SET (document, topic, tokens) = (?1, ?2, ?3)
				WHERE row = ?4 AND (document, topic, tokens) IS NOT (?1, ?2, ?3)`, document, topic, k.Tokens, row)
			if err != nil {
				return err
			}
			if n, _ := r.RowsAffected(); n > 0 {
				tx.regroups = true
			}
			_, err = tx.Exec(`UPDATE texts SET (source, heading, anchor, start_byte, end_byte) = (?1, ?2, ?3, ?4, ?5)
				WHERE row = ?6 AND (source, heading, anchor, start_byte, end_byte) IS NOT (?1, ?2, ?3, ?4, ?5)`,
				k.Source, k.Heading, k.Anchor, k.Start, k.End, row)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers gives the numbers of a chunk's document and topic (nil without one); a topic's first chunk
// makes it.
func (c *commit) numbers(ctx context.Context, tx *sql.Tx, k *corpus.Chunk) (document int64, topic any, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	document, ok := c.documents[k.Document]
	if !ok {
		err := tx.QueryRow(`SELECT no FROM documents WHERE id = ?`, k.Document).Scan(&document)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil,
				fmt.Errorf("%w: chunk %q belongs to document %q, which is neither in the batch nor in the store",
					ErrInput, k.ID, k.Document)
		}
		if err != nil {
			return 0, nil, err
		}
		c.documents[k.Document] = document
	}
	topic, ok = c.topics[k.Topic]
	if ok {
		return document, topic, nil
	}
	var no int64
	err = tx.QueryRow(`INSERT INTO topics (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = name RETURNING no`,
		k.Topic).Scan(&no)
	c.topics[k.Topic] = no
	return document, no, err
}

// DeleteDocuments deletes documents with their chunks and returns how many chunks that were. An id
// that is not there is ErrNotFound, and nothing is deleted.
func (s *Store) DeleteDocuments(ctx context.Context, ids []string) (chunks int, err error) {
	if s.write == nil {
		return 0, fmt.Errorf("%w: %s: open it without ReadOnly to delete", ErrReadOnly, s.dir)
	}
	err = s.transact(ctx, "delete documents", func(ctx context.Context, tx *change) error {
		chunks = 0
		gone := make(map[string]bool, len(ids))
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				return err
			}
			if gone[id] {
				continue
			}
			gone[id] = true
			n, err := tx.deleteWhere(`document = (SELECT no FROM documents WHERE id = ?1)`, id)
			if err != nil {
				return err
			}
			chunks += int(n)
			r, err := tx.Exec(`DELETE FROM documents WHERE id = ?`, id)
			if err != nil {
				return err
			}
			if n, _ := r.RowsAffected(); n == 0 {
				return fmt.Errorf("%w: document %q", ErrNotFound, id)
			}
		}
		if !s.awaitsUploads() {
			return nil
		}
		return putLatest(tx, ids, tx.generation, deletedPlace)
	})
	if err != nil {
		return 0, err
	}
	return chunks, nil
}

// SetMeta stores value under key, durably.
func (s *Store) SetMeta(ctx context.Context, key string, value []byte) error {
	if s.write == nil {
		return fmt.Errorf("%w: %s: open it without ReadOnly to set %q", ErrReadOnly, s.dir, key)
	}
	if err := checkText("key", key, false); err != nil {
		return err
	}
	return s.transact(ctx, "set "+key, func(_ context.Context, tx *change) error {
		_, err := tx.Exec(`INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value`, key,
			append([]byte{}, value...))
		return err
	})
}

package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// Titles returns the titles of documents by their ids; those that have none, or are not in the store, are left out.
func (s *Store) Titles(ctx context.Context, ids []string) (map[string]string, error) {
	titles := make(map[string]string, len(ids))
	var id, title string
	err := s.each(ctx, []any{&id, &title}, func() error {
		titles[id] = title
		return nil
	}, `SELECT id, title FROM documents WHERE title <> '' AND id IN (SELECT value FROM json_each(?))`, jsonList(ids))
	if err != nil {
		return nil, s.wrap("read titles", err)
	}
	return titles, nil
}

// MetaWords returns the words of documents' metadata (corpus.Meta.Words) by their ids, without those that have none.
func (s *Store) MetaWords(ctx context.Context, ids []string) (map[string]string, error) {
	texts := map[string]string{}
	var id, raw string
	err := s.each(ctx, []any{&id, &raw}, func() error {
		words, err := wordsOfMeta(raw)
		if words != "" {
			texts[id] = words
		}
		return cmp.Or(err, ctx.Err())
	}, `SELECT id, meta FROM documents WHERE id IN (SELECT value FROM json_each(?))`, jsonList(ids))
	if err != nil {
		return nil, s.wrap("read metadata", err)
	}
	return texts, nil
}

// wordsOfMeta returns the words of metadata as it is stored.
func wordsOfMeta(raw string) (string, error) {
	if raw == "{}" || raw == "null" { // most documents have none
		return "", nil
	}
	var m corpus.Meta
	err := json.Unmarshal([]byte(raw), &m)
	return m.Words(), err
}

// Select lists the rows of the live chunks, ascending, whose documents are accepted, as they were when the view was
// taken. Of a document, accepts gets what Store.Documents returns, without Chunks and Tokens. ErrClosed after Close.
func (v *View) Select(ctx context.Context, accepts func(DocumentInfo) bool) (rows []int, err error) {
	r := v.texts
	done, err := r.take(ctx, "select chunks")
	if err != nil {
		return nil, err
	}
	defer done()
	collections, err := r.store.collections(ctx, r.tx)
	if err != nil {
		return nil, wrap(r.store.dir, "select chunks", err)
	}
	accepted := map[int64]bool{}
	var l documentLine
	var no int64
	err = each(ctx, r.tx, l.targets(&no), func() error {
		d, err := l.document(collections)
		if err == nil && accepts(d) {
			accepted[no] = true
		}
		return err
	}, `SELECT `+documentColumns+`, d.no FROM documents AS d`)
	if err == nil && len(accepted) > 0 {
		var row, document int64
		err = each(ctx, r.tx, []any{&row, &document}, func() error {
			if i, ok := v.index(row); accepted[document] && ok && !v.Deleted(i) {
				rows = append(rows, i)
			}
			return nil
		}, `SELECT row, document FROM chunks WHERE row >= ? ORDER BY row`, v.First)
	}
	return rows, wrap(r.store.dir, "select chunks", err)
}

// Siblings returns the chunks of the same document, in the order of the text, that stand at most before and after
// places from a chunk, with the chunk itself, as they were when the view was taken. ErrNotFound if the view lacks it.
func (v *View) Siblings(ctx context.Context, id string, before, after int) ([]corpus.Chunk, error) {
	r := v.texts
	done, err := r.take(ctx, "read chunks")
	if err != nil {
		return nil, err
	}
	defer done()
	var ids []string
	place := -1
	var other string
	err = each(ctx, r.tx, []any{&other}, func() error {
		if other == id {
			place = len(ids)
		}
		ids = append(ids, other)
		return nil
	}, `SELECT c.id FROM chunks AS c JOIN texts AS t USING (row)
		WHERE c.document = (SELECT document FROM chunks WHERE id = ?) ORDER BY t.start_byte, c.row`, id)
	if err == nil && place < 0 {
		err = fmt.Errorf("%w: chunk %q", ErrNotFound, id)
	}
	if err != nil {
		return nil, wrap(r.store.dir, "read chunks", err)
	}
	chunks, err := readChunks(ctx, r.tx, ids[place-min(before, place):place+1+min(after, len(ids)-place-1)])
	return chunks, wrap(r.store.dir, "read chunks", err)
}

// retitled lists the documents of the batch that the store has with another title or source, or
// with other words in its metadata. It must run before
// putDocuments.
func (c *commit) retitled(ctx context.Context, tx *change) (ids []string, err error) {
	all, given := make([]string, len(c.batch.Documents)), make(map[string][3]string, len(c.batch.Documents))
	for i, d := range c.batch.Documents {
		all[i], given[d.ID] = d.ID, [3]string{d.Title, d.Source, d.Meta.Words()}
	}
	var id, title, source, meta string
	err = each(ctx, tx, []any{&id, &title, &source, &meta}, func() error {
		words, err := wordsOfMeta(meta)
		if given[id] != [3]string{title, source, words} {
			ids = append(ids, id)
		}
		return cmp.Or(err, ctx.Err())
	}, `SELECT d.id, d.title, d.source, d.meta FROM json_each(?) AS j CROSS JOIN documents AS d ON d.id = j.value`, jsonList(all))
	return ids, err
}

// renewRetitled gives the chunks that stay, of documents that are retitled, new rows with the vectors that
// they have: an index of rows that has read the old title reads the new rows.
func (c *commit) renewRetitled(ctx context.Context, tx *change, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	var rows []int64
	var row int64
	err := each(ctx, tx, []any{&row}, func() error {
		rows = append(rows, row)
		return nil
	}, `SELECT c.row FROM json_each(?) AS j CROSS JOIN documents AS d ON d.id = j.value
		CROSS JOIN chunks AS c ON c.document = d.no WHERE c.row < ? ORDER BY c.row`, jsonList(ids), tx.next)
	if err != nil || len(rows) == 0 {
		return err
	}
	if n := tx.end + int64(len(rows)) - tx.firstRow; n > maxRows {
		return fmt.Errorf("%w: %d rows are the limit of a store, this makes %d: 'sluice compact'", ErrInput, maxRows, n)
	}
	vectors, err := c.store.RowVectors(ctx, rows)
	var damaged *BlockError
	if errors.As(err, &damaged) { // Repair renews these rows
		return nil
	}
	if err != nil {
		return err
	}
	first := tx.end
	tx.end += int64(len(rows))
	tx.vectors = append(tx.vectors, vectors.Data)
	return tx.moveRows(rows, first)
}

// deleteRows deletes chunks; their texts go with them. A row may be named twice.
func (c *change) deleteRows(ctx context.Context, rows []int64) error {
	if len(rows) == 0 {
		return ctx.Err()
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = c.deleteWhere(`row IN (SELECT value FROM json_each(?1))`, string(list))
	return err
}

// deleteWhere deletes the chunks of a condition on ?1 and remembers their rows; n counts them.
func (c *change) deleteWhere(condition string, arg any) (n int64, err error) {
	if _, err := c.Exec(`INSERT INTO deleted SELECT row, ?2 FROM chunks WHERE `+condition, arg,
		c.generation); err != nil {
		return 0, err
	}
	r, err := c.Exec(`DELETE FROM chunks WHERE `+condition, arg)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// moveRows gives the chunks of rows the rows from first on.
func (c *change) moveRows(rows []int64, first int64) error {
	if _, err := c.Exec(`PRAGMA defer_foreign_keys = ON`); err != nil { // texts and chunks move one after the other
		return err
	}
	for i, row := range rows {
		for _, q := range []string{`UPDATE texts SET row = ?1 WHERE row = ?2`,
			`UPDATE chunks SET row = ?1 WHERE row = ?2`,
			`INSERT INTO deleted VALUES (?2, ?3)`} {
			if _, err := c.Exec(q, first+int64(i), row, c.generation); err != nil {
				return err
			}
		}
	}
	return nil
}

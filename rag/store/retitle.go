package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

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

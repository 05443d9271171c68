package store

import (
	"cmp"
	"context"
	"encoding/json"
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

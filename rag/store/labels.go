package store

import (
	"cmp"
	"context"

	"github.com/sluice-rag/sluice/rag/corpus"
)

func (c *commit) putLabels(ctx context.Context, tx *change) error {
	if len(c.batch.Labels) == 0 {
		return nil
	}
	rows := make(map[string]int64, len(c.ids))
	for id, h := range c.held {
		rows[id] = h.row
	}
	for n, i := range c.fresh {
		rows[c.batch.Chunks[i].ID] = c.first + int64(n)
	}
	drop, err := tx.Prepare(`DELETE FROM labels WHERE row = ?`)
	if err != nil {
		return err
	}
	defer drop.Close()
	put, err := tx.Prepare(`INSERT INTO labels VALUES (?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return err
	}
	defer put.Close()
	for _, list := range [][]corpus.Chunk{c.batch.Chunks, c.batch.Known} {
		for i := range list {
			labels, ok := c.batch.Labels[list[i].ID]
			if !ok {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			row := rows[list[i].ID]
			if _, err := drop.Exec(row); err != nil {
				return err
			}
			for _, l := range labels {
				if _, err := put.Exec(row, l.Kind, l.Value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Labels returns the labels of those of the chunks that have some, by kind and value.
func (s *Store) Labels(ctx context.Context, ids []string) (map[string][]Label, error) {
	labels := map[string][]Label{}
	var id string
	var l Label
	err := s.each(ctx, []any{&id, &l.Kind, &l.Value}, func() error {
		labels[id] = append(labels[id], l)
		return nil
	}, `SELECT c.id, l.kind, l.value FROM json_each(?) AS j CROSS JOIN chunks AS c ON c.id = j.value
		JOIN labels AS l ON l.row = c.row ORDER BY j.key, l.kind, l.value`, jsonList(ids))
	if err != nil {
		return nil, s.wrap("read labels", err)
	}
	return labels, nil
}

// LabelCount is how many chunks have a label.
type LabelCount struct {
	Label
	Chunks int `json:"chunks"`
}

// LabelCounts lists the labels of live chunks, the ones that many chunks have first; of one kind unless kind is "", and
// at most limit of them unless that is 0.
func (s *Store) LabelCounts(ctx context.Context, kind string, limit int) (list []LabelCount, err error) {
	limit = cmp.Or(limit, -1)
	var l LabelCount
	err = s.each(ctx, []any{&l.Kind, &l.Value, &l.Chunks}, func() error {
		list = append(list, l)
		return nil
	}, `SELECT kind, value, count(*) AS n FROM labels WHERE ?1 = '' OR kind = ?1
		GROUP BY kind, value ORDER BY n DESC, kind, value LIMIT ?2`, kind, limit)
	return list, s.wrap("count labels", err)
}

// Labels returns the labels of the view's live rows of some kinds, by row.
func (v *View) Labels(ctx context.Context, kinds []string) (map[int][]Label, error) {
	labels := map[int][]Label{}
	var row int64
	var l Label
	err := v.texts.each(ctx, "read labels", []any{&row, &l.Kind, &l.Value}, func() error {
		if i, ok := v.index(row); ok && !v.Deleted(i) {
			labels[i] = append(labels[i], l)
		}
		return nil
	}, `SELECT row, kind, value FROM labels WHERE kind IN (SELECT value FROM json_each(?)) ORDER BY row, kind, value`,
		jsonList(kinds))
	return labels, err
}

// DocumentMeta returns the value of a key in the metadata of those of the documents that have it.
func (v *View) DocumentMeta(ctx context.Context, ids []string, key string) (map[string]string, error) {
	values := map[string]string{}
	var id, value string
	err := v.texts.each(ctx, "read documents", []any{&id, &value}, func() error {
		values[id] = value
		return nil
	}, `SELECT d.id, m.value FROM json_each(?1) AS j CROSS JOIN documents AS d ON d.id = j.value
		JOIN json_each(d.meta) AS m ON m.key = ?2 AND m.type = 'text'`, jsonList(ids), key)
	return values, err
}

// ChunksByMeta counts the live chunks by the value of a key in their documents' metadata; those without it are not
// counted.
func (v *View) ChunksByMeta(ctx context.Context, key string) (map[string]int, error) {
	counts := map[string]int{}
	var value string
	var n int
	err := v.texts.each(ctx, "read documents", []any{&value, &n}, func() error {
		counts[value] = n
		return nil
	}, `SELECT m.value, sum(c.n) FROM (SELECT document, count(*) AS n FROM chunks GROUP BY document) AS c
		JOIN documents AS d ON d.no = c.document JOIN json_each(d.meta) AS m ON m.key = ?1 AND m.type = 'text'
		GROUP BY m.value`, key)
	return counts, err
}

// Topics returns the topic of each row's chunk, "" for deleted rows and for chunks without one, as they were when the
// view was taken. ErrClosed after Close.
func (v *View) Topics(ctx context.Context) ([]string, error) {
	names := map[int64]string{}
	var no int64
	var name string
	err := v.texts.each(ctx, "read topics", []any{&no, &name}, func() error { names[no] = name; return nil },
		`SELECT no, name FROM topics`)
	if err != nil {
		return nil, err
	}
	topics := make([]string, len(v.IDs))
	for i := range topics {
		if !v.Deleted(i) {
			topics[i] = names[v.rows.groups[i]] // documents have negative numbers
		}
	}
	return topics, nil
}

package store

import "context"

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

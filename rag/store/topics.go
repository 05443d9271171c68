package store

import "context"

// Topics returns the topic of each row's chunk, "" for deleted rows and for chunks without one, as they were when the
// view was taken. ErrClosed after Close.
func (v *View) Topics(ctx context.Context) ([]string, error) {
	names := map[int64]string{}
	err := v.texts.each(ctx, "read topics", func(scan func(...any) error) error {
		var no int64
		var name string
		err := scan(&no, &name)
		names[no] = name
		return err
	}, `SELECT no, name FROM topics`)
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

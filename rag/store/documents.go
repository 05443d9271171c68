package store

import (
	"context"
)

// Titles returns the titles of documents by their ids; those that have none, or are not in the store, are left out.
func (s *Store) Titles(ctx context.Context, ids []string) (map[string]string, error) {
	titles := make(map[string]string, len(ids))
	err := s.each(ctx, func(scan func(...any) error) error {
		var id, title string
		if err := scan(&id, &title); err != nil {
			return err
		}
		titles[id] = title
		return ctx.Err()
	}, `SELECT id, title FROM documents WHERE title <> '' AND id IN (SELECT value FROM json_each(?))`, jsonList(ids))
	if err != nil {
		return nil, s.wrap("read titles", err)
	}
	return titles, nil
}

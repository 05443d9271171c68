package store

import (
	"context"
	"encoding/json"
)

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

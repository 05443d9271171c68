package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// UploadsFolder is the folder of a store in which a server keeps what was handed in to it until it is ingested.
const UploadsFolder = "uploads"

// Moment is when something was handed in that is ingested later, as the changes of a store are ordered: behind the
// change that made Generation, and as the Place-th of those that were handed in then.
type Moment struct {
	Generation int64 `json:"generation"`
	Place      int64 `json:"place"`
}

// ErrOvertaken is wrapped by an OvertakenError.
var ErrOvertaken = errors.New("store: deleted or replaced later than this was handed in")

// OvertakenError names documents of a batch that were deleted, or replaced by what was handed in later.
type OvertakenError struct{ IDs []string }

func (e *OvertakenError) Error() string { return fmt.Sprintf("%v: documents %q", ErrOvertaken, e.IDs) }

func (e *OvertakenError) Unwrap() error { return ErrOvertaken }

// latest is the table of the last changes of documents that something could undo which was handed in earlier. It is
// made with its first line, emptied by ForgetOrder, and not part of an archive.
const latest = `
CREATE TABLE IF NOT EXISTS latest (
	document   TEXT PRIMARY KEY,         -- its id
	generation INTEGER NOT NULL,         -- a Moment; of a deletion, the generation that it has made, and a place of -1
	place      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;`

// deletedPlace is the place of a deletion: before what was handed in when it had been made.
const deletedPlace = -1

// overtaken lists the documents that were changed after a moment.
func overtaken(q queryer, at Moment, ids []string) (late []string, err error) {
	if known, err := hasLatest(q); !known || err != nil {
		return nil, err
	}
	for _, id := range ids {
		isLate, err := exists(q, `SELECT 1 FROM latest WHERE document = ? AND (generation, place) > (?, ?)`, id,
			at.Generation, at.Place)
		if err != nil {
			return nil, err
		}
		if isLate {
			late = append(late, id)
		}
	}
	return late, nil
}

// inTurn refuses what was handed in before the last change of its documents, and remembers it as their last one.
func (c *commit) inTurn(tx *change) error {
	at := c.batch.HandedIn
	if at == nil || len(c.batch.Documents) == 0 {
		return nil
	}
	var ids []string
	for _, d := range c.batch.Documents {
		ids = append(ids, d.ID)
	}
	late, err := overtaken(tx, *at, ids)
	if err == nil && len(late) > 0 {
		err = &OvertakenError{late}
	}
	if err != nil {
		return err
	}
	return putLatest(tx, ids, at.Generation, at.Place)
}

// exists reports whether a query has a line.
func exists(q queryer, query string, args ...any) (is bool, err error) {
	var one int
	err = each(context.Background(), q, []any{&one}, func() error { is = true; return nil }, query+` LIMIT 1`, args...)
	return is, err
}

func hasLatest(q queryer) (bool, error) {
	return exists(q, `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'latest'`)
}

// putLatest remembers the moment of a change of documents.
func putLatest(tx *change, ids []string, generation, place int64) error {
	if _, err := tx.Exec(latest); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := tx.Exec(`INSERT INTO latest VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET generation = excluded.generation, place = excluded.place`, id, generation,
			place); err != nil {
			return err
		}
	}
	return nil
}

// Overtaken reports whether a document was deleted, or replaced by what was handed in later than a moment.
func (s *Store) Overtaken(ctx context.Context, at Moment, id string) (is bool, err error) {
	err = s.reading(ctx, func(q queryer) error {
		late, err := overtaken(q, at, []string{id})
		is = len(late) > 0
		return err
	})
	return is, s.wrap("look for later changes", err)
}

// ForgetOrder drops what is remembered of the order of changes, unless something that was handed in is still to be
// ingested.
func (s *Store) ForgetOrder(ctx context.Context) error {
	if s.write == nil {
		return fmt.Errorf("%w: %s: open it without ReadOnly to change it", ErrReadOnly, s.dir)
	}
	until, err := s.Generation(ctx) // what is handed in from now on is of this generation or a later one
	if err != nil || s.awaitsUploads() {
		return err
	}
	const rows = ` FROM latest WHERE generation <= ?`
	some := false
	err = s.reading(ctx, func(q queryer) (err error) {
		if some, err = hasLatest(q); some && err == nil {
			some, err = exists(q, `SELECT 1`+rows, until)
		}
		return err
	})
	if err != nil || !some {
		return s.wrap("forget the order of changes", err)
	}
	return s.transactAlone(ctx, "forget the order of changes", func(_ context.Context, tx *change) error {
		tx.unseen = true
		_, err := tx.Exec(`DELETE`+rows, until)
		return err
	})
}

// awaitsUploads reports whether there is something that was handed in and not ingested yet. Of a shared store nobody
// knows what other servers have.
func (s *Store) awaitsUploads() bool {
	if s.shared != nil {
		return true
	}
	d, err := os.Open(filepath.Join(s.dir, UploadsFolder))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return err == nil
}

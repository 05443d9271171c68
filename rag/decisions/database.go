package decisions

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/rag/store"
)

// openDatabase opens a log that the database of a shared store keeps. It has the limit of all files together.
func openDatabase(o Options, shared *store.Shared) (*Log, error) {
	if shared == nil {
		return nil, fmt.Errorf("%w: log.decisions is %q, which is for a store that PostgreSQL keeps "+
			"(--store postgres://…): name a file", ErrFile, Database)
	}
	if err := shared.Check(); err != nil {
		return nil, err
	}
	return &Log{o: o, journal: shared.Journal("decisions", o.MaxBytes*int64(o.Keep+1))}, nil
}

// has reports whether the database has a decision.
func (l *Log) has(ctx context.Context, id string) (bool, error) {
	err := l.journal.Flush(ctx) // it may be one of this process
	if err == nil {
		_, err = l.journal.Find(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Read returns what the log has; of a log in the database, what all have written. The error is ErrOff for a nil log.
func (l *Log) Read(ctx context.Context) (*Contents, error) {
	switch {
	case l == nil:
		return nil, ErrOff
	case l.journal == nil:
		return Read(l.o.File)
	}
	if err := l.journal.Flush(ctx); err != nil {
		return nil, err
	}
	c := &Contents{ByID: map[string]int{}}
	return c, l.journal.Read(ctx, 0, func(_ int64, line []byte) error {
		c.line(line)
		return nil
	})
}

package ingest

import (
	"context"
	"errors"

	"github.com/sluice-rag/sluice/rag/store"
)

// compactFrom so many deleted rows on the store is compacted, if their share is large: fewer are not worth that the
// calibration counts all pairs again, whose vectors of deleted chunks have gone.
const compactFrom = 10_000

// tidy compacts the store if that pays, and brings its index up to date. What was ingested is there whatever comes of
// it.
func (r *run) tidy(ctx context.Context) error {
	base := r.base
	if r.result.Embedded+r.result.Reused == 0 && (r.sync.result == nil || r.sync.result.Removed == 0) {
		return nil
	}
	st, err := base.Writer(ctx, nil)
	if err != nil {
		return err
	}
	size, err := st.Stats(ctx)
	if err == nil && size.Rows-int64(size.Chunks) >= compactFrom {
		var rows int64
		if rows, err = base.Compact(ctx, store.CompactShare); rows > 0 {
			base.Logger().Info("the store was compacted", "rows", rows)
		}
	}
	if err == nil {
		err = errors.Join(base.Changed(nil), base.KeepIndex(ctx))
	}
	if err != nil && ctx.Err() == nil {
		base.Logger().Warn("the store was not compacted, or its index not brought up to date", "error", err)
		err = nil
	}
	return err
}

package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/postings"
	"github.com/sluice-rag/sluice/rag/store"
)

// Inspect is store.Inspect, and looks also at what is made of the store: calibrations, router and indexes.
func (b *Base) Inspect(ctx context.Context, found func(store.Finding)) (done store.Inspected, err error) {
	st, err := b.Reader(ctx)
	if err != nil {
		return done, err
	}
	damaged := false
	done, err = st.Inspect(ctx, func(f store.Finding) {
		damaged = damaged || f.What == "segment" && !f.Harmless || f.What == "vectors" || f.What == "database"
		found(f)
	})
	if err == nil {
		err = b.inspectCalibrations(ctx, st, found)
	}
	if err != nil {
		return done, err
	}
	if _, err := b.Router(st); err != nil {
		found(store.Finding{What: "router", Where: RouterDir(st), Problem: err.Error(),
			Mend: "'sluice route train' makes it anew"})
	}
	if damaged || done.Chunks == 0 { // an index goes by vectors that cannot be read now
		return done, nil
	}
	return done, b.inspectIndexes(ctx, found)
}

func (b *Base) inspectCalibrations(ctx context.Context, st *store.Store, found func(store.Finding)) error {
	names, err := CalibrationNames(ctx, st)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := ReadCalibration(ctx, st, name); err != nil {
			found(store.Finding{What: "calibration", Where: calibrationFile(st, name), Problem: err.Error(),
				Mend: fmt.Sprintf("'sluice calibrate --name %s' makes it anew", name)})
		}
	}
	current, err := InForce(ctx, st)
	if err == nil && current != "" && !slices.Contains(names, current) {
		found(store.Finding{What: "calibration", Where: calibrationFile(st, current),
			Problem: "it is in force, and not there",
			Mend:    "'sluice calibrate' makes it anew, 'sluice calibrate use' puts another one in force"})
	}
	return err
}

// inspectIndexes loads the stored indexes, which compare their checksums. One of other rows is not used.
func (b *Base) inspectIndexes(ctx context.Context, found func(store.Finding)) error {
	s, err := b.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Release()
	set, err := b.cfg.Engine.Load(ctx, s.indexFile(), s.View.Vectors, newPrepared(s.View).options(engine.SetOptions{}))
	if err == nil {
		set.Close()
	}
	_, wordsErr := postings.Load(s.postingsFile(),
		func(rows int) ([32]byte, error) { return s.View.Fingerprint(ctx, rows) })
	for file, err := range map[string]error{s.indexFile(): err, s.postingsFile(): wordsErr} {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil || errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, engine.ErrSetFile):
			found(store.Finding{What: "index", Where: filepath.Clean(file), Problem: err.Error(),
				Mend: "delete it: it is made again by itself"})
		default: // of other rows; postings do not tell that from damage
			found(store.Finding{What: "index", Where: filepath.Clean(file), Problem: err.Error(), Harmless: true,
				Mend: "nothing to do: another one is made when it is needed"})
		}
	}
	return nil
}

package calibrate_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/store"
)

// TestCalibrateReadsTheTextsOfItsSnapshot: a document that is deleted after the vectors were read is calibrated as it
// was, also when another process deletes it.
func TestCalibrateReadsTheTextsOfItsSnapshot(t *testing.T) {
	for _, another := range []bool{false, true} {
		w := newWorld(t)
		w.Model.Answers = []string{" does a deferred function run when the surrounding function returns?"}
		model := func(ctx context.Context) (llm.Generator, error) {
			st, err := w.Writer(ctx, nil)
			if another {
				st, err = store.Open(ctx, filepath.Join(w.Dir, "store"), store.Options{})
			}
			if err != nil {
				return nil, err
			}
			if another {
				defer st.Close()
			}
			_, err = st.DeleteDocuments(ctx, []string{"defer"})
			return w.Model, err
		}
		r, err := calibrate.Run(t.Context(), w.Base.Base, calibrate.Input{Model: model,
			Options: calibrate.Options{PerContext: 1, RankLimit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Contexts != 4 || r.Report.Kept == 0 {
			t.Errorf("%+v", r.Report)
		}
		asked := false
		for _, q := range w.Model.Requests() {
			asked = asked || strings.Contains(q.Prompt, "A deferred function runs")
		}
		if !asked {
			t.Error("no question was asked about the deleted text")
		}
		current, err := calibrate.Show(t.Context(), w.Base.Base, "")
		if err != nil || current.Stale != 0 || current.Gone != .25 {
			t.Errorf("stale %v, gone %v: %v", current.Stale, current.Gone, err)
		}
	}
}

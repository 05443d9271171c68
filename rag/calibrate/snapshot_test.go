package calibrate_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
)

// TestCalibrateReadsTheTextsOfItsSnapshot: a document that is deleted after the vectors were read is calibrated as it
// was.
func TestCalibrateReadsTheTextsOfItsSnapshot(t *testing.T) {
	w := newWorld(t)
	w.Model.Answers = []string{" does a deferred function run when the surrounding function returns?"}
	model := func(ctx context.Context) (llm.Generator, error) {
		st, err := w.Writer(ctx, nil)
		if err != nil {
			return nil, err
		}
		_, err = st.DeleteDocuments(ctx, []string{"defer"})
		return w.Model, w.Changed(err)
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
}

package calibrate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
)

// held is a model whose first call waits.
type held struct {
	*doubles.Model
	begun chan struct{} // closed when it was called
	goOn  chan struct{}
}

func (h *held) Generate(ctx context.Context, r llm.Request, s func(string) error) (llm.Result, error) {
	if len(h.Requests()) == 0 {
		close(h.begun)
		<-h.goOn
	}
	return h.Model.Generate(ctx, r, s)
}

// TestTwoAtOnce: while a calibration is made, a second one of the same name with another sample is refused and says
// why, before it has asked the model for anything; the journal of the first one serves the next run.
func TestTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	model := &held{Model: w.Model, begun: make(chan struct{}), goOn: make(chan struct{})}
	w.Model.Answers = []string{" does a deferred function run when the surrounding function returns?"}
	run := func(o calibrate.Options) (*calibrate.Result, error) {
		o.PerContext, o.RankLimit = 1, 4
		return calibrate.Run(t.Context(), w.Base.Base, calibrate.Input{Options: o,
			Model: func(context.Context) (llm.Generator, error) { return model, nil }})
	}
	first := make(chan error)
	go func() {
		_, err := run(calibrate.Options{Sample: 3})
		first <- err
	}()
	<-model.begun
	artifact := filepath.Join(w.Dir, "store", "calibration", "default.cal.json")
	_, err := run(calibrate.Options{Sample: 2})
	if !errors.Is(err, calibrate.ErrLocked) || !strings.Contains(err.Error(), artifact+" is in use: another call of") {
		t.Errorf("a second calibration: %v", err)
	}
	if _, err := run(calibrate.Options{Queries: strings.NewReader(doubles.Questions), Name: "other"}); err != nil {
		t.Errorf("one of another name: %v", err)
	}
	if n := len(w.Model.Requests()); n != 0 {
		t.Errorf("the second one asked the model for %d questions", n)
	}
	if _, err := calibrate.Repolicy(t.Context(), w.Base.Base, calibrate.Options{Policy: "min"}); err != nil {
		t.Errorf("another policy for the other one, which is in force: %v", err)
	}
	close(model.goOn)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	r, err := run(calibrate.Options{Sample: 4, Name: "default"})
	if err != nil || r.Report.Resumed != 3 {
		t.Fatalf("afterwards: %v, %+v", err, r)
	}
	if _, err := os.Stat(artifact); err != nil {
		t.Error(err)
	}
}

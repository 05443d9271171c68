package gate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine"
)

// TestCalibrateResumes: an interrupted calibration resumes from its checkpoint file with the same result, a checkpoint
// of another input is discarded, and success deletes the file.
func TestCalibrateResumes(t *testing.T) {
	in := input(300, 3, 3, 16)
	same := cmpopts.IgnoreFields(Calibration{}, "Created")
	want, _, err := Calibrate(t.Context(), newEngine(t), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Checkpoint = filepath.Join(t.TempDir(), "default.pairs")
	in.Keep.Limit = 1 // small calibrations have no checkpoint by default
	ctx, cancel := context.WithCancel(t.Context())
	stopped, err := engine.New(engine.Options{TileRows: 64, Progress: func(done, total int64) {
		if done > total/3 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Calibrate(ctx, stopped, in); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	left, err := os.ReadFile(in.Checkpoint)
	if err != nil || len(left) < 1000 {
		t.Fatalf("%d bytes were recorded: %v", len(left), err)
	}
	before := int64(-1)
	again, err := engine.New(engine.Options{TileRows: 64, Progress: func(done, _ int64) {
		if before < 0 {
			before = done
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := Calibrate(t.Context(), again, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, same, cmp.AllowUnexported(Calibration{}, scores{})); diff != "" {
		t.Errorf("resumed (-whole +resumed):\n%s", diff)
	}
	if before < 300*900/4 {
		t.Errorf("%d pairs were taken as done", before)
	}
	if _, err := os.Stat(in.Checkpoint); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if err := os.WriteFile(in.Checkpoint, left, 0o600); err != nil {
		t.Fatal(err)
	}
	other := input(290, 3, 3, 16)
	other.Checkpoint = in.Checkpoint
	if _, _, err := Calibrate(t.Context(), again, other); err != nil {
		t.Errorf("a file of another input: %v", err)
	}
}

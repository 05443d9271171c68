package statistics

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// TestFullBesideARecord: memory for kept entries runs out, by another worker, while a task has been counted and before
// its entries are kept; a record follows, and the run is stopped. Whatever the moment, a resumed run has
// the quantiles of an uninterrupted one: the record says that entries are missing.
func TestFullBesideARecord(t *testing.T) {
	in := partInput(0)
	e := newTestEngine(t, 96)
	want, err := Compute(context.Background(), &e.r, DefaultTuning(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1, 15} {
		in.Checkpoint = filepath.Join(t.TempDir(), "run.ckpt")
		ctx, cancel := context.WithCancel(context.Background())
		tune, tasks := DefaultTuning(), 0
		tune.KeepAll, tune.Record = 0, time.Nanosecond
		tune.counted = func(p *pass) {
			if tasks++; tasks == at {
				p.keeper.full.Store(true)
			}
			if tasks == at+10 {
				cancel()
			}
		}
		if _, err := Compute(ctx, &e.r, tune, in); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped after %d tasks: %v", tasks, err)
		}
		tune.counted = nil
		got, err := Compute(context.Background(), &e.r, tune, in)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprint(want.NegativeSummary.Quantiles), fmt.Sprint(got.NegativeSummary.Quantiles); a != b {
			t.Errorf("full at task %d: quantiles %s, want %s", at, b, a)
		}
	}
}

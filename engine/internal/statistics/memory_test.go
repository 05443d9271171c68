package statistics

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// TestDeviceMemory: a device with memory of its own has regions by that, whatever limit the process's memory has, and
// never more in it than it holds.
func TestDeviceMemory(t *testing.T) {
	in := partInput(0)
	tune := DefaultTuning()
	tune.Canonical, tune.KeepAll = 0, 0
	want, err := Compute(t.Context(), &newTestEngine(t, 0).r, tune, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		memory, limit int64
		whole, copies bool
	}{
		{1 << 30, 1 << 30, true, true},
		{1 << 20, 3 << 20, true, true}, // three fifths of what is left of the limit have no room for all panels
		{300 << 10, 1 << 30, false, true},
		{128 << 10, 1 << 30, false, false},
	} {
		e := newTestEngine(t, 0)
		d := devicetest.NewStandIn(e.r.Host)
		d.Memory = c.memory
		e.r.Device, e.r.MemLimit = d, c.limit
		got, err := Compute(t.Context(), &e.r, tune, in)
		if err != nil {
			t.Errorf("%d bytes: %v", c.memory, err)
			continue
		}
		if diff := cmp.Diff(want, got,
			cmpopts.IgnoreFields(distribution.Result{}, "DType", "Way", "Kept", "Rechecked", "Separation",
				"SeparationError"),
			cmpopts.IgnoreFields(distribution.Summary{}, "Mean", "Std", "MeanError", "StdError")); diff != "" {
			t.Errorf("%d bytes (-want +got)\n%s", c.memory, diff)
		}
		if d.Peak() > c.memory || d.Live() != 0 || got.Way.Regions < 1 || (got.Way.Regions == 1) != c.whole ||
			(d.FromCopies() > 0) != c.copies {
			t.Errorf("%d bytes: %d taken, %d left, %d scores from copies, %+v", c.memory, d.Peak(), d.Live(),
				d.FromCopies(), got.Way)
		}
	}
}

// TestChoiceIsInTheResult: what a distribution ran on, and what the costs speak for.
func TestChoiceIsInTheResult(t *testing.T) {
	e := newTestEngine(t, 0)
	run := func() distribution.Way {
		d, err := Compute(t.Context(), &e.r, DefaultTuning(), partInput(0))
		if err != nil {
			t.Fatal(err)
		}
		return d.Way
	}
	if w := run(); w.Device != e.r.Describe().Name || w.Choice != "no GPU is used" {
		t.Errorf("no costs: %+v", w)
	}
	e.r.Costs.CPU.Tiles[kernels.F32], e.r.Costs.CPU.Read = 1e6, 1e9
	e.r.Costs.GPU = &device.GPU{Name: "stand-in", Transfer: 1e9, Launch: 1e-6}
	for i := range e.r.Costs.GPU.Tiles {
		e.r.Costs.GPU.Tiles[i] = 1e12
	}
	e.r.Costs.GPU.Read = 1e12
	if w := run(); !strings.HasPrefix(w.Choice, "GPU: stand-in in about") {
		t.Errorf("a slow CPU: %+v", w)
	}
}

// TestRoomForSomeRanksAtATime: where not all brackets have room together, further passes find what one would, and the
// quantiles do not take canonical scores of all pairs.
func TestRoomForSomeRanksAtATime(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(47, 4))
	in := distribution.Input{Contexts: testvectors.Embeddings(rng, 4000, 12),
		Queries: testvectors.Embeddings(rng, 2000, 12)}
	for range in.Queries.Rows {
		in.Owner = append(in.Owner, rng.Int32N(4000))
	}
	for i := range 9 {
		in.Quantiles = append(in.Quantiles, float64(i+1)/10)
	}
	e, tune := newTestEngine(t, 0), DefaultTuning()
	want, err := Compute(t.Context(), &e.r, tune, in)
	if err != nil {
		t.Fatal(err)
	}
	most := 0 // passes without canonical scores: the first one, a histogram, and two at least
	for _, tune.Kept = range []int64{1 << 14, 3 << 13, 1 << 15, 3 << 14} {
		got, err := Compute(t.Context(), &e.r, tune, in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.NegativeSummary.Quantiles, got.NegativeSummary.Quantiles); diff != "" {
			t.Errorf("room for %d pairs (-want +got)\n%s", tune.Kept, diff)
		}
		if !strings.Contains(got.Way.Reason, "canonical") {
			most = max(most, got.Way.Passes)
		}
	}
	if most < 4 {
		t.Errorf("%d passes at most", most)
	}
}

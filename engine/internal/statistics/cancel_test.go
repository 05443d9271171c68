package statistics

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// watchedResources are of a test engine whose device a watch counts.
func watchedResources(t testing.TB, w *devicetest.Watch, threads, tileRows int) *device.Resources {
	t.Helper()
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return &device.Resources{Device: w.Device(devicetest.Open(k)), Host: k, MemLimit: 1 << 30, TileRows: tileRows,
		Pool: &workers.Pool{Budget: cores.New(threads), Threads: threads}}
}

// grouped divides the contexts of an input into n groups.
func grouped(in distribution.Input, n int32) distribution.Input {
	in.Group = make([]int32, in.Contexts.Rows)
	for c := range in.Group {
		in.Group[c] = int32(c*7) % n
	}
	return in
}

// TestCancelledAtAnyMoment ends the context at looks and calls all over each way of computing a distribution, and
// counts what is done after that.
func TestCancelledAtAnyMoment(t *testing.T) {
	type way struct {
		in   func(distribution.Input) distribution.Input
		tune func(*Tuning)
	}
	same := func(in distribution.Input) distribution.Input { return in }
	ways := map[string]way{
		"canonical": {same, func(t *Tuning) { t.Canonical = math.MaxInt64 }},
		"bounded":   {same, func(*Tuning) {}},
		"groups": {func(in distribution.Input) distribution.Input {
			in.Negatives.Kind, in.Bins = distribution.NegativesCrossGroup, 20
			return grouped(in, 5)
		}, func(*Tuning) {}},
		"sampled": {func(in distribution.Input) distribution.Input {
			in.Negatives = distribution.Negatives{Kind: distribution.NegativesSample, PerQuery: 40, Seed: 1}
			return in
		}, func(*Tuning) {}},
		"regions and a file": {same, func(t *Tuning) { t.Panels, t.Kept = 100<<10, 1<<12 }},
		"missed brackets":    {same, func(t *Tuning) { t.MinSamples, t.MaxSamples, t.Reach = 128, 128, 0 }},
		"no room":            {same, func(t *Tuning) { t.Kept, t.Spill = 1<<12, 0 }},
		"l2, checkpoint": {func(in distribution.Input) distribution.Input {
			in.Metric, in.Checkpoint = kernels.L2, filepath.Join(t.TempDir(), "checkpoint")
			return in
		}, func(t *Tuning) { t.Record = 0 }},
		"equal": {func(in distribution.Input) distribution.Input {
			for i := range in.Contexts.Data {
				in.Contexts.Data[i] = 1
			}
			return in
		}, func(t *Tuning) { t.Recheck = 1 << 10 }},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			tune := DefaultTuning()
			tune.Canonical, tune.KeepAll = 0, 0
			way.tune(&tune)
			in := way.in(partInput(0))
			const threads = 2
			run := func(at int) (*distribution.Result, devicetest.Work, error) {
				w := devicetest.NewWatch(at, false)
				d, err := Compute(w.Context(t.Context()), watchedResources(t, w, threads, 64), tune, in)
				return d, w.Count(), err
			}
			moments := 20
			if devicetest.OnStandIn() || race.Enabled || in.Checkpoint != "" {
				moments = 4
			}
			whole, all, err := run(0)
			if err != nil || all.Blind > 2*threads {
				t.Fatalf("not cancelled: %+v, %v", all, err)
			}
			rng := rand.New(rand.NewPCG(9, uint64(len(name))))
			for i := range moments {
				at := 1 + (i*all.Events+rng.IntN(all.Events))/(moments+1)
				_, got, err := run(at)
				if err == nil && got.Events <= at {
					continue // threads share the work out anew each time
				}
				if !errors.Is(err, context.Canceled) || got.CallsAfter > threads || got.LooksAfter > 6*threads {
					t.Errorf("cancelled at event %d of %d: %+v, %v", at, all.Events, got, err)
				}
				if in.Checkpoint == "" {
					continue
				}
				resumed, _, err := run(0)
				if diff := cmp.Diff(whole, resumed,
					cmpopts.IgnoreFields(distribution.Result{}, "Way", "Kept", "Rechecked")); err != nil || diff != "" {
					t.Fatalf("resumed after an end at event %d: %v (-whole +resumed)\n%s", at, err, diff)
				}
			}
		})
	}
}

// TestSumsOfGroupsCancelled: the sums of vectors end with the context's error whenever it ends, and in the middle of a
// group, too.
func TestSumsOfGroupsCancelled(t *testing.T) {
	in := grouped(partInput(0), 4)
	in.Negatives.Kind = distribution.NegativesCrossGroup
	for at := 1; ; at++ {
		w := devicetest.NewWatch(0, false)
		j, err := prepareJob(t.Context(), watchedResources(t, w, 1, 0), DefaultTuning(), in)
		if err != nil {
			t.Fatal(err)
		}
		d, err := j.newDots(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := devicetest.NewWatch(at, false).Context(t.Context())
		_, err = d.sum(ctx, ascendingFrom(0, j.c.N), ascendingFrom(0, j.q.N))
		j.free()
		if err == nil {
			if at < 10 {
				t.Errorf("%d looks at the context", at)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at event %d: %v", at, err)
		}
	}
}

// TestStretches: whatever goes over many rows looks at the context on the way.
func TestStretches(t *testing.T) {
	race.Skip(t)
	const rows = 3*workers.Stretch + 5
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name              string
		contexts, queries int
		metric            kernels.Metric
		canonical         bool
		stages            []string
	}{
		{"contexts", rows, 30, kernels.L2, false,
			[]string{"newNegatives", "setScales", "orderRows", "sortedBy", "inverse", "positions", "hashRows"}},
		{"queries", 30, rows, kernels.Cosine, false,
			[]string{"Check", "newNegatives", "positives", "orderRows", "sortedBy", "begin",
				"finishMaxima", "summary", "separation", "factors", "vectors", "groups", "digest"}},
		{"queries, canonical", 20, rows, kernels.IP, true,
			[]string{"canonicalMaxima", "canonicalNegatives", "summary"}},
	} {
		in := distribution.Input{Contexts: testvectors.Embeddings(rng, c.contexts, 3),
			Queries:   testvectors.Embeddings(rng, c.queries, 3),
			Quantiles: []float64{.5}, Metric: c.metric,
			Negatives: distribution.Negatives{Kind: distribution.NegativesCrossGroup}}
		for range c.queries {
			in.Owner = append(in.Owner, rng.Int32N(int32(c.contexts)))
		}
		in = grouped(in, 4)
		tune := DefaultTuning()
		if c.canonical {
			tune.Canonical = math.MaxInt64
		} else {
			in.Checkpoint = filepath.Join(t.TempDir(), "checkpoint")
		}
		w := devicetest.NewWatch(0, true)
		if _, err := Compute(w.Context(t.Context()), watchedResources(t, w, 1, 0), tune, in); err != nil {
			t.Fatal(err)
		}
		for _, stage := range c.stages {
			if got := w.Looks(stage); got < 4 {
				t.Errorf("%s: %s went over %d rows with %d looks at the context", c.name, stage, rows, got)
			}
		}
	}
}

func TestSelectionLooks(t *testing.T) {
	values := make([]float64, 4*workers.Stretch)
	for i := range values {
		values[i] = float64(i * 7919 % len(values))
	}
	w := devicetest.NewWatch(3, false)
	err := selectRanks(w.Context(t.Context()), values, []int{100, len(values) / 2})
	if !errors.Is(err, context.Canceled) || w.Count().LooksAfter > 0 {
		t.Errorf("%+v, %v", w.Count(), err)
	}
}

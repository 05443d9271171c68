package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// TestStandIn runs all tests of the package again, with a device behind the interface that is not the CPU: not those
// that open devices of their own, which are the same again.
func TestStandIn(t *testing.T) {
	devicetest.RunAgain(t, "^Test(DeviceFaults|IndexBoundaries|GPU.*|NoGPU|Auto|Resident|PartsOfBoth)$")
}

// onFaulty returns an engine on a stand-in of the test's own.
func onFaulty(t *testing.T, o Options) (*Engine, *devicetest.StandIn) {
	t.Helper()
	var d *devicetest.StandIn
	e, err := newOn(o, func(k cpu.Kernels) device.Device { d = devicetest.NewStandIn(k); return d }, noGPU)
	if err != nil {
		t.Fatal(err)
	}
	return e, d
}

// TestDeviceFaults: whichever call of a device fails, the operation returns the error, wrapped, and gives back
// what it holds on the device; the next one works.
func TestDeviceFaults(t *testing.T) {
	rng, ctx := rand.New(rand.NewPCG(91, 1)), context.Background()
	a, b := plain(rng, 70, 24), plain(rng, 150, 24)
	for name, o := range map[string]Options{"parts": {Threads: 2, MemLimit: 40_000},
		"tiles of 32": {Threads: 1, TileRows: 32},
		"regions":     {Threads: 2, TileRows: 32}} {
		if race.Enabled && name != "regions" {
			continue
		}
		e, d := onFaulty(t, o)
		all := operations(kernels.L2)
		all["Distribution"] = func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			in := DistributionInput{Queries: a, Contexts: b, Owner: make([]int32, a.Rows), Metric: kernels.L2,
				Quantiles: table, Bins: 5}
			dtype := kernels.BF16
			in.DType = &dtype
			return e.Distribution(ctx, in)
		}
		all["Prepare"] = func(ctx context.Context, e *Engine, _, b Vectors) (any, error) {
			s, err := e.Prepare(ctx, b, kernels.L2, SetOptions{})
			if err == nil {
				s.Close()
			}
			return nil, err
		}
		for _, op := range []string{"Distribution", "Matrix", "BoundedMatrix"} {
			all[op+" of a prepared set"] = ofPreparedSet(all[op])
		}
		if e.r.Host.ISA() == cpu.Go {
			delete(all, "Prepare") // has no codes, so that nothing is scored while it is made
		}
		switch name {
		case "parts":
			delete(all, "Distribution") // needs more memory
			delete(all, "Distribution of a prepared set")
		case "regions":
			e.tune.Panels = e.r.Bytes(kernels.BF16, 100, 24)
		}
		for op, do := range all {
			d.FailAt("", 0)
			if _, err := do(ctx, e, a, b); err != nil || d.Live() != 0 {
				t.Fatalf("%s, %s: %v, %d live", name, op, err, d.Live())
			}
			reached := 0
			for _, method := range devicetest.Methods() {
				for n := 1; ; n++ {
					d.FailAt(method, n)
					_, err := do(ctx, e, a, b)
					called := d.Calls(method) >= n
					if errors.Is(err, devicetest.ErrInjected) != called || err != nil && !called || d.Live() != 0 {
						t.Fatalf("%s, %s, call %d of %s (made: %v): %v, %d live", name, op, n, method, called, err,
							d.Live())
					}
					if !called {
						break
					}
					reached++
				}
			}
			if reached == 0 {
				t.Errorf("%s, %s: no call of the device was reached", name, op)
			}
		}
	}
}

// ofPreparedSet runs an operation twice with b as a prepared set, which is closed then.
func ofPreparedSet(do operation) operation {
	return func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
		s, err := e.Prepare(ctx, b, kernels.L2, SetOptions{NoIndex: true})
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if _, err := do(ctx, e, a, s.Vectors()); err != nil {
			return nil, err
		}
		return do(ctx, e, a, s.Vectors())
	}
}

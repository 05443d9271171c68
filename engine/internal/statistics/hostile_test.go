package statistics

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// hostile are vectors that leave a bounded kernel much to settle.
var hostile = map[string]func(rng *rand.Rand, v kernels.Vectors){
	"few dimensions": func(rng *rand.Rand, v kernels.Vectors) {},
	"all equal": func(_ *rand.Rand, v kernels.Vectors) {
		for i := range v.Data {
			v.Data[i] = float32(1 + i%v.Dim)
		}
	},
	"nearly equal": func(rng *rand.Rand, v kernels.Vectors) {
		for i := range v.Data {
			v.Data[i] = 1 + 1e-6*v.Data[i]
		}
	},
	"fifty different ones": func(rng *rand.Rand, v kernels.Vectors) {
		for i := 50; i < v.Rows; i++ {
			copy(v.Data[i*v.Dim:][:v.Dim], v.Data[rng.IntN(50)*v.Dim:])
		}
	},
	"two clusters": func(rng *rand.Rand, v kernels.Vectors) {
		for i := range v.Data {
			v.Data[i] = 1e-4*v.Data[i] + float32(i/v.Dim%2*2-1) + .3*float32(i%v.Dim%2)
		}
	},
	"tiny": func(_ *rand.Rand, v kernels.Vectors) {
		for i := range v.Data {
			v.Data[i] *= 1e-30
		}
	},
	"one huge among small": func(_ *rand.Rand, v kernels.Vectors) {
		for k := range v.Dim {
			v.Data[7*v.Dim+k] *= 1e9
		}
	},
	"small integers": func(rng *rand.Rand, v kernels.Vectors) {
		for i := range v.Data {
			v.Data[i] = float32(rng.IntN(3))
		}
	},
}

func hostileInput(change func(*rand.Rand, kernels.Vectors), n, dim int, m kernels.Metric) distribution.Input {
	rng := rand.New(rand.NewPCG(17, 1))
	vectors := func() kernels.Vectors {
		v := kernels.Vectors{Data: make([]float32, n*dim), Rows: n, Dim: dim}
		for i := range v.Data {
			v.Data[i] = float32(rng.NormFloat64())
		}
		change(rng, v)
		return v
	}
	in := distribution.Input{Contexts: vectors(), Queries: vectors(), Quantiles: testvectors.Quantiles(), Metric: m}
	for range n {
		in.Owner = append(in.Owner, rng.Int32N(int32(n)))
	}
	return in
}

// scoring counts the pairs that get canonical scores.
type scoring struct {
	device.Device
	pairs atomic.Int64
}

func (d *scoring) Scores(m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
	d.pairs.Add(int64(a.N) * int64(b.N))
	return d.Device.Scores(m, out, stride, a, b)
}

func (d *scoring) Pairs(m kernels.Metric, out []float64, a cpu.Rows, rowsA []int32, b cpu.Rows, rowsB []int32) error {
	d.pairs.Add(int64(len(rowsB)))
	return d.Device.Pairs(m, out, a, rowsA, b, rowsB)
}

// TestNoInputIsSlowerThanCanonicalScores: whatever the vectors, the bounded way has no more pairs to score than
// canonical scores throughout would, and makes few passes of its own, whether it has room for what it keeps or not.
func TestNoInputIsSlowerThanCanonicalScores(t *testing.T) {
	race.Skip(t)
	const n = 300
	for name, change := range hostile {
		for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
			in := hostileInput(change, n, 2, metric)
			run := func(tune Tuning) (*distribution.Result, int64) {
				e := newTestEngine(t, 0)
				d := &scoring{Device: e.r.Device}
				e.r.Device, e.r.MemLimit = d, 3<<19
				out, err := Compute(t.Context(), &e.r, tune, in)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, metric, err)
				}
				return out, d.pairs.Load()
			}
			tune := DefaultTuning()
			tune.KeepAll, tune.Recheck = 1<<10, 1<<10
			short := tune
			short.Spill, short.Kept = 0, n*n/50
			for way, tune := range map[string]Tuning{"": tune, ", short of room": short} {
				got, pairs := run(tune)
				tune.Canonical = math.MaxInt64
				want, highest := run(tune)
				if diff := cmp.Diff(want, got,
					cmpopts.IgnoreFields(distribution.Result{}, "DType", "Way", "Kept", "Rechecked",
						"Separation", "SeparationError"),
					cmpopts.IgnoreFields(distribution.Summary{}, "Mean", "Std", "MeanError",
						"StdError")); diff != "" {
					t.Errorf("%s, %s%s (-canonical +bounded)\n%s", name, metric, way, diff)
				}
				t.Logf("%-22s %-6s%-16s %5.2f × all pairs scored, canonical %5.2f; %d passes, kept %.3f", name, metric,
					way,
					float64(pairs)/n/n, float64(highest)/n/n, got.Way.Passes, float64(got.Kept)/n/n)
				const candidates = 64*n + n*n/20 // that are scored one by one before they are found to be too many
				if pairs > highest+candidates || got.Way.Passes > 3 {
					t.Errorf("%s, %s%s: %d pairs scored, canonical scores throughout %d; %+v", name, metric, way, pairs,
						highest, got.Way)
				}
			}
		}
	}
}

// TestHostilePartials: whatever the vectors, partials of four blocks give what one run gives.
func TestHostilePartials(t *testing.T) {
	const n = 200
	for name, change := range hostile {
		for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
			in := hostileInput(change, n, 2, metric)
			e := newTestEngine(t, 0)
			want, err := Compute(t.Context(), &e.r, DefaultTuning(), in)
			if err != nil {
				t.Fatal(err)
			}
			of, err := Brackets(t.Context(), &e.r, DefaultTuning(), in, .02)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&bounded{metric: metric, unit: 1}).wantedOf(of, 1e-5); err != nil {
				of = &distribution.Brackets{Metric: metric, Ends: keepAll()} // scores are too few for ranges
			}
			var sum *Partial
			for _, contexts := range [][2]int{{0, 70}, {70, n}} {
				for _, queries := range [][2]int{{0, 90}, {90, n}} {
					p, err := ComputePartial(t.Context(), &e.r, DefaultTuning(), in,
						distribution.Whole{Contexts: n, Queries: n}, of,
						distribution.Block{Contexts: contexts, Queries: queries})
					if err != nil {
						t.Fatalf("%s, %s: %v", name, metric, err)
					}
					if sum == nil {
						sum = p
					} else if sum, err = sum.Plus(p); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, next, err := sum.Finish(t.Context(), &e.r, in.Quantiles)
			if err != nil || next != nil {
				t.Errorf("%s, %s: %+v, %v", name, metric, next, err)
				continue
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(),
				cmpopts.IgnoreFields(distribution.Result{}, "DType", "Way", "Kept", "Rechecked", "Separation",
					"SeparationError", "NegativeHistogram"),
				cmpopts.IgnoreFields(distribution.Summary{}, "Mean", "Std", "MeanError", "StdError")); diff != "" {
				t.Errorf("%s, %s (-one run +partials)\n%s", name, metric, diff)
			}
		}
	}
}

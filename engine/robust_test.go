package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// operation is one of the stateless operations, as a function from its operands to a comparable result.
type operation func(ctx context.Context, e *Engine, a, b Vectors) (any, error)

// operations returns the operations of search.go and matrix.go. BoundedMatrix's float32 sums depend on the instruction
// set, so its result here is whether they are within the promised bound.
func operations(metric kernels.Metric) map[string]operation {
	return map[string]operation{
		"Matrix": func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			out := make([]float32, a.Rows*b.Rows)
			err := e.Matrix(ctx, out, a, b, metric)
			return out, err
		},
		"BoundedMatrix": func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			out := make([]float32, a.Rows*b.Rows)
			bound, err := e.BoundedMatrix(ctx, out, b.Rows, a, b, metric, kernels.F32)
			if err != nil {
				return false, err
			}
			within, left, right := true, rows(a), rows(b)
			for i, s := range out {
				within = within && math.Abs(float64(s)-ref.Score(metric, left[i/b.Rows], right[i%b.Rows])) <= bound
			}
			return within, nil
		},
		"TopK": func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			return e.TopK(ctx, a, b, metric, 3, nil)
		},
		"Max": func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			best, ok, err := e.Max(ctx, rows(a)[0], b, metric, nil)
			return fmt.Sprint(best, ok), err
		},
		"AnyAbove": func(ctx context.Context, e *Engine, a, b Vectors) (any, error) {
			w, above, err := e.AnyAbove(ctx, rows(a)[0], b, metric, nil,
				map[bool]float64{true: -1, false: 1e9}[metric.Ascending()])
			return fmt.Sprint(w, above), err
		},
	}
}

// TestOfNothing checks that sets without rows have natural results, and that k = 0 and dimension 0 are errors.
func TestOfNothing(t *testing.T) {
	e, ctx, two := newEngine(t, Options{}), context.Background(), plain(rand.New(rand.NewPCG(71, 1)), 2, 3)
	for _, metric := range metrics {
		for name, do := range operations(metric) {
			for side, operands := range map[string][2]Vectors{"left": {{}, two}, "right": {two, {}}, "both": {{}, {}}} {
				if operands[0].Rows == 0 && (name == "Max" || name == "AnyAbove") {
					continue // a single query cannot be empty
				}
				result, err := do(ctx, e, operands[0], operands[1])
				text := fmt.Sprint(result)
				natural := slices.Contains([]string{"[]", "[[] []]", "true",
					fmt.Sprint(Hit{Row: -1, Score: metric.Worst()}, false)}, text)
				if err != nil || !natural {
					t.Errorf("%s of nothing on the %s: %s, %v", name, side, text, err)
				}
			}
			if _, err := do(ctx, e, two, Vectors{Rows: 1}); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s of dimension 0: %v", name, err)
			}
		}
	}
	if _, err := e.TopK(ctx, two, Vectors{}, kernels.IP, 0, nil); !errors.Is(err, kernels.ErrArgument) {
		t.Errorf("k of 0, even of nothing: %v", err)
	}
}

// TestNonFiniteAnywhere checks that one bad value anywhere in either operand is reported by row and column, however
// the work is divided. Max and AnyAbove detect it in the query and in every context, because nothing ends them early.
func TestNonFiniteAnywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(72, 1))
	const m, n, dim = 70, 130, 37
	cut := engines(t)
	cut["little memory"] = newEngine(t, Options{MemLimit: 40_000}) // parts of both operands
	for round := range 40 {
		a, b := plain(rng, m, dim), plain(rng, n, dim)
		left := round%2 == 0
		v, name, row := b, "row", rng.IntN(n)
		if left {
			v, row = a, rng.IntN(m)
		}
		col := []int{0, dim - 1, rng.IntN(dim)}[round%3]
		v.Data[row*dim+col] = float32([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)])
		metric := metrics[rng.IntN(3)]
		for op, do := range operations(metric) {
			if left && row > 0 && (op == "Max" || op == "AnyAbove") {
				continue // report the error for another query
			}
			for engine, e := range cut {
				_, err := do(context.Background(), e, a, b)
				want := fmt.Sprintf("%s %d, column %d is %v", name, row, col, v.Data[row*dim+col])
				if !errors.Is(err, kernels.ErrNonFinite) || !strings.Contains(err.Error(), want) {
					t.Fatalf("%s, %s, %s, left %v: %v, want %q", op, metric, engine, left, err, want)
				}
			}
		}
	}
}

// TestEveryMemoryLimit checks that, from one byte up, an operation either reports that the limit is too low or gives
// the same result; once a limit is sufficient, every higher limit is.
func TestEveryMemoryLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(73, 1))
	a, b := plain(rng, 40, 40), plain(rng, 130, 40)
	for name, do := range operations(kernels.Cosine) {
		want, err := do(context.Background(), newEngine(t, Options{}), a, b)
		if err != nil {
			t.Fatal(err)
		}
		enough := int64(0)
		for limit := int64(1); limit < 64<<20; limit = limit*2 + 1 {
			got, err := do(context.Background(), newEngine(t, Options{MemLimit: limit}), a, b)
			switch {
			case errors.Is(err, kernels.ErrMemoryLimit):
				if enough > 0 || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
					t.Errorf("%s: %d bytes are too little, %d were enough: %v", name, limit, enough, err)
				}
			case err != nil || fmt.Sprint(got) != fmt.Sprint(want):
				t.Errorf("%s in %d bytes: another result, %v", name, limit, err)
			case enough == 0:
				enough = limit
			}
		}
		// Sets in a device's own memory take none of the limit.
		if enough < 2 && newEngine(t, Options{}).r.Describe().Memory == 0 || enough > 1<<20 {
			t.Errorf("%s: %d bytes were enough", name, enough)
		}
	}
}

// calls is a context that is cancelled after it was queried a given number of times.
type calls struct {
	context.Context
	left atomic.Int64
}

func (c *calls) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestCancelledAtEveryCheck checks that a cancellation noticed at any point returns an error and no result, and leaks
// neither tokens nor (TestMain) goroutines.
func TestCancelledAtEveryCheck(t *testing.T) {
	rng := rand.New(rand.NewPCG(74, 1))
	a, b := plain(rng, 60, 33), plain(rng, 100, 33)
	budget := cores.New(3)
	e := newEngine(t, Options{Cores: budget, TileRows: 32})
	for name, do := range operations(kernels.L2) {
		want, err := do(context.Background(), e, a, b)
		if err != nil {
			t.Fatal(err)
		}
		stopped := 0
		for n := int64(0); ; n++ {
			ctx := &calls{Context: context.Background()}
			ctx.left.Store(n)
			got, err := do(ctx, e, a, b)
			if budget.Free() != 3 {
				t.Fatalf("%s, check %d: %d of 3 tokens came back", name, n, budget.Free())
			}
			if err == nil {
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s, check %d: half a result", name, n)
				}
				break
			}
			if !errors.Is(err, context.Canceled) || n > 10_000 {
				t.Fatalf("%s, check %d: %v", name, n, err)
			}
			stopped++
		}
		if stopped == 0 {
			t.Errorf("%s never looks", name)
		}
	}
}

// TestCancellationIsNoticed checks that operations of many seconds stop promptly (promised: 200 ms on an idle
// machine).
func TestCancellationIsNoticed(t *testing.T) {
	big := Vectors{Data: make([]float32, 40_000*256), Rows: 40_000, Dim: 256}
	budget := cores.New(2)
	e := newEngine(t, Options{Cores: budget})
	out := make([]float32, 1<<20)
	for name, do := range map[string]func(context.Context) error{
		"TopK": func(ctx context.Context) error { _, err := e.TopK(ctx, big, big, kernels.L2, 5, nil); return err },
		"Matrix": func(ctx context.Context) error {
			return e.Matrix(ctx, out[:26*40_000], slab(big, 26), big,
				kernels.L2)
		},
		"BoundedMatrix": func(ctx context.Context) (err error) {
			for err == nil { // an operation may finish too early
				_, err = e.BoundedMatrix(ctx, out, 40_000, slab(big, 26), big, kernels.Cosine, kernels.F32)
			}
			return err
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		var at atomic.Int64
		time.AfterFunc(30*time.Millisecond, func() { at.Store(time.Now().UnixNano()); cancel() })
		err := do(ctx)
		if err == nil && name == "Matrix" {
			t.Logf("%s was over before", name)
		} else if !errors.Is(err, context.Canceled) || budget.Free() != 2 {
			t.Errorf("%s: %v, %d of 2 tokens", name, err, budget.Free())
		} else {
			t.Logf("%s stopped %v after the cancellation", name, time.Duration(time.Now().UnixNano()-at.Load()))
		}
		cancel()
	}
}

func slab(v Vectors, n int) Vectors { return Vectors{Data: v.Data, Rows: n, Dim: v.Dim} }

// TestMoreThreadsThanCores compares with the results of one thread.
func TestMoreThreadsThanCores(t *testing.T) {
	rng := rand.New(rand.NewPCG(75, 1))
	a, b := plain(rng, 100, 24), plain(rng, 200, 24)
	many := newEngine(t, Options{Threads: 64, Cores: cores.New(64), TileRows: 32})
	if many.Describe().Threads != 64 {
		t.Fatalf("%+v", many.Describe())
	}
	for name, do := range operations(kernels.IP) {
		want, err := do(context.Background(), newEngine(t, Options{Threads: 1}), a, b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := do(context.Background(), many, a, b); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: another result, %v", name, err)
		}
	}
}

// TestMissingInstructionSets checks that instruction sets that this build or machine lacks are refused by name, as are
// types without tiles.
func TestMissingInstructionSets(t *testing.T) {
	var here []string
	for _, isa := range cpu.Available() {
		here = append(here, isa.String())
	}
	for _, name := range []string{"scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "amx", "neon", "sse9"} {
		e, err := open(Options{ISA: name})
		if !slices.Contains(here, name) {
			if e != nil || !errors.Is(err, kernels.ErrISA) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, which is not here: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		v := good()
		for dtype := range kernels.DTypes {
			_, err := e.BoundedMatrix(context.Background(), make([]float32, 9), 3, v, v, kernels.IP, dtype)
			if has := slices.Contains(e.DTypes(), dtype); has != (err == nil) || err != nil &&
				!errors.Is(err, kernels.ErrISA) {
				t.Errorf("%s, %s: %v", name, dtype, err)
			}
		}
	}
}

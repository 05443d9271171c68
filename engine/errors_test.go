package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {MemLimit: -1}, {TileRows: -1}} {
		if _, err := New(o); !errors.Is(err, kernels.ErrArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := New(Options{ISA: "sse9"}); !errors.Is(err, kernels.ErrISA) {
		t.Errorf("unknown ISA: %v", err)
	}
	t.Setenv("SLUICE_ISA", "mmx")
	if _, err := New(Options{}); !errors.Is(err, kernels.ErrISA) || !strings.Contains(err.Error(), "SLUICE_ISA") {
		t.Errorf("unknown SLUICE_ISA: %v", err)
	}
	if _, err := New(Options{ISA: "go"}); err != nil {
		t.Errorf("the option goes before the environment: %v", err)
	}
}

func TestDescribe(t *testing.T) {
	t.Setenv("SLUICE_ISA", "")
	e := newEngine(t, Options{Threads: 99, Cores: cores.New(3)})
	c := e.Describe()
	if c.ISA != cpu.Available()[0].String() || c.Threads != 3 || c.Device != e.r.Describe().Name || c.Kernel == "" ||
		c.Reason == "" {
		t.Errorf("%+v", c)
	}
	t.Setenv("SLUICE_ISA", "go")
	if c := newEngine(t, Options{}).Describe(); c.ISA != "go" || !strings.Contains(c.Reason, "SLUICE_ISA") {
		t.Errorf("%+v", c)
	}
}

func good() Vectors { return Vectors{Data: make([]float32, 12), Rows: 3, Dim: 4} }

func with(change func(*Vectors)) Vectors {
	v := good()
	change(&v)
	return v
}

// TestBadVectors: every operation refuses every bad operand on either side, by type.
func TestBadVectors(t *testing.T) {
	e, ctx := newEngine(t, Options{}), context.Background()
	operations := map[string]func(a, b Vectors) error{
		"Matrix": func(a, b Vectors) error {
			return e.Matrix(ctx, make([]float32, max(0, min(9, a.Rows*b.Rows))), a, b, kernels.IP)
		},
		"TopK": func(a, b Vectors) error { _, err := e.TopK(ctx, a, b, kernels.Cosine, 2, nil); return err },
		"Distribution": func(a, b Vectors) error {
			_, err := e.Distribution(ctx, DistributionInput{Contexts: b, Queries: a, Owner: make([]int32, 3)})
			return err
		},
		"Max, AnyAbove": func(a, b Vectors) error {
			if a.Rows != 3 || a.Dim != 4 || len(a.Data) != 12 || a.Stride != 0 { // one query cannot be bad in this way
				return errors.Join(kernels.ErrShape)
			}
			_, _, err := e.Max(ctx, a.Data[4:8], b, kernels.L2, nil)
			_, _, err2 := e.AnyAbove(ctx, a.Data[4:8], b, kernels.L2, nil, 0)
			if (err == nil) != (err2 == nil) {
				t.Errorf("Max %v, AnyAbove %v", err, err2)
			}
			return err
		},
	}
	for name, c := range map[string]struct {
		v    Vectors
		want error
	}{
		"negative rows": {with(func(v *Vectors) { v.Rows = -1 }), kernels.ErrShape},
		"dimension 0":   {with(func(v *Vectors) { v.Dim = 0 }), kernels.ErrShape},
		"stride":        {with(func(v *Vectors) { v.Stride = 3 }), kernels.ErrShape},
		"short":         {with(func(v *Vectors) { v.Data = v.Data[:11] }), kernels.ErrShape},
		"overflow":      {with(func(v *Vectors) { v.Stride = math.MaxInt }), kernels.ErrShape},
		"other dim":     {with(func(v *Vectors) { v.Dim, v.Stride = 3, 4 }), kernels.ErrShape},
		"NaN":           {with(func(v *Vectors) { v.Data[6] = float32(math.NaN()) }), kernels.ErrNonFinite},
		"+Inf":          {with(func(v *Vectors) { v.Data[6] = float32(math.Inf(1)) }), kernels.ErrNonFinite},
		"-Inf":          {with(func(v *Vectors) { v.Data[6] = float32(math.Inf(-1)) }), kernels.ErrNonFinite},
	} {
		for op, run := range operations {
			for side, err := range map[string]error{"left": run(c.v, good()), "right": run(good(), c.v)} {
				if !errors.Is(err, c.want) {
					t.Errorf("%s, %s on the %s: %v, want %v", op, name, side, err, c.want)
				}
				if c.want == kernels.ErrNonFinite && err != nil && !strings.Contains(err.Error(), "column 2") {
					t.Errorf("%s: %q names no column", op, err)
				}
			}
		}
	}
}

func TestNonFiniteNamesTheLowestRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 1))
	c := plain(rng, 5000, 16)
	c.Data[4000*16+3], c.Data[777*16+5], c.Data[777*16+9] = float32(math.Inf(1)), float32(math.NaN()),
		float32(math.NaN())
	for name, e := range engines(t) {
		for range 3 {
			_, err := e.TopK(context.Background(), plain(rng, 9, 16), c, kernels.Cosine, 1, nil)
			if !errors.Is(err, kernels.ErrNonFinite) || !strings.Contains(err.Error(), "contexts") ||
				!strings.Contains(err.Error(), "row 777, column 5 is NaN") {
				t.Fatalf("%s: %v", name, err)
			}
		}
		q := plain(rng, 1, 16).Data
		// Whether a witness or the bad row comes first decides, not the tiling.
		w, above, err := e.AnyAbove(context.Background(), q, c, kernels.L2, BiasList{{Row: 776, Value: 1e9}}, -1e6)
		if err != nil || !above || w.Row != 776 {
			t.Fatalf("%s: witness before the bad row: %v %v %v", name, w, above, err)
		}
		if _, above, err = e.AnyAbove(context.Background(), q, c, kernels.L2, BiasList{{Row: 778, Value: 1e9}},
			-1e6); above || !errors.Is(err, kernels.ErrNonFinite) {
			t.Fatalf("%s: witness behind the bad row: %v %v", name, above, err)
		}
	}
}

func TestBadArguments(t *testing.T) {
	e, ctx, v := newEngine(t, Options{}), context.Background(), good()
	topK := func(k int, metric kernels.Metric, bias []Biases) error {
		_, err := e.TopK(ctx, v, v, metric, k, bias)
		return err
	}
	lists := func(b ...Bias) []Biases { return []Biases{nil, BiasList(b), nil} }
	dist := func(change func(*DistributionInput)) error {
		in := DistributionInput{Contexts: v, Queries: v, Owner: []int32{0, 1, 2}}
		change(&in)
		d, err := e.Distribution(ctx, in)
		if err != nil && d != nil {
			t.Error("an error and a result")
		}
		return err
	}
	anyAbove := func(tau float64) error {
		_, _, err := e.AnyAbove(ctx, v.Data[:4], v, kernels.Cosine, nil, tau)
		return err
	}
	for name, c := range map[string]struct{ err, want error }{
		"k 0":               {topK(0, 0, nil), kernels.ErrArgument},
		"k -1":              {topK(-1, 0, nil), kernels.ErrArgument},
		"metric":            {topK(1, 9, nil), kernels.ErrMetric},
		"bias lists":        {topK(1, 0, lists()[:2]), kernels.ErrShape},
		"bias unsorted":     {topK(1, 0, lists(Bias{Row: 2, Value: 1}, Bias{Row: 1, Value: 1})), kernels.ErrArgument},
		"bias twice":        {topK(1, 0, lists(Bias{Row: 1, Value: 1}, Bias{Row: 1, Value: 1})), kernels.ErrArgument},
		"bias negative":     {topK(1, 0, lists(Bias{Row: 1, Value: -1})), kernels.ErrArgument},
		"bias NaN":          {topK(1, 0, lists(Bias{Row: 1, Value: math.NaN()})), kernels.ErrNonFinite},
		"bias infinite":     {topK(1, 0, lists(Bias{Row: 1, Value: math.Inf(1)})), kernels.ErrNonFinite},
		"bias row":          {topK(1, 0, lists(Bias{Row: 3, Value: 1})), kernels.ErrArgument},
		"bias row negative": {topK(1, 0, lists(Bias{Row: -1, Value: 1})), kernels.ErrArgument},
		"tau":               {anyAbove(math.NaN()), kernels.ErrNonFinite},
		"matrix size":       {e.Matrix(ctx, make([]float32, 8), v, v, 0), kernels.ErrShape},
		"matrix metric":     {e.Matrix(ctx, make([]float32, 9), v, v, 3), kernels.ErrMetric},
		"owner count":       {dist(func(in *DistributionInput) { in.Owner = in.Owner[:2] }), kernels.ErrShape},
		"owner high":        {dist(func(in *DistributionInput) { in.Owner[1] = 3 }), kernels.ErrArgument},
		"owner low":         {dist(func(in *DistributionInput) { in.Owner[1] = -1 }), kernels.ErrArgument},
		"no contexts":       {dist(func(in *DistributionInput) { in.Contexts = Vectors{} }), kernels.ErrArgument},
		"groups":            {dist(func(in *DistributionInput) { in.Group = []int32{1} }), kernels.ErrShape},
		"quantile": {dist(func(in *DistributionInput) { in.Quantiles = []float64{.5, 1.01} }),
			kernels.ErrArgument},
		"quantile NaN": {dist(func(in *DistributionInput) { in.Quantiles = []float64{math.NaN()} }),
			kernels.ErrArgument},
		"bins": {dist(func(in *DistributionInput) { in.Bins = -1 }), kernels.ErrArgument},
		"kind": {dist(func(in *DistributionInput) { in.Negatives.Kind = 3 }), kernels.ErrArgument},
		"per query": {dist(func(in *DistributionInput) { in.Negatives.Kind = NegativesSample }),
			kernels.ErrArgument},
		"fine": {dist(func(*DistributionInput) {}), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 1))
	in := randomInput(rng, 300, 200, 32, 3, NegativesAll, kernels.Cosine)
	small := newEngine(t, Options{MemLimit: 1000})
	out := make([]float32, in.Queries.Rows*in.Contexts.Rows)
	_, topK := small.TopK(context.Background(), in.Queries, in.Contexts, kernels.IP, 1, nil)
	_, distribution := small.Distribution(context.Background(), in)
	for name, err := range map[string]error{
		"Matrix":       small.Matrix(context.Background(), out, in.Queries, in.Contexts, kernels.IP),
		"TopK":         topK,
		"Distribution": distribution,
		"explicit tile": newEngine(t, Options{MemLimit: 100_000, TileRows: 200}).
			Matrix(context.Background(), out, in.Queries, in.Contexts, kernels.IP),
	} {
		if !errors.Is(err, kernels.ErrMemoryLimit) || !strings.Contains(err.Error(), "need at least") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Just enough is enough: fewer workers, smaller tiles, ranks by counting, the same result.
	in.Bins = 10
	want, err := newEngine(t, Options{}).Distribution(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	tight := newEngine(t, Options{MemLimit: 600_000})
	got, err := tight.Distribution(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if want.NegativeSummary.Mean != got.NegativeSummary.Mean ||
		want.NegativeSummary.Quantiles[3] != got.NegativeSummary.Quantiles[3] {
		t.Errorf("%+v, want %+v", got.NegativeSummary, want.NegativeSummary)
	}
}

// TestCancellation: an operation of many seconds stops soon after its context, leaks no goroutine
// (TestMain), gives all tokens back and returns no result. The bound is wide because the machine may
// be busy; the promise is 200 ms.
func TestCancellation(t *testing.T) {
	budget := cores.New(3)
	e := newEngine(t, Options{ISA: "go", Cores: budget})
	c := Vectors{Data: make([]float32, 250_000*64), Rows: 250_000, Dim: 64} // 6·10¹⁰ pairs
	in := DistributionInput{Contexts: c, Queries: c, Owner: make([]int32, c.Rows), Quantiles: []float64{.5}}
	for name, run := range map[string]func(ctx context.Context) (any, error){
		"Distribution": func(ctx context.Context) (any, error) {
			d, err := e.Distribution(ctx, in)
			return d != nil,
				err
		},
		"TopK": func(ctx context.Context) (any, error) {
			h, err := e.TopK(ctx, c, c, kernels.IP, 3, nil)
			return h != nil, err
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		start := time.Now()
		if result, err := run(ctx); !errors.Is(err, context.Canceled) || result != false {
			t.Errorf("%s: %v, %v", name, result, err)
		}
		t.Logf("%s returned %v after the cancellation", name, time.Since(start)-50*time.Millisecond)
		if since := time.Since(start); since > 20*time.Second {
			t.Errorf("%s took %v", name, since)
		}
		if budget.Free() != 3 {
			t.Errorf("%s: %d of 3 tokens came back", name, budget.Free())
		}
		cancel()
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := e.Max(done, c.Data[:64], c, kernels.IP, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("done before: %v", err)
	}
}

// TestProgress: called from one goroutine at a time, never backwards, to the end.
func TestProgress(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	var last, total int64
	var calls sync.Mutex
	e := newEngine(t, Options{TileRows: 8, Progress: func(done, all int64) {
		if !calls.TryLock() {
			t.Error("two calls at once")
			return
		}
		defer calls.Unlock()
		if done < last || done > all {
			t.Errorf("done %d after %d of %d", done, last, all)
		}
		last, total = done, all
	}})
	in := randomInput(rng, 70, 90, 16, 0, NegativesAll, kernels.IP)
	if _, err := e.Distribution(context.Background(), in); err != nil {
		t.Fatal(err)
	}
	if want := int64(2 * 70 * 90); last != want || total != want {
		t.Errorf("ended at %d of %d, want %d", last, total, want)
	}
}

// TestShare: two long operations on one token both finish, because each yields between tiles.
func TestShare(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 1))
	e := newEngine(t, Options{Cores: cores.New(1), TileRows: 16})
	in := randomInput(rng, 200, 200, 16, 4, NegativesCrossGroup, kernels.L2)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := e.Distribution(context.Background(), in); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if e.r.Pool.Budget.Free() != 1 {
		t.Errorf("%d tokens free at the end", e.r.Pool.Budget.Free())
	}
}

package engine

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// TestMain looks for goroutines that are left, but for that of the one GPU of a run on CUDA.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/sluice-rag/sluice/cuda.(*Device).thread"))
}

var metrics = []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}

func newEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	if o.Cores == nil {
		o.Cores = cores.New(4) // more than this machine may have, so that threads really interleave
	}
	e, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	d, ok := e.r.Device.(*devicetest.StandIn)
	if s, is := e.gpu().(*device.Shared); is {
		d, ok = s.Device.(*devicetest.StandIn)
	}
	if ok {
		t.Cleanup(func() {
			if n := d.Live(); n != 0 {
				t.Errorf("%d sets and copies of rows are left on the device", n)
			}
		})
	}
	return e
}

// open is New on the device of the tests.
func open(o Options) (*Engine, error) {
	if devicetest.OnGPU() && o.Device == "" {
		o.Device = DeviceCUDA
		return newOn(o, devicetest.Open,
			func(_ []int, _ int64, k cpu.Kernels) (device.Device, string, func() error, error) {
				d := devicetest.NewStandIn(k)
				d.Memory = 1 << 30
				return d, "", func() error { return nil }, nil
			})
	}
	return newOn(o, devicetest.Open, noGPU)
}

var errNoGPU = errors.New("no GPU in this test")

func noGPU([]int, int64, cpu.Kernels) (device.Device, string, func() error, error) {
	return nil, "", nil, errNoGPU
}

// isas returns the instruction sets that a test goes through; other devices have none.
func isas() []cpu.ISA {
	if devicetest.OnStandIn() || devicetest.OnCUDA() || race.Enabled { // instruction sets differ in C only
		return cpu.Available()[:1]
	}
	return cpu.Available()
}

// engines are engines that must agree in every bit: each instruction set, odd tiles, one and more threads.
func engines(t testing.TB) map[string]*Engine {
	all := map[string]*Engine{
		"1 thread":  newEngine(t, Options{Threads: 1}),
		"4 threads": newEngine(t, Options{Threads: 4}),
		"tiny tile": newEngine(t, Options{Threads: 3, TileRows: 3}),
		"one tile":  newEngine(t, Options{Threads: 2, TileRows: 100_000}),
	}
	for _, isa := range isas() {
		all[isa.String()] = newEngine(t, Options{ISA: isa.String(), TileRows: 7})
	}
	return all
}

// The sets of vectors that many tests compare.
var (
	vectors = testvectors.Any
	plain   = testvectors.Embeddings
	mixture = testvectors.Mixture
)

// difference is cmp.Diff, which takes long for long results, asked only where there is a difference.
func difference(want, got any, options ...cmp.Option) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, options...)
}

func rows(v Vectors) [][]float32 {
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	out := make([][]float32, v.Rows)
	for i := range out {
		out[i] = v.Data[i*stride : i*stride+v.Dim]
	}
	return out
}

// computed is a list that searches do not see as one: they read it.
type computed struct{ BiasList }

func biasMap(biases Biases) map[int]float64 {
	m := make(map[int]float64)
	list, _ := biases.(BiasList)
	if c, ok := biases.(computed); ok {
		list = c.BiasList
	}
	for _, b := range list {
		m[b.Row] = b.Value
	}
	return m
}

func refHits(hits []ref.Hit) []Hit {
	var out []Hit
	for _, h := range hits {
		out = append(out, Hit(h))
	}
	return out
}

// searches are operations over the rows of a set, or some of them.
type searches interface {
	TopK(ctx context.Context, q Vectors, k int, bias []Biases) ([][]Hit, error)
	MaxAll(ctx context.Context, q Vectors, bias []Biases) ([]Hit, error)
	AnyAboveAll(ctx context.Context, q Vectors, bias []Biases, tau float64) ([]Decision, error)
	Max(ctx context.Context, q []float32, bias Biases) (best Hit, ok bool, err error)
	AnyAbove(ctx context.Context, q []float32, bias Biases, tau float64) (Hit, bool, error)
}

// preparedSet has the engine's operations over the rows of a set.
type preparedSet struct{ *Set }

func (x preparedSet) Rows() int { return x.Describe().Rows }

func (x preparedSet) TopK(ctx context.Context, q Vectors, k int, bias []Biases) ([][]Hit, error) {
	return x.e.TopK(ctx, q, x.Vectors(), x.Metric(), k, bias)
}

func (x preparedSet) MaxAll(ctx context.Context, q Vectors, bias []Biases) ([]Hit, error) {
	return x.e.MaxAll(ctx, q, x.Vectors(), x.Metric(), bias)
}

func (x preparedSet) AnyAboveAll(ctx context.Context, q Vectors, bias []Biases, tau float64) ([]Decision, error) {
	return x.e.AnyAboveAll(ctx, q, x.Vectors(), x.Metric(), bias, tau)
}

func (x preparedSet) Max(ctx context.Context, q []float32, bias Biases) (best Hit, ok bool, err error) {
	return x.e.Max(ctx, q, x.Vectors(), x.Metric(), bias)
}

func (x preparedSet) AnyAbove(ctx context.Context, q []float32, bias Biases, tau float64) (Hit, bool, error) {
	return x.e.AnyAbove(ctx, q, x.Vectors(), x.Metric(), bias, tau)
}

// prepare is Prepare; the set is closed after the test.
func prepare(t testing.TB, e *Engine, v Vectors, metric kernels.Metric, o SetOptions) preparedSet {
	t.Helper()
	s, err := e.Prepare(context.Background(), v, metric, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return preparedSet{s}
}

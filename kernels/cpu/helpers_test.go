package cpu_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

var metrics = []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}

func forEachISA(t *testing.T, test func(t *testing.T, k Kernels)) {
	for _, isa := range []ISA{Scalar, AVX2, AVX512, AVX512VNNI, AMX, Go} {
		t.Run(isa.String(), func(t *testing.T) {
			k, err := Open(isa.String())
			if errors.Is(err, kernels.ErrISA) {
				t.Skipf("SKIP: %v", err)
			}
			if err != nil || k.ISA() != isa {
				t.Fatalf("Open: %v, %v", k.ISA(), err)
			}
			test(t, k)
		})
	}
}

// plainGo are the kernels without C.
var plainGo = kernelsOf(Go)

func kernelsOf(isa ISA) Kernels { return must(Open(isa.String())) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// field is a field that the package keeps to itself, of the struct that of points to.
func field[T any](of any, name string) *T {
	return (*T)(reflect.ValueOf(of).Elem().FieldByName(name).Addr().UnsafePointer())
}

// canary surrounds the vectors, fills the gaps between them, and must not show in any result.
var canary = math.Float32frombits(0x7fc0beef)

// guarded makes rows that begin at an odd offset, between NaN canaries, and end where the slice ends.
func guarded(rng *rand.Rand, n, dim, stride int) Rows {
	const before = 5
	size := 0
	if n > 0 {
		size = (n-1)*stride + dim
	}
	data := make([]float32, before+size+16)
	for i := range data {
		data[i] = canary
	}
	r := Rows{Data: data[before : before+size : before+size], N: n, Dim: dim, Stride: stride}
	for i := range n {
		kind := rng.IntN(7)
		for k := range r.Row(i) {
			r.Row(i)[k] = nasty(rng, kind)
		}
	}
	return r
}

func nasty(rng *rand.Rand, kind int) float32 {
	x := float32(rng.NormFloat64())
	switch kind {
	case 0:
		return 0
	case 1:
		return []float32{math.MaxFloat32, -math.MaxFloat32}[rng.IntN(2)]
	case 2:
		return x * 4 * math.SmallestNonzeroFloat32
	case 3:
		return x * float32(math.Pow(2, float64(rng.IntN(240)-120)))
	}
	return x
}

func withNorms(r Rows) Rows {
	for i := range r.N {
		r.Norms = append(r.Norms, ref.Norm(r.Row(i)))
	}
	return r
}

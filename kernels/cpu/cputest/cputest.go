// Package cputest has helpers for the tests of the CPU kernels: instruction sets, vectors with unusual values, and
// memory with guarded ends.
package cputest

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// Metrics lists all metrics.
var Metrics = []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2}

// sets returns the instruction sets of the architecture.
func sets() []cpu.ISA {
	if runtime.GOARCH == "arm64" {
		return []cpu.ISA{cpu.Scalar, cpu.NEON, cpu.DotProd, cpu.I8MM, cpu.BF16, cpu.Go}
	}
	return []cpu.ISA{cpu.Scalar, cpu.AVX2, cpu.AVXVNNI, cpu.AVX512, cpu.AVX512VNNI, cpu.AMX, cpu.Go}
}

// ForEachISA runs a test for every instruction set of this machine.
func ForEachISA(t *testing.T, test func(t *testing.T, k cpu.Kernels)) {
	for _, isa := range sets() {
		t.Run(isa.String(), func(t *testing.T) {
			k, err := cpu.Open(isa.String())
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

// PlainGo returns the kernels without C.
var PlainGo = KernelsOf(cpu.Go)

// KernelsOf returns the kernels of an instruction set that this machine has.
func KernelsOf(isa cpu.ISA) cpu.Kernels { return Must(cpu.Open(isa.String())) }

// Must returns v; it is for calls that cannot fail.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Field returns an unexported field of the struct that of points to.
func Field[T any](of any, name string) *T {
	return (*T)(reflect.ValueOf(of).Elem().FieldByName(name).Addr().UnsafePointer())
}

// Canary surrounds the vectors and fills the gaps between them; it must not affect any result.
var Canary = math.Float32frombits(0x7fc0beef)

// Guarded makes rows that begin at an odd offset, between NaN canaries, and end where the slice ends.
func Guarded(rng *rand.Rand, n, dim, stride int) cpu.Rows {
	const before = 5
	size := 0
	if n > 0 {
		size = (n-1)*stride + dim
	}
	data := make([]float32, before+size+16)
	for i := range data {
		data[i] = Canary
	}
	r := cpu.Rows{Data: data[before : before+size : before+size], N: n, Dim: dim, Stride: stride}
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

// WithNorms returns r with its norms.
func WithNorms(r cpu.Rows) cpu.Rows {
	for i := range r.N {
		r.Norms = append(r.Norms, ref.Norm(r.Row(i)))
	}
	return r
}

// RandomRows returns n rows of dim values without gaps, with norms.
func RandomRows(rng *rand.Rand, n, dim int) cpu.Rows {
	r := cpu.Rows{Data: make([]float32, n*dim), N: n, Dim: dim, Stride: dim}
	for i := range r.Data {
		r.Data[i] = float32(rng.NormFloat64())
	}
	return WithNorms(r)
}

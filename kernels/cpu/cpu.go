// Package cpu is the CPU implementation of the kernels: one C body, compiled per instruction set
// (slc.h is the contract), behind a small Go type. Kernels are single-threaded and allocate nothing;
// tiles, threads and memory belong to package engine.
//
// Without cgo, or on an architecture other than amd64 and arm64, kernels/ref runs instead and
// ISA() says "go". All of them give the same bits.
package cpu

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/kernels"
)

// ISA names an instruction set that kernels are built for.
type ISA uint8

// The instruction sets, numbered like slc.h; Go stands for kernels/ref.
const (
	Scalar     ISA = iota // baseline of the compiler's target: SSE2 or NEON
	AVX2                  // with FMA
	AVX512                // F, DQ, VL
	AVX512VNNI            // also BW, VNNI: 8-bit tiles
	AMX                   // also AMX-BF16, AMX-INT8: bfloat16 tiles
	Go
)

var isaNames = [...]string{Scalar: "scalar", AVX2: "avx2", AVX512: "avx512", AVX512VNNI: "avx512vnni", AMX: "amx", Go: "go"}

func (i ISA) String() string { return isaNames[i] }

// Rows is a view of N vectors of Dim elements, Stride apart, with their norms where a cosine needs
// them: Dim ≤ Stride, len(Data) ≥ (N−1)·Stride + Dim, len(Norms) ≥ N. Anything else is
// kernels.ErrShape.
type Rows struct {
	Data           []float32
	Norms          []float64
	N, Dim, Stride int
}

// Row is vector i.
func (r Rows) Row(i int) []float32 { return r.Data[i*r.Stride : i*r.Stride+r.Dim] }

// Slice is the view of the rows [from, to).
func (r Rows) Slice(from, to int) Rows {
	s := Rows{N: to - from, Dim: r.Dim, Stride: r.Stride}
	if to > from {
		s.Data = r.Data[from*r.Stride : (to-1)*r.Stride+r.Dim]
	}
	if r.Norms != nil {
		s.Norms = r.Norms[from:to]
	}
	return s
}

// Kernels are the kernels of one instruction set.
type Kernels struct{ isa ISA }

// Open returns the kernels of the named instruction set ("scalar", "avx2", "avx512", "avx512vnni", "amx", "go"), or the
// best of this machine for "". One that the machine or the build lacks is kernels.ErrISA.
func Open(name string) (Kernels, error) {
	available := Available()
	if name == "" {
		return Kernels{available[0]}, nil
	}
	for _, isa := range available {
		if isa.String() == name {
			return Kernels{isa}, nil
		}
	}
	names := make([]string, len(available))
	for i, isa := range available {
		names[i] = isa.String()
	}
	return Kernels{}, fmt.Errorf("%w: %q (this build on this machine has: %s)", kernels.ErrISA, name, strings.Join(names, ", "))
}

// ISA is the instruction set in use.
func (k Kernels) ISA() ISA { return k.isa }

// Name is the family of the canonical score kernels in slc.h, without the metric: they settle what is
// exact. VNNI and AMX add tile kernels only.
func (k Kernels) Name() string {
	if k.isa == Go {
		return "ref_scores_f32"
	}
	return "slc_scores_f32_" + min(k.isa, AVX512).String()
}

// Scores writes out[i*stride+j] = canonical score of a's row i and b's row j.
func (k Kernels) Scores(m kernels.Metric, out []float64, stride int, a, b Rows) error {
	if m > kernels.L2 {
		return fmt.Errorf("%w: %s", kernels.ErrMetric, m)
	}
	if a.N == 0 || b.N == 0 {
		return nil
	}
	if a.Dim != b.Dim || stride < b.N || len(out) < (a.N-1)*stride+b.N {
		return fmt.Errorf("%w: scores of %d×%d and %d×%d rows into %d values with stride %d",
			kernels.ErrShape, a.N, a.Dim, b.N, b.Dim, len(out), stride)
	}
	for _, r := range []Rows{a, b} {
		if err := r.check(m == kernels.Cosine); err != nil {
			return err
		}
	}
	return k.scores(m, out, stride, a, b)
}

// Norms writes the rows' norms to out.
func (k Kernels) Norms(out []float64, a Rows) error {
	if len(out) < a.N {
		return fmt.Errorf("%w: norms of %d rows into %d values", kernels.ErrShape, a.N, len(out))
	}
	if err := a.check(false); err != nil {
		return err
	}
	return k.norms(out, a)
}

// NonFinite returns the first row that holds a NaN or an infinity, or −1.
func (k Kernels) NonFinite(a Rows) (int, error) {
	if err := a.check(false); err != nil {
		return 0, err
	}
	return k.nonFinite(a)
}

func (r Rows) check(norms bool) error {
	short := r.N > 0 && (len(r.Data) < r.Dim || r.N-1 > (len(r.Data)-r.Dim)/max(r.Stride, 1))
	if r.N < 0 || r.Dim < 0 || r.Stride < r.Dim || short {
		return fmt.Errorf("%w: %d rows of %d elements with stride %d in %d values", kernels.ErrShape, r.N, r.Dim, r.Stride, len(r.Data))
	}
	if norms && len(r.Norms) < r.N {
		return fmt.Errorf("%w: %d norms of %d rows", kernels.ErrShape, len(r.Norms), r.N)
	}
	return nil
}

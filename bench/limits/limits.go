// Package limits measures what the machine can do at most: how fast it reads memory and how many
// multiply-adds its units finish, with nothing else in the way. A bench divides its times by these.
//
// It needs cgo on amd64 or arm64; elsewhere Measure is ErrUnavailable.
package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/sluice-rag/sluice/kernels"
)

// Limits of the machine with a number of threads, each the best of several tries. Operations count a
// multiply-add as two. A unit that the machine lacks is 0.
type Limits struct {
	Threads   int     `json:"threads"`
	Read      float64 `json:"read_bytes_per_s"` // from memory, larger than any cache
	FMABase   float64 `json:"fma_base_per_s"`   // fp32 without extensions: SSE2 (multiply and add) or NEON
	FMAAVX2   float64 `json:"fma_avx2_per_s"`
	FMAAVX512 float64 `json:"fma_avx512_per_s"`
	VNNI      float64 `json:"vnni_i8_per_s"`
	AMXBF16   float64 `json:"amx_bf16_per_s"`
	AMXI8     float64 `json:"amx_i8_per_s"`
}

// Best returns the higher of each limit, because any disturbance makes a measurement smaller.
func (l Limits) Best(o Limits) Limits {
	return Limits{
		Threads: o.Threads, Read: max(l.Read, o.Read), FMABase: max(l.FMABase, o.FMABase),
		FMAAVX2:   max(l.FMAAVX2, o.FMAAVX2),
		FMAAVX512: max(l.FMAAVX512, o.FMAAVX512), VNNI: max(l.VNNI, o.VNNI), AMXBF16: max(l.AMXBF16, o.AMXBF16),
		AMXI8: max(l.AMXI8, o.AMXI8),
	}
}

// FMA returns the fp32 peak of the best unit.
func (l Limits) FMA() float64 { return max(l.FMABase, l.FMAAVX2, l.FMAAVX512) }

// Peak returns the peak operations per second in a data type, with instructions up to those of isa ("" or an unknown
// name: all that the machine has). Three bfloat16 products make one of bf16x3, six one of f32; a type without a unit is
// computed by the fp32 unit.
func (l Limits) Peak(dtype kernels.DType, isa string) float64 {
	switch isa {
	case "scalar", "go":
		return l.FMABase
	case "avx2", "avxvnni":
		return max(l.FMABase, l.FMAAVX2)
	case "avx512":
		return l.FMA()
	case "avx512vnni":
		l.AMXBF16, l.AMXI8 = 0, 0
	}
	switch dtype {
	case kernels.F32:
		if isa == "amx" { // libraries multiply float32 as it is
			return max(l.AMXBF16/6, l.FMA())
		}
	case kernels.BF16x3:
		return max(l.AMXBF16/3, l.FMA())
	case kernels.BF16:
		return max(l.AMXBF16, l.FMA())
	case kernels.I8:
		return max(l.AMXI8, l.VNNI, l.FMA())
	case kernels.I16: // half as many products an instruction
		return max(l.VNNI/2, l.FMA())
	}
	return l.FMA()
}

// Time returns the shortest time for a number of operations and of bytes read, which overlap.
func (l Limits) Time(operations, bytes float64, dtype kernels.DType, isa string) time.Duration {
	return time.Duration(max(operations/l.Peak(dtype, isa), bytes/l.Read) * float64(time.Second))
}

// Measure takes about two seconds. memory is the number of bytes to read, which must be well above the last cache's
// size; it is freed at the end.
func Measure(ctx context.Context, threads int, memory int64) (Limits, error) {
	if threads < 1 || memory < 1<<20 {
		return Limits{}, fmt.Errorf("limits: %w: %d threads, %d bytes", kernels.ErrArgument, threads, memory)
	}
	return measure(ctx, threads, memory)
}

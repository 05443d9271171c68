package scores

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// Name returns the family of the canonical score kernels in scores.h, without the metric. VNNI, AMX and
// arm64's dot products extend only kernels of other families.
func Name(k cpu.Kernels) string {
	isa := k.ISA()
	switch isa {
	case cpu.Go:
		return "ref_scores_f32"
	case cpu.AVXVNNI:
		isa = cpu.AVX2
	case cpu.AVX512VNNI, cpu.AMX:
		isa = cpu.AVX512
	case cpu.DotProd, cpu.I8MM, cpu.BF16:
		isa = cpu.NEON
	}
	return "slc_scores_f32_" + isa.String()
}

// Block writes out[i*stride+j] = canonical score of a's row i and b's row j.
func Block(k cpu.Kernels, m kernels.Metric, out []float64, stride int, a, b cpu.Rows) error {
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
	for _, r := range []cpu.Rows{a, b} {
		if err := r.Check(m == kernels.Cosine); err != nil {
			return err
		}
	}
	return scores(k, m, out, stride, a, b)
}

// Norms writes the rows' norms to out.
func Norms(k cpu.Kernels, out []float64, a cpu.Rows) error {
	if len(out) < a.N {
		return fmt.Errorf("%w: norms of %d rows into %d values", kernels.ErrShape, a.N, len(out))
	}
	if err := a.Check(false); err != nil {
		return err
	}
	return norms(k, out, a)
}

// NonFinite returns the first row that contains a NaN or an infinity, or −1.
func NonFinite(k cpu.Kernels, a cpu.Rows) (int, error) {
	if err := a.Check(false); err != nil {
		return 0, err
	}
	return nonFinite(k, a)
}

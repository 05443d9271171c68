package cpu

import (
	"fmt"

	"github.com/sluice-rag/sluice/kernels"
)

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

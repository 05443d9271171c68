package tiles

import (
	"math"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// goPack is the plain Go version of slc_pack, for F32.
func goPack(p *Panels, rows cpu.Rows, order []int32, from, to int) (s Stats) {
	for panel := from; panel < to; panel++ {
		out := p.float32s(panel)
		clear(out)
		for i := range min(Panel, p.N-panel*Panel) {
			v := panel*Panel + i
			row := v
			if order != nil {
				row = int(order[v])
			}
			scale := p.Scale
			if p.Metric == kernels.Cosine {
				scale = 0
				if norm := rows.Norms[row]; norm > 0 {
					scale = 1 / norm
				}
			}
			var norm, residual, exact float64
			for k, x := range rows.Row(row) {
				y := float64(x) * scale
				out[k][i] = float32(y)
				z := float64(out[k][i])
				norm, residual, exact = norm+z*z, residual+(z-y)*(z-y), exact+y*y
			}
			if p.Metric == kernels.L2 {
				p.terms[v] = float32(-exact / 2)
			}
			s.Norm, s.Residual = max(s.Norm, norm), max(s.Residual, residual)
		}
	}
	const up = 1 + 1e-9 // more than the error of the sums above
	s.Norm, s.Residual = up*math.Sqrt(s.Norm), up*math.Sqrt(s.Residual)
	return s
}

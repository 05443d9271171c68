package statistics

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/kernels"
)

// TestKeepIsCounting: a narrowed part is what counting with its brackets gives.
func TestKeepIsCounting(t *testing.T) {
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		in := partInput(10)
		in.Metric, in.Quantiles = metric, []float64{.1, .5}
		for c := range in.Contexts.Rows {
			in.Group = append(in.Group, int32(c%3))
		}
		tune := DefaultTuning()
		tune.MinSamples = 1 << 14
		r := &newTestEngine(t, 0).r
		_, b, kept, err := Keep(t.Context(), r, tune, in, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		counted, err := ComputePart(t.Context(), r, tune, in, b,
			distribution.Block{Contexts: [2]int{0, in.Contexts.Rows}, Queries: [2]int{0, in.Queries.Rows}})
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Ranges) != 2 || kept.Bytes() > 2*100_000+50*1200 {
			t.Errorf("%v: %v, %d bytes", metric, b.Ranges, kept.Bytes())
		}
		if x, y := content(kept), content(counted); !slices.Equal(x, y) {
			t.Errorf("%v: %d kept and counted below, and %d: not the same", metric, len(x), len(y))
		}
	}
}

// content is what a part's counts say, in an order that does not depend on the way they were made: for each range how
// many pairs lie below, and each kept pair's ids and value.
func content(p *Part) (lines []string) {
	for i, n := range p.below {
		lines = append(lines, fmt.Sprintf("range %d below %d", i, n))
	}
	for _, r := range p.kept {
		for _, e := range r.entries {
			lines = append(lines,
				fmt.Sprintf("%d %d %v", p.contexts[r.row+int32(e.At>>16)], p.queries[r.lane+int32(e.At&0xffff)],
					e.Value))
		}
	}
	slices.Sort(lines)
	return lines
}

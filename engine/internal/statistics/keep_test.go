package statistics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
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

// TestMergeReadsWhatIsNear: of a kept part, a merge reads runs near the quantiles only; of the others it takes the
// range and the number. What it reads it checks.
func TestMergeReadsWhatIsNear(t *testing.T) {
	in := partInput(10)
	in.Quantiles = []float64{.1, .5}
	tune := DefaultTuning()
	tune.MinSamples = 1 << 14
	r := &newTestEngine(t, 0).r
	want, of, p, err := Keep(t.Context(), r, tune, in, 400_000)
	if err != nil {
		t.Fatal(err)
	}
	tried, read := 0, 0
	for i := 0; i < len(p.kept); i += 50 {
		k := p.kept[i]
		p.kept[i].entries = slices.Repeat([]device.Entry{{Value: k.low, At: math.MaxUint32}}, len(k.entries))
		got, err := Merge(t.Context(), r, tune, in, of, p)
		tried++
		switch {
		case errors.Is(err, distribution.ErrPart):
			read++
		case err != nil || !slices.Equal(got.NegativeSummary.Quantiles, want.NegativeSummary.Quantiles):
			t.Errorf("run %d of %d: %v, %v", i, len(p.kept), got, err)
		}
		p.kept[i].entries = k.entries
	}
	if tried < 20 || read > tried/10 {
		t.Errorf("%d of %d runs were read", read, tried)
	}
}

// content returns what a part's counts say, in an order that does not depend on the way they were made: for each range
// how many pairs lie below, and each kept pair's ids and value.
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

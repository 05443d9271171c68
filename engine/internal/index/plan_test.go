package index

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels/cpu/scan"
)

// A plan has each plane once, the upper one of a section before the lower one and the sections in their order, also
// where norms of a query overflow (l2, far from all rows) and no gain can be compared with another.
func TestPlan(t *testing.T) {
	inf := math.Inf(1)
	for _, norms := range [][]float64{{3, 2, 1}, {0, 0, 0}, {inf, inf, inf}, {inf, 0, 1}, {math.NaN(), 1, inf}} {
		for _, p := range []scan.SectionProfile{{High: .5, Both: .1, Behind: 1}, {High: 1, Both: 1, Behind: 1}, {}} {
			m := &model{sections: len(norms), profile: []scan.SectionProfile{p, p, p}}
			steps := m.plan(norms, norms, nil)
			sorted := slices.Sorted(slices.Values(steps))
			if !slices.Equal(sorted, []uint8{0, 1, 2, 3, 4, 5}) {
				t.Errorf("norms %v, profile %v: planes %v", norms, p, steps)
			}
			for s := range norms {
				at := slices.Index(steps, uint8(2*s))
				if at > slices.Index(steps, uint8(2*s+1)) || s > 0 && at < slices.Index(steps, uint8(2*s-2)) {
					t.Errorf("norms %v, profile %v: planes %v, section %d comes too early", norms, p, steps, s)
				}
			}
		}
	}
}

package statistics

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/kernels"
)

// TestBinnedWindows: windows that have no room for their canonical scores are settled all the same, by counting first;
// no pair is scored twice for that while there is a temporary file for the scores.
func TestBinnedWindows(t *testing.T) {
	for _, metric := range []kernels.Metric{kernels.Cosine, kernels.IP, kernels.L2} {
		in := partInput(0)
		in.Metric = metric
		bf16 := kernels.BF16 // whose windows hold thousands of scores
		if e := newTestEngine(t, 0); e.r.Has(bf16) {
			in.DType = &bf16
		}
		tune := DefaultTuning()
		tune.Canonical, tune.KeepAll, tune.Recheck = 0, 0, 1<<30
		want, err := Compute(t.Context(), &newTestEngine(t, 0).r, tune, in)
		if err != nil {
			t.Fatal(err)
		}
		const gib = 1 << 30
		once := int64(0)
		// Room for the cells of a window's statistics: of 1,024, and windows of bfloat16 hold thousands of scores.
		few := max(40, want.Rechecked/100)
		for _, c := range []struct{ room, file int64 }{{1, gib}, {few, gib}, {few, 0}, {few, 64}, {3000, gib}} {
			room := c.room
			tune.Scores, tune.Spill = room, c.file
			got, err := Compute(t.Context(), &newTestEngine(t, 0).r, tune, in)
			if err != nil {
				t.Fatal(err)
			}
			where := fmt.Sprintf("%s, room for %d of %d scores, %d bytes of a file", metric, room, want.Rechecked,
				c.file)
			if diff := cmp.Diff(want.NegativeSummary, got.NegativeSummary); diff != "" {
				t.Errorf("%s (-want +got)\n%s", where, diff)
			}
			if room >= few && (got.Way.Passes > 1 || got.Rechecked > 4*want.Rechecked) {
				t.Errorf("%s: %d rechecked, %+v", where, got.Rechecked, got.Way)
			}
			// A cell with more scores than there is room for leaves its statistics to a wider window.
			if room == few && c.file == gib {
				once = got.Rechecked
			}
			if room == few && c.file < gib && got.Rechecked < once+want.Rechecked/2 ||
				room == 3000 && got.Rechecked > want.Rechecked {
				t.Errorf("%s: %d rechecked, %d with a file", where, got.Rechecked, once)
			}
			t.Logf("%s: %d rechecked, %+v", where, got.Rechecked, got.Way)
		}
	}
}

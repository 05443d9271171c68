package statistics

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/kernels"
)

// TestBinnedWindows: windows that have no room for their canonical scores are settled all the same, by counting first.
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
		for _, room := range []int64{1, 40, 3000} {
			tune.Scores = room
			got, err := Compute(t.Context(), &newTestEngine(t, 0).r, tune, in)
			if err != nil {
				t.Fatal(err)
			}
			where := fmt.Sprintf("%s, room for %d of %d scores", metric, room, want.Rechecked)
			if diff := cmp.Diff(want.NegativeSummary, got.NegativeSummary); diff != "" {
				t.Errorf("%s (-want +got)\n%s", where, diff)
			}
			if room >= 40 && (got.Way.Passes > 1 || got.Way.Reason != "" || got.Rechecked > 4*want.Rechecked) {
				t.Errorf("%s: %d rechecked, %+v", where, got.Rechecked, got.Way)
			}
			t.Logf("%s: %d rechecked, %+v", where, got.Rechecked, got.Way)
		}
	}
}

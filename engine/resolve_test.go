package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestAffordable: a window too large by itself goes, and then the largest until the others have room.
func TestAffordable(t *testing.T) {
	for _, c := range []struct {
		sizes       []int64
		limit, room int64
		want        []int64
	}{
		{[]int64{5, 9, 7}, 10, 21, []int64{5, 9, 7}},
		{[]int64{5, 9, 7}, 10, 20, []int64{5, 7}},
		{[]int64{5, 9, 7}, 8, 100, []int64{5, 7}},
		{[]int64{5, 9, 7}, 8, 11, []int64{5}},
		{[]int64{5, 9, 7}, 10, 4, nil},
		{nil, 10, 4, nil},
	} {
		var windows []*window
		for _, n := range c.sizes {
			windows = append(windows, &window{size: n})
		}
		var got []int64
		for _, w := range affordable(windows, c.limit, c.room) {
			got = append(got, w.size)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, limit %d, room %d: %v, want %v", c.sizes, c.limit, c.room, got, c.want)
		}
	}
}

// TestBiasedErrors: bfloat16 rounds one half of the contexts down and the other up by almost all of the bound, so that
// all of the one are below the other by tile values, and above by canonical ones. Windows of the first recheck hold
// one half only.
func TestBiasedErrors(t *testing.T) {
	const n, step = 40, 0x1p-8 // of bfloat16 from 1/2 on
	in := DistributionInput{Quantiles: []float64{.25}, Metric: kernels.IP}
	for i := range n {
		noise := float32(i) * 1e-6 * step
		x := []float32{.625 + .49*step + noise, .25 + 8*step}
		if i%2 == 0 {
			x = []float32{.625 + .51*step + noise, .25}
		}
		in.Contexts.Data = append(in.Contexts.Data, x...)
		in.Queries.Data = append(in.Queries.Data, 1, 0x1p-6)
		in.Owner = append(in.Owner, int32(i))
	}
	in.Contexts.Rows, in.Contexts.Dim, in.Contexts.Stride = n, 2, 2
	in.Queries.Rows, in.Queries.Dim, in.Queries.Stride = n, 2, 2
	want, neg := refDistribution(in)
	for name, e := range boundedEngines(t) {
		in.DType = &e.dtype
		got, err := e.Distribution(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		bounds{}.agree(t, name, in, want, got, neg)
	}
}

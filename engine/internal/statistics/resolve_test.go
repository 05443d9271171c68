package statistics

import (
	"slices"
	"testing"
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

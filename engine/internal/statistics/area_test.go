package statistics

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestAreas: unions of random rectangles hold the pairs that sets of pairs hold, overlaps are found, and equal sets are
// equal areas whatever the order they came in.
func TestAreas(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 3))
	const n = 7
	for range 3000 {
		type pair [2]uint64
		pick := func() (list []uint64) {
			for i := range uint64(n) {
				if rng.IntN(3) > 0 {
					list = append(list, i)
				}
			}
			return list
		}
		var all area
		have := map[pair]bool{}
		for range 4 {
			contexts, queries := pick(), pick()
			twice := false
			for _, q := range queries {
				for _, c := range contexts {
					twice = twice || have[pair{q, c}]
				}
			}
			one, err := newArea(contexts, queries)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := all.plus(one)
			if twice != (err != nil) {
				t.Fatalf("%v and %v: %v", all, one, err)
			}
			if err != nil {
				continue
			}
			if other, err := one.plus(all); err != nil || !reflect.DeepEqual(other, sum) {
				t.Fatalf("%v, the other way round %v, %v", sum, other, err)
			}
			all = sum
			for _, q := range queries {
				for _, c := range contexts {
					have[pair{q, c}] = true
				}
			}
		}
		rebuilt := area(nil)
		order := []pair{}
		for p := range have { // in random order
			order = append(order, p)
		}
		for _, p := range order {
			one, _ := newArea([]uint64{p[1]}, []uint64{p[0]})
			var err error
			if rebuilt, err = rebuilt.plus(one); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(rebuilt, all) {
			t.Fatalf("%v, pair by pair %v", all, rebuilt)
		}
		if err := all.whole(n, n); (err == nil) != (len(have) == n*n) {
			t.Fatalf("%v: %v", all, err)
		}
	}
	if _, err := newArea([]uint64{1, 1}, []uint64{1}); err == nil {
		t.Error("a context that is there twice")
	}
}

package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/kernels"
)

// TestIndexed: an engine with an index says what it says without one, over the index's vectors and others.
func TestIndexed(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	ctx, e := context.Background(), newEngine(t, Options{})
	c, q := plain(rng, 3000, 24), plain(rng, 9, 24)
	same := Vectors{Data: append([]float32(nil), c.Data...), Rows: c.Rows, Dim: c.Dim}
	for _, metric := range metrics {
		x := newIndex(t, e, c, metric, IndexOptions{})
		with := e.Indexed(x)
		for name, v := range map[string]Vectors{
			"its own": c, "its own, stride given": {Data: c.Data, Rows: c.Rows, Dim: c.Dim, Stride: c.Dim},
			"a copy": same, "a part": {Data: c.Data, Rows: 100, Dim: c.Dim}, "every other": {Data: c.Data, Rows: c.Rows / 2, Dim: c.Dim, Stride: 2 * c.Dim}, "none": {},
		} {
			if got, want := x.x.Over(v, metric), name == "its own" || name == "its own, stride given"; got != want {
				t.Errorf("%s %s: held %v", metric, name, got)
			}
			for _, m := range metrics {
				want, err := e.TopK(ctx, q, v, m, 5, nil)
				got, err2 := with.TopK(ctx, q, v, m, 5, nil)
				if diff := cmp.Diff(want, got); diff != "" || err != nil || err2 != nil {
					t.Fatalf("%s in %s, %s: %v, %v\n%s", m, metric, name, err, err2, diff)
				}
				best, ok, err := e.Max(ctx, q.Data[:24], v, m, nil)
				got1, ok1, err2 := with.Max(ctx, q.Data[:24], v, m, nil)
				if best != got1 || ok != ok1 || err != nil || err2 != nil {
					t.Errorf("%s in %s, %s: max %v %v, want %v %v (%v, %v)", m, metric, name, got1, ok1, best, ok, err2, err)
				}
				for _, tau := range []float64{best.Score, 0, 1e9} {
					_, above, err := e.AnyAbove(ctx, q.Data[:24], v, m, nil, tau)
					w, above1, err2 := with.AnyAbove(ctx, q.Data[:24], v, m, nil, tau)
					if above != above1 || err != nil || err2 != nil || above1 && !m.Better(w.Score, tau) {
						t.Errorf("%s in %s, %s, above %v: %v %v, want %v (%v, %v)", m, metric, name, tau, w, above1, above, err2, err)
					}
				}
			}
		}
		for _, bad := range []Vectors{{Data: make([]float32, 8), Rows: 1, Dim: 8}} {
			if _, err := with.TopK(ctx, bad, c, metric, 5, nil); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("%s: a query of dimension 8: %v", metric, err)
			}
		}
		if err := x.Delete(7); err != nil || x.x.Over(c, metric) {
			t.Errorf("%s: after a deletion the index still passes for all vectors (%v)", metric, err)
		}
	}
}

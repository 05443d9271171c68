package kmeans

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSphericalFindsSeparateClusters(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	v := engine.Vectors{Rows: 300, Dim: 8}
	for i := range v.Rows {
		for j := range v.Dim {
			x := .05 * r.NormFloat64()
			if j == i%3 {
				x++
			}
			v.Data = append(v.Data, float32(x))
		}
	}
	c, err := Spherical(t.Context(), newEngine(t), v, 3, 1)
	if err != nil || c.Centres.Rows != 3 || c.Cosine < .95 {
		t.Fatalf("%+v %v", c, err)
	}
	for i := range v.Rows {
		if c.Of[i] != c.Of[i%3] {
			t.Fatalf("vector %d is in cluster %d, one of its kind in %d", i, c.Of[i], c.Of[i%3])
		}
	}
	same := engine.Vectors{Rows: 5, Dim: 2, Data: []float32{1, 0, 1, 0, 1, 0, 1, 0, 1, 0}}
	if c, err := Spherical(t.Context(), newEngine(t), same, 4, 1); err != nil || c.Centres.Rows != 1 {
		t.Errorf("equal vectors: %+v %v", c, err)
	}
	if _, err := Spherical(t.Context(), newEngine(t), same, 0, 1); !errors.Is(err, kernels.ErrArgument) {
		t.Error(err)
	}
}

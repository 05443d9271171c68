package engine_test

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// A prepared set is checked, indexed and packed once, and stands for its vectors in every operation.
func ExampleEngine_Prepare() {
	ctx := context.Background()
	e, err := engine.New(engine.Options{})
	if err != nil {
		panic(err)
	}
	vectors := engine.Vectors{Data: []float32{1, 0, 0, 1, 1, 1}, Rows: 3, Dim: 2}
	set, err := e.Prepare(ctx, vectors, kernels.Cosine, engine.SetOptions{})
	if err != nil {
		panic(err)
	}
	defer set.Close()
	if err := set.Append(ctx, engine.Vectors{Data: []float32{2, 1}, Rows: 1, Dim: 2}); err != nil {
		panic(err)
	}
	if err := set.Delete(2); err != nil {
		panic(err)
	}
	query := engine.Vectors{Data: []float32{3, 3}, Rows: 1, Dim: 2}
	hits, err := e.TopK(ctx, query, set.Vectors(), kernels.Cosine, 2, nil)
	fmt.Printf("%d %.3f, %d %.3f %v\n", hits[0][0].Row, hits[0][0].Score, hits[0][1].Row, hits[0][1].Score, err)
	// Output: 3 0.949, 0 0.707 <nil>
}

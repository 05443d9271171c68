package doctor

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/models"
)

// golden are the first values of vectors of all-MiniLM-L6-v2, computed in float64 by embed/testdata/reference.py.
var golden = []struct {
	text   string
	values []float64
}{
	{"A sluice is a gate that lets water pass.", []float64{-0.0160578, -0.0379326, -0.0351076, 0.0868306, -0.0605496, -0.0676681, 0.0440329, -0.0475525}},
	{"Deferred functions run in last-in, first-out order.", []float64{-0.1103389, -0.0061348, 0.0505312, -0.0191569, 0.007924, -0.0729784, -0.0223409, -0.0511912}},
	{"Wie lange kocht ein Ei?", []float64{-0.0719779, 0.0843547, 0.0439114, -0.0140139, -0.0466112, 0.0798512, 0.0925797, 0.0888367}},
}

const (
	goldenModel     = "all-MiniLM-L6-v2"
	goldenTolerance = 2e-6 // float32 arithmetic, and the seven digits above
	batchTolerance  = 1e-6
)

// encoder embeds the golden texts one by one and together.
func encoder(ctx context.Context, o Options) []Check {
	const name = "encoder"
	dir, err := models.Locate(o.Encoder)
	if err == nil && !embed.Available {
		err = embed.ErrUnavailable
	}
	if err != nil && absent(err) {
		return notThere(name, err)
	}
	if err != nil {
		return failed(name, err, "sluice models list; --encoder takes a name or a folder")
	}
	e, err := embed.Open(ctx, dir, embed.Options{Library: o.Library})
	if err != nil {
		return failed(name, err, "sluice models verify")
	}
	defer e.Close()
	detail, err := compareVectors(ctx, e)
	if err != nil {
		return failed(name, err, "sluice models verify; make build")
	}
	info := e.Info()
	return one(Check{Name: name, Status: OK, Detail: fmt.Sprintf("%s (%s, %d dimensions, %d tokens): %s", info.Name, info.Architecture, info.Dim, info.MaxTokens, detail)})
}

// compareVectors checks the golden values where they apply, and that a text alone gives the vector it has in a batch.
func compareVectors(ctx context.Context, e embed.Embedder) (string, error) {
	texts := make([]string, len(golden))
	for i, g := range golden {
		texts[i] = g.text
	}
	together, err := e.Embed(ctx, texts, embed.Document)
	if err != nil {
		return "", err
	}
	var apart, off float64
	for i, g := range golden {
		alone, err := e.Embed(ctx, texts[i:i+1], embed.Document)
		if err != nil {
			return "", err
		}
		for j, x := range alone.Row(0) {
			apart = worse(apart, float64(x)-float64(together.Row(i)[j]))
		}
		for j, x := range g.values {
			off = worse(off, x-float64(together.Row(i)[j]))
		}
	}
	if !(apart <= batchTolerance) {
		return "", fmt.Errorf("a text in a batch and alone differ by %.2g, more than %.0g", apart, batchTolerance)
	}
	detail := fmt.Sprintf("batch = single to %.1g", apart)
	if e.Info().Name != goldenModel {
		return detail + "; no golden vectors for this model", nil
	}
	if !(off <= goldenTolerance) {
		return "", fmt.Errorf("golden vectors are off by %.2g, more than %.0g", off, goldenTolerance)
	}
	return fmt.Sprintf("golden vectors to %.1g, %s", off, detail), nil
}

// worse keeps the larger deviation; a NaN stays.
func worse(a, difference float64) float64 {
	d := math.Abs(difference)
	if math.IsNaN(a) || d <= a {
		return a
	}
	return d
}

package embed

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrNoGolden says that the golden vectors belong to another encoder than the one given.
var ErrNoGolden = errors.New("embed: no golden vectors for this encoder")

// GoldenTolerance is how far a component may lie from the float64 reference.
const GoldenTolerance = 2e-6

//go:embed testdata/golden-minilm.json
var goldenFile []byte

// goldenSet is testdata/golden-minilm.json: vectors of the default encoder by testdata/reference.py.
type goldenSet struct {
	Model  string        `json:"model"`
	Digest string        `json:"digest"`
	Texts  []goldenValue `json:"texts"`
}

type goldenValue struct {
	Text       string    `json:"text"`
	Tokens     int       `json:"tokens"`
	First      []float64 `json:"first"`      // the first eight components
	Projection float64   `json:"projection"` // of all components, see project
}

// GoldenReport is how the encoder compares with the golden vectors.
type GoldenReport struct {
	Texts int
	Worst float64 // largest absolute difference
}

// Golden embeds the golden texts of the default encoder (an empty one, German, emoji, one that is cut, …)
// with e and compares the vectors with the float64 reference. A difference above GoldenTolerance or a
// wrong token count is an error; an encoder of another digest is ErrNoGolden.
func Golden(ctx context.Context, e Embedder) (*GoldenReport, error) {
	var set goldenSet
	if err := json.Unmarshal(goldenFile, &set); err != nil {
		return nil, fmt.Errorf("embed: golden vectors: %w", err)
	}
	if got := e.Info().Digest; got != set.Digest {
		return nil,
			fmt.Errorf("%w: they are of %s %s, this is %s %s", ErrNoGolden, set.Model, set.Digest, e.Info().Name, got)
	}
	texts := make([]string, len(set.Texts))
	for i, g := range set.Texts {
		texts[i] = g.Text
	}
	v, err := e.Embed(ctx, texts, Document)
	if err != nil {
		return nil, err
	}
	r, at := &GoldenReport{Texts: len(texts)}, "" // the text of the largest difference
	for i, g := range set.Texts {
		if v.Tokens[i] != g.Tokens {
			return r, fmt.Errorf("embed: golden text %.40q has %d tokens, %d expected", g.Text, v.Tokens[i], g.Tokens)
		}
		row := v.Row(i)
		d := math.Abs(project(row) - g.Projection)
		for j, want := range g.First {
			d = max(d, math.Abs(float64(row[j])-want)) // max keeps a NaN
		}
		if worst := max(r.Worst, d); worst != r.Worst {
			r.Worst, at = worst, g.Text
		}
	}
	if !(r.Worst <= GoldenTolerance) {
		return r, fmt.Errorf("embed: golden text %.40q is off by %.3g, at most %g expected", at, r.Worst,
			GoldenTolerance)
	}
	return r, nil
}

// project returns the scalar product with a unit vector of pseudo-random signs (the Thue–Morse sequence), so
// that one number stands for every component.
func project[T float32 | float64](v []T) float64 {
	var sum float64
	for i, x := range v {
		if bits.OnesCount(uint(i))%2 == 0 {
			sum += float64(x)
		} else {
			sum -= float64(x)
		}
	}
	return sum / math.Sqrt(float64(len(v)))
}

// Package kmeans divides vectors into clusters.
package kmeans

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// rounds end k-means at the latest.
const rounds = 25

// Clusters are the result of Spherical.
type Clusters struct {
	Centres engine.Vectors // k rows of length 1
	Of      []int32        // cluster of each vector
	Cosine  float64        // mean of the vectors' cosines with their centre
}

// Spherical divides vectors into at most k clusters by their directions (Dhillon & Modha, Concept decompositions
// for large sparse text data, 2001: a centre is the mean of its vectors at length 1), from centres that k-means++
// draws. Clusters that lose all their vectors are dropped. The assignments are exact searches of the engine, so the
// same seed gives the same clusters everywhere.
func Spherical(ctx context.Context, e engine.Interface, v engine.Vectors, k int, seed uint64) (*Clusters, error) {
	if v.Rows < 1 || k < 1 {
		return nil, fmt.Errorf("kmeans: %w: %d clusters of %d vectors", kernels.ErrArgument, k, v.Rows)
	}
	c := &Clusters{Of: make([]int32, v.Rows)}
	var err error
	if c.Centres, err = drawCentres(ctx, e, v, min(k, v.Rows), seed); err != nil {
		return nil, err
	}
	scales := make([]float64, v.Rows)
	for i := range scales {
		scales[i] = unit(row(v, i))
	}
	for round := range rounds {
		hits, err := e.TopK(ctx, v, c.Centres, kernels.Cosine, 1, nil)
		if err != nil {
			return nil, fmt.Errorf("kmeans: %w", err)
		}
		changed := 0
		c.Cosine = 0
		for i, h := range hits {
			if round == 0 || c.Of[i] != int32(h[0].Row) {
				changed++
			}
			c.Of[i] = int32(h[0].Row)
			c.Cosine += h[0].Score / float64(v.Rows)
		}
		if changed <= v.Rows/1000 {
			return c, nil
		}
		if round+1 < rounds {
			c.recentre(v, scales)
		}
	}
	return c, nil
}

// row returns a vector of v.
func row(v engine.Vectors, i int) []float32 {
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	return v.Data[i*stride:][:v.Dim]
}

// recentre makes the centres anew, of vectors times scales, and drops those without vectors; Of is right again after
// the next assignment.
func (c *Clusters) recentre(v engine.Vectors, scales []float64) {
	k, dim := c.Centres.Rows, v.Dim
	sums, counts := make([]float64, k*dim), make([]int, k)
	for i, own := range c.Of {
		counts[own]++
		to := sums[int(own)*dim:][:dim]
		x, scale := row(v, i), scales[i]
		for j := range to {
			to[j] += scale * float64(x[j])
		}
	}
	c.Centres = engine.Vectors{Dim: dim}
	for i, n := range counts {
		sum := sums[i*dim:][:dim]
		square := 0.
		for _, x := range sum {
			square += x * x
		}
		if n == 0 || square == 0 {
			continue
		}
		c.Centres.Rows++
		for _, x := range sum {
			c.Centres.Data = append(c.Centres.Data, float32(x/math.Sqrt(square)))
		}
	}
}

// unit returns the factor that scales a vector to length 1; 0 for a vector of zeros.
func unit(x []float32) float64 {
	square := 0.
	for _, v := range x {
		square += float64(v) * float64(v)
	}
	if square == 0 {
		return 0
	}
	return 1 / math.Sqrt(square)
}

// drawCentres is k-means++: each next centre is a vector, drawn by its squared distance (2 − 2·cosine) from the nearest
// centre before it.
func drawCentres(ctx context.Context, e engine.Interface, v engine.Vectors, k int, seed uint64) (engine.Vectors,
	error) {
	r := rand.New(rand.NewPCG(seed, 2))
	c := engine.Vectors{Dim: v.Dim}
	far := make([]float64, v.Rows)
	next := r.IntN(v.Rows)
	for {
		x := row(v, next)
		scale := unit(x)
		for _, y := range x {
			c.Data = append(c.Data, float32(scale*float64(y)))
		}
		c.Rows++
		if c.Rows == k {
			return c, nil
		}
		last := engine.Vectors{Data: c.Data[(c.Rows-1)*v.Dim:], Rows: 1, Dim: v.Dim}
		scores := make([]float32, v.Rows)
		if err := e.Matrix(ctx, scores, v, last, kernels.Cosine); err != nil {
			return c, fmt.Errorf("kmeans: %w", err)
		}
		all := 0.
		for i, s := range scores {
			d := max(0, 2-2*float64(s))
			if c.Rows == 1 || d < far[i] {
				far[i] = d
			}
			all += far[i]
		}
		if all <= 1e-9 { // fewer different vectors than clusters
			return c, nil
		}
		next = v.Rows - 1
		for at, i := r.Float64()*all, 0; i < v.Rows; i++ {
			if at -= far[i]; at < 0 {
				next = i
				break
			}
		}
	}
}

package route

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
)

// clusterRounds end k-means at the latest.
const clusterRounds = 25

// Clusters are the result of KMeans.
type Clusters struct {
	Centres engine.Vectors // k rows of length 1
	Of      []int32        // cluster of each vector
	Cosine  float64        // mean of the vectors' cosines with their centre
}

// KMeans divides vectors into at most k clusters by their directions (spherical k-means: a centre is the mean of its
// vectors at length 1), from centres that k-means++ draws. Clusters that lose all their vectors are dropped. The
// assignments are exact searches of the engine, so the same seed gives the same clusters everywhere.
func KMeans(ctx context.Context, e engine.Interface, v engine.Vectors, k int, seed uint64) (*Clusters, error) {
	if v.Rows < 1 || k < 1 {
		return nil, fmt.Errorf("%w: %d clusters of %d vectors", ErrOption, k, v.Rows)
	}
	c := &Clusters{Of: make([]int32, v.Rows)}
	var err error
	if c.Centres, err = drawCentres(ctx, e, v, min(k, v.Rows), seed); err != nil {
		return nil, err
	}
	for round := range clusterRounds {
		hits, err := e.TopK(ctx, v, c.Centres, kernels.Cosine, 1, nil)
		if err != nil {
			return nil, fmt.Errorf("route: clusters: %w", err)
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
		if round+1 < clusterRounds {
			c.recentre(v)
		}
	}
	return c, nil
}

// row is a vector of v.
func row(v engine.Vectors, i int) []float32 {
	stride := v.Stride
	if stride == 0 {
		stride = v.Dim
	}
	return v.Data[i*stride:][:v.Dim]
}

// recentre makes the centres anew and drops those without vectors; Of is right again after the next assignment.
func (c *Clusters) recentre(v engine.Vectors) {
	k, dim := c.Centres.Rows, v.Dim
	sums, counts := make([]float64, k*dim), make([]int, k)
	for i, own := range c.Of {
		counts[own]++
		to := sums[int(own)*dim:][:dim]
		x := row(v, i)
		scale := unit(x)
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

// unit is what a vector is multiplied by to have length 1; 0 for a vector of zeros.
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
			return c, fmt.Errorf("route: clusters: %w", err)
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

// How many prototypes a label has: enough that each is the mean of some texts.
const (
	maxPrototypes  = 40
	perPrototype   = 10
	familiarWeight = .1 // of the margin beside the cosine
)

// prototypes are the centres of each label's vectors, at most maxPrototypes of a label. Vectors of several labels count
// for each.
func prototypes(ctx context.Context, e engine.Interface, v engine.Vectors, of [][]int32, labels int, seed uint64) (
	all engine.Vectors, counts []int, err error,
) {
	members := make([][]int, labels)
	for i, list := range of {
		for _, k := range list {
			members[k] = append(members[k], i)
		}
	}
	all.Dim, counts = v.Dim, make([]int, labels)
	for k, rows := range members {
		if len(rows) == 0 {
			continue
		}
		own := engine.Vectors{Rows: len(rows), Dim: v.Dim, Data: make([]float32, 0, len(rows)*v.Dim)}
		for _, i := range rows {
			own.Data = append(own.Data, row(v, i)...)
		}
		c, err := KMeans(ctx, e, own, min(maxPrototypes, (len(rows)+perPrototype-1)/perPrototype), seed+uint64(k))
		if err != nil {
			return all, nil, err
		}
		all.Data = append(all.Data, c.Centres.Data...)
		all.Rows += c.Centres.Rows
		counts[k] = c.Centres.Rows
	}
	return all, counts, nil
}

// familiar is the largest cosine of a vector with a prototype of a label; 0 where the label has none.
func (r *Router) familiar(v []float32, label int) float64 {
	from := 0
	for _, n := range r.Prototypes[:label] {
		from += n
	}
	top := 0.
	for i := range r.Prototypes[label] {
		p := row(r.prototypes, from+i)
		var a, b, c, d float64
		j := 0
		for ; j+4 <= len(p); j += 4 {
			a += float64(v[j]) * float64(p[j])
			b += float64(v[j+1]) * float64(p[j+1])
			c += float64(v[j+2]) * float64(p[j+2])
			d += float64(v[j+3]) * float64(p[j+3])
		}
		for ; j < len(p); j++ {
			a += float64(v[j]) * float64(p[j])
		}
		if s := (a + b) + (c + d); i == 0 || s > top {
			top = s
		}
	}
	return top * unit(v)
}

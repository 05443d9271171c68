package route

import (
	"context"
	"math"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/kmeans"
)

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
			own.Data = append(own.Data, v.Row(i)...)
		}
		c, err := kmeans.Spherical(ctx, e, own, min(maxPrototypes, (len(rows)+perPrototype-1)/perPrototype),
			seed+uint64(k))
		if err != nil {
			return all, nil, err
		}
		all.Data = append(all.Data, c.Centres.Data...)
		all.Rows += c.Centres.Rows
		counts[k] = c.Centres.Rows
	}
	return all, counts, nil
}

// familiar returns the largest cosine of a vector with a prototype of a label; 0 where the label has none.
func (r *Router) familiar(v []float32, label int) float64 {
	from := 0
	for _, n := range r.Prototypes[:label] {
		from += n
	}
	top := 0.
	for i := range r.Prototypes[label] {
		p := r.prototypes.Row(from + i)
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

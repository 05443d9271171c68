package index

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rag/sluice/engine/internal/axes"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/matrix"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/scan"
	"github.com/sluice-rag/sluice/kernels/cpu/scores"
)

// model is what an index learns from its first rows: c~ = scale·(c − origin), or c/‖c‖ for cosine, is
// what is coded; in the coordinates of the rotation, sections of 64 have the largest variance first.
type model struct {
	reason   string // why nothing was learned and nothing is coded, or ""
	sections int
	scale    float64   // ip, l2: a power of two that brings the sample's longest row near 1
	origin   []float32 // l2: about the mean; else zero
	rotation cpu.Rows  // d × d
	skew     float64   // ≥ ‖RᵀR − I‖
	turned   []float64 // rotation·origin
	clusters int
	centres  cpu.Rows // of the clusters, in the first `Dim` coordinates of the rotation, of c~

	profile []scan.SectionProfile // means over the panels of the first rows
}

func (m *model) bytes() int64 {
	return int64(4*(len(m.rotation.Data)+len(m.centres.Data)+len(m.origin)) + 8*len(m.turned))
}

const (
	sampleRows   = 16384 // for mean and axes
	perCluster   = 32    // sample rows per cluster
	maxClusters  = 1024
	clusterDims  = 64 // the leading coordinates are enough to tell clusters
	clusterTurns = 5
)

// learn finds the rotation and the clusters of the group's rows. No result depends on how good they are.
func (x *Index) learn(ctx context.Context, g *group) (*model, division, error) {
	in := division{rows: x.options.Parts}
	m := &model{sections: workers.Ceil(g.Dim, scan.Section), scale: 1}
	if m.reason = x.noCodes(g.Dim); m.reason != "" {
		return m, in, nil
	}
	rng := rand.New(rand.NewPCG(x.options.Seed, 0x1d))
	m.clusters = x.options.Clusters
	if m.clusters == 0 {
		m.clusters = min(int(math.Sqrt(float64(g.N))), maxClusters)
	}
	m.clusters = workers.Clamp(m.clusters, 1, g.N)
	picked, err := pick(ctx, rng, g.N, min(g.N, max(sampleRows, perCluster*m.clusters)))
	if err != nil {
		return nil, in, err
	}
	if err := m.normalise(ctx, g, picked, x.metric); err != nil {
		return nil, in, err
	}
	all := newRows(len(picked), g.Dim)
	err = x.r.Pool.Ranges(ctx, len(picked), func(i int) { m.tilde(all.Row(i), g, picked[i], x.metric) })
	if err != nil {
		return nil, in, err
	}
	if m.rotation, m.skew, err = axes.Learn(ctx, x.r, all.Slice(0, min(all.N, sampleRows)), rng); err != nil {
		return nil, in, err
	}
	m.turned = make([]float64, g.Dim)
	origin := cpu.Rows{Data: m.origin, N: 1, Dim: g.Dim, Stride: g.Dim}
	if err := scores.Block(x.r.Host, kernels.IP, m.turned, g.Dim, origin, m.rotation); err != nil {
		return nil, in, err
	}
	err = cluster(ctx, x.r, m, all, rng, in.of(picked), &in)
	return m, in, err
}

// division says which rows belong together, by parts numbered from 0, and which clusters are of each part.
type division struct {
	rows  []int32 // the part of each row; nil: there is one part
	first []int   // the clusters of part p are [first[p], first[p+1]); none where p has few rows
}

// of returns the parts of some rows.
func (in division) of(rows []int) []int32 {
	if in.rows == nil {
		return nil
	}
	parts := make([]int32, len(rows))
	for i, row := range rows {
		parts[i] = in.rows[row]
	}
	return parts
}

// order sorts points that clusters begin with by their parts, and counts those of each part.
func (in *division) order(points []int, parts []int32) {
	slices.SortStableFunc(points, func(a, b int) int { return cmp.Compare(parts[a], parts[b]) })
	in.first = make([]int, slices.Max(in.rows)+2)
	for _, i := range points {
		in.first[parts[i]+1]++
	}
	for p := range in.first[1:] {
		in.first[p+1] += in.first[p]
	}
}

// clusters returns the range of clusters, out of n, that a point of a part may belong to.
func (in *division) clusters(parts []int32, point, n int) (from, to int) {
	if parts == nil {
		return 0, n
	}
	p := parts[point]
	if from, to = in.first[p], in.first[p+1]; from == to {
		return 0, n
	}
	return from, to
}

// noCodes says why rows of that dimension get no codes here, or "".
func (x *Index) noCodes(dim int) string {
	switch {
	case x.options.Plain:
		return "not asked for: all rows are read in full"
	case !scan.Has(x.r.Host):
		return fmt.Sprintf("instruction set %s has no scan: all rows are read in full", x.r.Host.ISA())
	case dim > scan.MaxSections*scan.Section:
		return fmt.Sprintf("dimension %d is above %d: all rows are read in full", dim, scan.MaxSections*scan.Section)
	}
	return ""
}

// pick draws k of n rows, in ascending order (selection sampling, Knuth 3.4.2 S).
func pick(ctx context.Context, rng *rand.Rand, n, k int) ([]int, error) {
	rows := make([]int, 0, k)
	err := workers.Over(ctx, n, func(from, to int) {
		for i := from; i < to && len(rows) < k; i++ {
			if rng.IntN(n-i) < k-len(rows) {
				rows = append(rows, i)
			}
		}
	})
	return rows, err
}

// normalise sets origin and scale from some rows.
func (m *model) normalise(ctx context.Context, g *group, picked []int, metric kernels.Metric) error {
	m.origin = make([]float32, g.Dim)
	if metric == kernels.Cosine {
		return nil
	}
	if metric == kernels.L2 {
		mean := make([]float64, g.Dim)
		err := overRows(ctx, picked, func(row int) {
			for k, v := range g.Row(row) {
				mean[k] += float64(v) / float64(len(picked))
			}
		})
		if err != nil {
			return err
		}
		for k, v := range mean {
			m.origin[k] = float32(v)
		}
	}
	longest := 0.0
	err := overRows(ctx, picked, func(row int) {
		square := 0.0
		for k, v := range g.Row(row) {
			d := float64(v) - float64(m.origin[k])
			square += d * d
		}
		longest = max(longest, math.Sqrt(square))
	})
	if longest > 0 {
		_, exp := math.Frexp(longest)
		m.scale = math.Ldexp(1, -exp)
	}
	return err
}

// overRows calls fn for each row of a list.
func overRows(ctx context.Context, rows []int, fn func(row int)) error {
	const block = 1 << 10 // rows have many values
	for i, row := range rows {
		if i%block == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		fn(row)
	}
	return ctx.Err()
}

// factor returns the factor of the row of g.
func (m *model) factor(g *group, row int, metric kernels.Metric) float64 {
	if metric != kernels.Cosine {
		return m.scale
	}
	if g.Norms[row] == 0 {
		return 0
	}
	return 1 / g.Norms[row]
}

// tilde writes c~ of the row, rounded to float32 and cut: for learning only.
func (m *model) tilde(out []float32, g *group, row int, metric kernels.Metric) {
	f := m.factor(g, row, metric)
	for k, v := range g.Row(row) {
		out[k] = float32(min(max(f*(float64(v)-float64(m.origin[k])), -farthest), farthest))
	}
}

// cluster runs Lloyd's algorithm (k-means) on the leading coordinates of the sample, of each part by itself.
func cluster(ctx context.Context, r *device.Resources, m *model, sample cpu.Rows, rng *rand.Rand, parts []int32,
	in *division) error {
	dims := min(sample.Dim, clusterDims)
	points := newRows(sample.N, dims)
	if err := leading(ctx, r, m, sample, points); err != nil {
		return err
	}
	centres := newRows(m.clusters, dims)
	first, err := pick(ctx, rng, points.N, m.clusters)
	if err != nil {
		return err
	}
	if parts != nil {
		in.order(first, parts)
	}
	for i, row := range first {
		copy(centres.Row(i), points.Row(row))
	}
	nearest := make([]int32, points.N)
	for range clusterTurns {
		if err := assign(ctx, r, centres, points, nearest, parts, in); err != nil {
			return err
		}
		sums, counts := make([]float64, len(centres.Data)), make([]int, m.clusters)
		err := workers.Over(ctx, len(nearest), func(from, to int) {
			for i := from; i < to; i++ {
				c := nearest[i]
				counts[c]++
				for k, v := range points.Row(i) {
					sums[int(c)*dims+k] += float64(v)
				}
			}
		})
		if err != nil {
			return err
		}
		for c, n := range counts {
			if n == 0 { // begins anew somewhere else
				copy(centres.Row(c), points.Row(rng.IntN(points.N)))
				continue
			}
			for k := range centres.Row(c) {
				centres.Data[c*dims+k] = float32(sums[c*dims+k] / float64(n))
			}
		}
	}
	m.centres = centres
	return nil
}

// leading writes the first points.Dim coordinates of rotation·row of all rows.
func leading(ctx context.Context, r *device.Resources, m *model, rows, points cpu.Rows) error {
	first := vectorsOf(m.rotation.Slice(0, points.Dim))
	_, err := accurate(ctx, r, kernels.IP,
		matrix.Input{Out: points.Data, Stride: points.Dim, A: vectorsOf(rows), B: first})
	return err
}

// assign writes the nearest centre of each point, among those of its part.
func assign(ctx context.Context, r *device.Resources, centres, points cpu.Rows, nearest, parts []int32,
	in *division) error {
	distances := make([]float32, points.N*centres.N)
	_, err := accurate(ctx, r, kernels.L2,
		matrix.Input{Out: distances, Stride: centres.N, A: vectorsOf(points), B: vectorsOf(centres)})
	if err != nil {
		return err
	}
	return r.Pool.Ranges(ctx, points.N, func(i int) {
		best := float32(math.Inf(1))
		from, to := in.clusters(parts, i, centres.N)
		for c, v := range distances[i*centres.N+from : i*centres.N+to] {
			if v < best {
				best, nearest[i] = v, int32(from+c)
			}
		}
	})
}

// accurate writes a matrix in the fastest format that is about as accurate as float32.
func accurate(ctx context.Context, r *device.Resources, metric kernels.Metric, in matrix.Input) (bound float64,
	err error) {
	in.Metric, in.DType = metric, r.Accurate()
	return matrix.Bounded(ctx, r, in)
}

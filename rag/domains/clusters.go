package domains

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/kmeans"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// Silhouette is the mean silhouette of k clusters: over a sample of the chunks, (b − a)/max(a, b), with a the mean
// cosine distance to the others of its own cluster and b that to the nearest other cluster (Rousseeuw 1987).
type Silhouette struct {
	K     int     `json:"k"`
	Value float64 `json:"value"`
}

// What is read to choose the number of clusters.
const (
	clusterSample    = 20_000
	silhouetteSample = 1000
	minCluster       = 5 // chunks of a cluster, on average, at the least
)

// candidates are the numbers of clusters that are tried.
var candidates = [...]int{2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32}

// cluster divides the chunks by the directions of their vectors: k-means, with the k of the largest mean silhouette
// unless it is given.
func (r *run) cluster(ctx context.Context) error {
	live := r.live()
	if r.Clusters < 0 || r.Clusters == 1 || r.Clusters > len(live) {
		return fmt.Errorf("%w: %d clusters of %d chunks", knowledge.ErrOption, r.Clusters, len(live))
	}
	rows := r.sample(live, clusterSample)
	v := engine.Vectors{Rows: len(rows), Dim: r.snap.View.Vectors.Dim}
	for _, row := range rows {
		v.Data = append(v.Data, r.snap.View.Vectors.Row(row)...)
	}
	tried := candidates[:]
	if r.Clusters > 0 {
		tried = []int{r.Clusters}
	}
	var best *kmeans.Clusters
	top := math.Inf(-1)
	for i, k := range tried {
		if k > max(2, len(rows)/minCluster) && r.Clusters == 0 {
			break
		}
		if r.Progress != nil {
			r.Progress("clusters", i, len(tried))
		}
		c, err := kmeans.Spherical(ctx, r.engine, v, k, r.Settings.Seed)
		if err != nil {
			return err
		}
		value, err := silhouette(ctx, r.engine, v, c.Of)
		if err != nil {
			return err
		}
		r.result.Silhouette = append(r.result.Silhouette, Silhouette{c.Centres.Rows, value})
		if best == nil || value > top {
			best, top = c, value
		}
	}
	names, err := r.names(ctx, rows, best)
	if err != nil {
		return err
	}
	return r.nearest(ctx, best.Centres, names)
}

// silhouette returns the mean over at most silhouetteSample of the vectors, evenly drawn.
func silhouette(ctx context.Context, e engine.Interface, v engine.Vectors, of []int32) (float64, error) {
	step := (v.Rows + silhouetteSample - 1) / silhouetteSample
	s := engine.Vectors{Dim: v.Dim}
	var own []int32
	k := 0
	for i := 0; i < v.Rows; i += step {
		s.Data = append(s.Data, v.Row(i)...)
		s.Rows++
		own = append(own, of[i])
		k = max(k, int(of[i])+1)
	}
	cosines := make([]float32, s.Rows*s.Rows)
	if err := e.Matrix(ctx, cosines, s, s, kernels.Cosine); err != nil {
		return 0, err
	}
	mean := 0.
	sums, counts := make([]float64, k), make([]float64, k)
	for i := range s.Rows {
		clear(sums)
		clear(counts)
		for j, x := range cosines[i*s.Rows:][:s.Rows] {
			if i != j {
				sums[own[j]] += 1 - float64(x)
				counts[own[j]]++
			}
		}
		a, b := 0., math.Inf(1)
		for c := range k {
			if counts[c] == 0 {
				continue
			}
			if d := sums[c] / counts[c]; c == int(own[i]) {
				a = d
			} else {
				b = min(b, d)
			}
		}
		if counts[own[i]] > 0 && !math.IsInf(b, 1) && max(a, b) > 0 { // alone in its cluster: 0
			mean += (b - a) / max(a, b)
		}
	}
	return mean / float64(s.Rows), nil
}

// nameTerms are the words that name a cluster.
const nameTerms = 3

// names returns the words that stand out in each cluster: those whose mean weight is the most above that of all chunks.
func (r *run) names(ctx context.Context, rows []int, c *kmeans.Clusters) ([]string, error) {
	texts := make([]string, 0, len(rows))
	err := r.eachChunk(ctx, rows, func(_ int, k corpus.Chunk) { texts = append(texts, k.EmbedText()) })
	if err != nil {
		return nil, err
	}
	words, err := learn.FitVectoriser(texts, 1, route.Defaults().MaxTerms)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", route.ErrData, err)
	}
	f, err := words.Features(texts, nil, 0)
	if err != nil {
		return nil, err
	}
	of := make([]int32, len(rows))
	all := f.Means(of, 1)
	means := f.Means(c.Of, c.Centres.Rows)
	names := make([]string, c.Centres.Rows)
	taken := map[string]bool{}
	for k := range names {
		mean := means[k*f.Columns():][:f.Columns()]
		var top []int
		for j := range mean {
			at, _ := slices.BinarySearchFunc(top, j, func(a, b int) int {
				return cmp.Or(cmp.Compare(mean[b]-all[b], mean[a]-all[a]), a-b)
			})
			if at < nameTerms {
				top = slices.Insert(top, at, j)
				top = top[:min(len(top), nameTerms)]
			}
		}
		var parts []string
		for _, j := range top {
			parts = append(parts, words.Terms[j])
		}
		name := strings.Join(parts, "-")
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", strings.Join(parts, "-"), n)
		}
		names[k], taken[name] = name, true
	}
	return names, nil
}

// nearest gives each row the name of the nearest centre.
func (r *run) nearest(ctx context.Context, centres engine.Vectors, names []string) error {
	v := r.snap.View.Vectors
	hits, err := r.engine.TopK(ctx, v, centres, kernels.Cosine, 1, nil)
	if err != nil {
		return err
	}
	r.labels = make([]string, len(r.snap.View.IDs))
	for i, h := range hits {
		if !r.snap.View.Deleted(i) {
			r.labels[i] = names[h[0].Row]
		}
	}
	return nil
}

// describe divides the chunks by the nearest of the domains' descriptions.
func (r *run) describe(ctx context.Context) error {
	if len(r.Labels) < 2 {
		return fmt.Errorf("%w: domains by their descriptions need two at least, given %d", knowledge.ErrOption,
			len(r.Labels))
	}
	texts, names := make([]string, len(r.Labels)), make([]string, len(r.Labels))
	for i, d := range r.Labels {
		if texts[i], names[i] = d.Text, d.Label; strings.TrimSpace(d.Text) == "" {
			texts[i] = d.Label
		}
		if strings.TrimSpace(d.Label) == "" || slices.Contains(names[:i], d.Label) {
			return fmt.Errorf("%w: the label %q is empty, or there twice", knowledge.ErrOption, d.Label)
		}
	}
	found, err := r.enc.Embed(ctx, texts, embed.Query)
	if err != nil {
		return err
	}
	return r.nearest(ctx, engine.Vectors{Data: found.Data, Rows: len(texts), Dim: found.Dim}, names)
}

package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/postings"
)

// countsOf counts what Calibrate counts, by the engine's distributions alone.
func countsOf(t *testing.T, in Input) *Counts {
	t.Helper()
	e := newEngine(t)
	c := &Counts{Groups: 1}
	pairs := engine.DistributionInput{Contexts: in.Contexts, Queries: in.Queries, Owner: in.Owner, Group: in.Groups,
		Quantiles: tableQuantiles, Sample: NegativeSample}
	groups, _, err := in.leftOut(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if in.Groups != nil {
		c.Groups = int(slices.Max(in.Groups)) + 1
	}
	if c.Pairs, err = e.Distribution(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	for _, o := range in.Owner {
		if groups != nil {
			c.LeftOut = append(c.LeftOut, groups[o])
		}
	}
	weights, err := in.Weights()
	if err != nil {
		t.Fatal(err)
	}
	general := pairs
	general.Queries, general.Owner, general.Group = in.General, make([]int32, in.General.Rows), nil
	best, err := e.Distribution(t.Context(), general)
	if err != nil {
		t.Fatal(err)
	}
	c.General = best.Best
	pairs.Group, pairs.Sample = groups, 0
	biased := func(texts []string, d engine.DistributionInput, weight float64) *engine.Distribution {
		d.Bias = func(_ context.Context, queries, contexts []int32, out []float32) error {
			for i, q := range queries {
				x, err := in.Words.Index.Query(texts[q], postings.Scoring{Kind: postings.Cover})
				if err != nil {
					return err
				}
				b := x.Biases(weight)
				for j, row := range contexts {
					out[i*len(contexts)+j] = b.At(in.indexRow(int(row)))
				}
			}
			return nil
		}
		got, err := e.Distribution(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, w := range weights { // all questions are rated: there are few
		d, g := biased(in.Words.Queries, pairs, w), biased(in.Words.General, general, w)
		r := Rated{Weight: w, Positive: d.Positive, Maximum: d.Best, General: g.Best}
		if groups != nil {
			r.Other = d.BestOther
		}
		c.Rated = append(c.Rated, r)
	}
	return c
}

// TestCalibrationFromCounts: counts of many workers give the artifact that the vectors give, by topics and by clusters,
// by each kind of score.
func TestCalibrationFromCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 12))
	for _, topics := range []bool{true, false} {
		for _, score := range []string{"", "cosine+cover", "cosine+cover:0.3", "pseudo-query", "cosine"} {
			in := wordsInput(t, 5, 20, true)
			in.Score = score
			if !topics {
				in.Topics, in.Groups = false, nil
			}
			in.Words.General = []string{"what is subject1x3", "who knows of tides"}
			for in.General = (engine.Vectors{Dim: 8, Rows: 2}); len(in.General.Data) < 16; {
				in.General.Data = append(in.General.Data, float32(rng.NormFloat64()))
			}
			want, positive, err := Calibrate(t.Context(), newEngine(t), in)
			if err != nil {
				t.Fatal(err)
			}
			counted := in
			counted.Counts = countsOf(t, in)
			counted.Contexts.Data, counted.Groups = nil, nil
			counted.Words = &Words{Queries: in.Words.Queries, General: in.Words.General}
			got, d, err := Calibrate(t.Context(), newEngine(t), counted)
			if err != nil {
				t.Fatal(err)
			}
			want.Created, got.Created = time.Time{}, time.Time{}
			same := cmp.Options{cmp.AllowUnexported(Calibration{}, Scored{}, scores{}), cmpopts.EquateEmpty()}
			if diff := cmp.Diff(want, got, same); diff != "" || !slices.Equal(positive, d) {
				t.Errorf("topics %v, score %q (-vectors +counts):\n%s", topics, score, diff)
			}
			drawn := counted.Counts.Pairs.Sample
			counted.Counts.Pairs.Sample = nil
			if _, _, err := Calibrate(t.Context(), newEngine(t), counted); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("counts without a sample of D−: %v", err)
			}
			counted.Counts.Pairs.Sample, counted.Counts.General = drawn, nil
			if _, _, err := Calibrate(t.Context(), newEngine(t), counted); !errors.Is(err, kernels.ErrShape) {
				t.Errorf("counts of other questions: %v", err)
			}
		}
	}
	if k, rows := Parts(1<<20, 1); k != maxClusters || len(rows) != clusterRows {
		t.Errorf("%d parts by %d rows", k, len(rows))
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/plan"
	"github.com/sluice-rag/sluice/rag/postings"
)

// clusterRates measures the rates that are not given.
func (a *app) clusterRates(cmd *cobra.Command, f clusterFlags) (r plan.Rates, err error) {
	for flag, rate := range map[string]float64{"rate": f.rate, "score-rate": f.scores, "word-rate": f.words} {
		if !(rate >= 0 && rate < 1e30) {
			return r, usagef("--%s must not be negative, given %g", flag, rate)
		}
	}
	d := float64(f.dim)
	r = plan.Rates{Products: f.rate * d, Scores: f.scores * d, Words: f.words, Transfer: f.transfer,
		From: "all rates are given"}
	if f.rate > 0 && f.scores > 0 && f.words > 0 {
		return r, nil
	}
	l, err := a.settings(cmd)
	if err != nil {
		return r, err
	}
	e, err := engine.New(engine.Options{Threads: l.Config.Threads, ISA: l.Config.ISA})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	spinner := a.spin("measuring")
	defer spinner.Stop()
	s := newSpeeds(e, f.dim)
	for _, x := range []struct {
		given   float64
		to      *float64
		measure func(context.Context) (float64, error)
	}{{f.rate, &r.Products, s.products}, {f.scores, &r.Scores, s.scores}, {f.words, &r.Words, s.words}} {
		if x.given > 0 {
			continue
		}
		if *x.to, err = x.measure(cmd.Context()); err != nil {
			return r, err
		}
	}
	c := e.Describe()
	r.From = fmt.Sprintf("measured here on random vectors and words: %s, %s; the transfer is assumed", c.Device, c.ISA)
	return r, nil
}

// speeds measures what a worker does in a second.
type speeds struct {
	e  *engine.Engine
	in engine.DistributionInput
}

// measureFor is how long a rate is measured.
const measureFor = time.Second

func newSpeeds(e *engine.Engine, dim int) *speeds {
	rng := rand.New(rand.NewPCG(47, 57))
	draw := func(rows int) engine.Vectors {
		v := engine.Vectors{Rows: rows, Dim: dim, Data: make([]float32, rows*dim)}
		for i := range v.Data {
			v.Data[i] = float32(rng.NormFloat64())
		}
		return v
	}
	rows := min(max(4096, (16<<20)/dim), 1<<16)
	s := &speeds{e: e, in: engine.DistributionInput{Contexts: draw(rows), Queries: draw(min(1024, rows/4))}}
	for range s.in.Queries.Rows {
		s.in.Owner = append(s.in.Owner, rng.Int32N(int32(rows)))
	}
	return s
}

// rate repeats work, which returns how much it did, and returns how much is done in a second.
func rate(work func() (float64, error)) (float64, error) {
	if _, err := work(); err != nil { // what is made once is made now
		return 0, err
	}
	start, done := time.Now(), 0.
	for time.Since(start) < measureFor {
		n, err := work()
		if err != nil {
			return 0, err
		}
		done += n
	}
	return done / time.Since(start).Seconds(), nil
}

// count counts the pairs of some of the questions, as a worker counts a block, and returns the products.
func (s *speeds) count(ctx context.Context, queries int, b *engine.Brackets, bias bool) (float64, error) {
	in := s.in
	in.Queries.Rows, in.Owner = queries, in.Owner[:queries]
	if bias {
		in.Bias = func(_ context.Context, _, _ []int32, _ []float32) error { return nil }
	}
	whole := engine.Whole{Contexts: int64(in.Contexts.Rows), Queries: int64(queries)}
	_, err := s.e.PartialDistribution(ctx, in, whole, b, engine.Block{Contexts: [2]int{0, in.Contexts.Rows},
		Queries: [2]int{0, queries}})
	return float64(in.Contexts.Rows) * float64(queries) * float64(in.Contexts.Dim), err
}

func (s *speeds) products(ctx context.Context) (float64, error) {
	b := &engine.Brackets{Ends: [2]float64{-2, 2}, Bins: plan.Bins, Low: -1, High: 1}
	return rate(func() (float64, error) { return s.count(ctx, s.in.Queries.Rows, b, false) })
}

func (s *speeds) scores(ctx context.Context) (float64, error) {
	b := &engine.Brackets{Ends: [2]float64{-3, 3}, Biased: true}
	return rate(func() (float64, error) { return s.count(ctx, min(64, s.in.Queries.Rows), b, true) })
}

// words indexes texts of random words, the k-th of which comes 1/k times as often as the first.
func (s *speeds) words(ctx context.Context) (float64, error) {
	rng := rand.New(rand.NewPCG(47, 58))
	const texts, length, vocabulary = 1000, 90, 20_000
	documents, bytes := make([]postings.Document, texts), 0.
	for i := range documents {
		var b strings.Builder
		for range length {
			k := int(math.Exp(rng.Float64() * math.Log(vocabulary)))
			fmt.Fprintf(&b, "%c%cw%x ", 'a'+k%26, 'a'+k/26%26, k)
		}
		documents[i] = postings.Document{Text: b.String(), Language: "en"}
		bytes += float64(b.Len())
	}
	source := func(_ context.Context, from, to int) ([]postings.Document, error) { return documents[from:to], nil }
	return rate(func() (float64, error) {
		_, err := postings.New().With(ctx, texts, source, func(int) bool { return false }, s.e.Parallel)
		return bytes, err
	})
}

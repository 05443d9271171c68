package main

import (
	"context"
	"runtime"
	"strconv"

	"github.com/philippgille/chromem-go"
	"github.com/viterin/vek/vek32"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// search returns the competitor of one query after the other; find returns the part of a result that is kept.
func search[T any](impl string, queries vectors, find func(q []float32) (T, error)) *competitor {
	answers := map[int]T{}
	var last T
	return &competitor{
		Name: impl + " 1", Impl: impl, DType: "f32", Mode: "exact", Batch: 1,
		work:   func(batch []int) (err error) { last, err = find(queries.row(batch[0])); return err },
		keep:   func(batch []int) { answers[batch[0]] = last },
		result: func() any { return answers },
	}
}

func scanned(p params) (base, queries vectors, err error) {
	if base, err = load(p.Base); err == nil {
		queries, err = load(p.Queries)
	}
	return base, queries, err
}

func gonumScan(p params) ([]*competitor, error) {
	x, queries, err := scanned(p)
	if err != nil {
		return nil, err
	}
	y := make([]float32, x.rows)
	return []*competitor{search("gonum blas32.Gemv, max", queries, func(q []float32) (float32, error) {
		maxima := make([]float32, runtime.GOMAXPROCS(0))
		share(x.rows, func(part, from, to int) {
			some := vectors{x.data[from*x.dim : to*x.dim], to - from, x.dim}
			out := blas32.Vector{N: to - from, Inc: 1, Data: y[from:to]}
			blas32.Gemv(blas.NoTrans, 1, general(some), blas32.Vector{N: len(q), Inc: 1, Data: q}, 0, out)
			maxima[part] = vek32.Max(out.Data)
		})
		return vek32.Max(maxima), nil
	})}, nil
}

func vekScan(p params) ([]*competitor, error) {
	x, queries, err := scanned(p)
	if err != nil {
		return nil, err
	}
	return []*competitor{search("vek32.Dot loop, max", queries, func(q []float32) (float32, error) {
		maxima := make([]float32, runtime.GOMAXPROCS(0))
		share(x.rows, func(part, from, to int) {
			best := float32(-2)
			for i := from; i < to; i++ {
				best = max(best, vek32.Dot(x.row(i), q))
			}
			maxima[part] = best
		})
		return vek32.Max(maxima), nil
	})}, nil
}

func collection(p params) (c *chromem.Collection, queries vectors, err error) {
	x, queries, err := scanned(p)
	if err != nil {
		return nil, queries, err
	}
	if c, err = chromem.NewDB().CreateCollection("base", nil, nil); err != nil {
		return nil, queries, err
	}
	docs := make([]chromem.Document, x.rows)
	for i := range docs {
		docs[i] = chromem.Document{ID: strconv.Itoa(i), Embedding: x.row(i), Content: "-"}
	}
	return c, queries, c.AddDocuments(context.Background(), docs, runtime.GOMAXPROCS(0))
}

func chromemScan(p params) ([]*competitor, error) {
	c, queries, err := collection(p)
	if err != nil {
		return nil, err
	}
	return []*competitor{search("chromem-go k=1", queries, func(q []float32) (float32, error) {
		found, err := c.QueryEmbedding(context.Background(), q, 1, nil, nil)
		if err != nil {
			return 0, err
		}
		return found[0].Similarity, nil
	})}, nil
}

func chromemTop(p params) ([]*competitor, error) {
	c, queries, err := collection(p)
	if err != nil {
		return nil, err
	}
	return []*competitor{search("chromem-go k="+strconv.Itoa(p.K), queries, func(q []float32) ([]int, error) {
		found, err := c.QueryEmbedding(context.Background(), q, p.K, nil, nil)
		ids := make([]int, 0, len(found))
		for _, f := range found {
			id, err := strconv.Atoi(f.ID)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, err
	})}, nil
}

package main

import (
	"github.com/viterin/vek/vek32"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gorgonia.org/tensor"
)

// stored returns the competitor of a product that is written to out, row-major, columns wide.
func stored(impl string, p params, columns int, out func() []float32, work func() error) []*competitor {
	return []*competitor{{
		Name: impl, Impl: impl, DType: "f32", Mode: "bounded",
		work: func([]int) error { return work() },
		keep: func([]int) {},
		result: func() any {
			s, o := make([]float64, len(p.Rows)), out()
			for i, r := range p.Rows {
				s[i] = float64(o[r*columns+p.Columns[i]])
			}
			return s
		},
	}}
}

func operands(p params) (c, q vectors, err error) {
	if c, err = load(p.Contexts); err == nil {
		q, err = load(p.Queries)
	}
	return c, q, err
}

func general(v vectors) blas32.General {
	return blas32.General{Rows: v.rows, Cols: v.dim, Stride: v.dim, Data: v.data}
}

func gonumMatrix(p params) ([]*competitor, error) {
	c, q, err := operands(p)
	if err != nil {
		return nil, err
	}
	out := vectors{make([]float32, c.rows*q.rows), c.rows, q.rows}
	return stored("gonum blas32.Gemm", p, q.rows, func() []float32 { return out.data }, func() error {
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, general(c), general(q), 0, general(out))
		return nil
	}), nil
}

func gorgoniaMatrix(p params) ([]*competitor, error) {
	c, q, err := operands(p)
	if err != nil {
		return nil, err
	}
	transposed := make([]float32, len(q.data)) // beforehand: its engine multiplies plain matrices fastest
	for i := range q.rows {
		for j, x := range q.row(i) {
			transposed[j*q.rows+i] = x
		}
	}
	a := tensor.New(tensor.WithShape(c.rows, c.dim), tensor.WithBacking(append([]float32(nil), c.data...)))
	b := tensor.New(tensor.WithShape(q.dim, q.rows), tensor.WithBacking(transposed))
	out := tensor.New(tensor.WithShape(c.rows, q.rows), tensor.Of(tensor.Float32))
	return stored("gorgonia tensor.MatMul", p, q.rows, func() []float32 { return out.Data().([]float32) },
		func() error {
			_, err := tensor.MatMul(a, b, tensor.WithReuse(out))
			return err
		}), nil
}

func vekMatrix(p params) ([]*competitor, error) {
	c, q, err := operands(p)
	if err != nil {
		return nil, err
	}
	out := make([]float32, c.rows*q.rows)
	return stored("vek32.Dot loops", p, q.rows, func() []float32 { return out }, func() error {
		share(c.rows, func(_, from, to int) {
			for i := from; i < to; i++ {
				for j := range q.rows {
					out[i*q.rows+j] = vek32.Dot(c.row(i), q.row(j))
				}
			}
		})
		return nil
	}), nil
}

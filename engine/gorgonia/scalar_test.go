package gorgonia

import (
	"fmt"
	"testing"

	"gorgonia.org/tensor"

	"github.com/sluice-rag/sluice/engine"
)

// TestMatMulOfOneByOne: what tensor takes for a scalar ends as it does with the default engine.
func TestMatMulOfOneByOne(t *testing.T) {
	e := newEngine(t, engine.Options{})
	run := func(opts []tensor.ConsOpt, m, k, n int) string {
		a := tensor.New(append(opts, tensor.WithShape(m, k),
			tensor.WithBacking(tensor.Range(tensor.Float32, 2, 2+m*k)))...)
		b := tensor.New(append(opts, tensor.WithShape(k, n),
			tensor.WithBacking(tensor.Range(tensor.Float32, 5, 5+k*n)))...)
		c, err := tensor.MatMul(a, b)
		if err != nil {
			return "an error"
		}
		return fmt.Sprint(c.Shape(), c.Data())
	}
	for _, s := range [][3]int{{1, 1, 1}, {1, 1, 5}, {5, 1, 1}} {
		want, got := run(nil, s[0], s[1], s[2]), run([]tensor.ConsOpt{tensor.WithEngine(e)}, s[0], s[1], s[2])
		if got != want {
			t.Errorf("%v: %s, default engine %s", s, got, want)
		}
	}
}

//go:build asan && cgo && (amd64 || arm64)

// A test from within has this package compiled once more, C and all, so that all others are from without (package
// cpu_test); under the sanitizer it is compiled for the tests alone.

package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
)

// TestABIErrors goes past the Go checks: the C side refuses by itself, with code and text in one call.
func TestABIErrors(t *testing.T) {
	v, out := Rows{Data: make([]float32, 8), N: 2, Dim: 4, Stride: 4}, make([]float64, 4)
	k := Kernels{isa: Scalar}
	_, finite := k.nonFinite(Rows{N: -1, Dim: 4, Stride: 4})
	for name, c := range map[string]struct {
		err, want error
		text      string
	}{
		"stride": {k.scores(kernels.IP, out, 2, v, Rows{Data: v.Data, N: 2, Dim: 4, Stride: 3}), kernels.ErrShape,
			"b: 2 rows of 4 elements with stride 3"},
		"null": {k.scores(kernels.IP, out, 2, Rows{N: 2, Dim: 4, Stride: 4}, v), kernels.ErrShape,
			"a: null pointer"},
		"out stride": {k.scores(kernels.IP, out, 1, v, v), kernels.ErrShape, "out: stride 1 for 2 columns"},
		"norms":      {k.scores(kernels.Cosine, out, 2, v, v), kernels.ErrShape, "needs the norms"},
		"metric":     {k.scores(3, out, 2, v, v), kernels.ErrMetric, "metric 3"},
		"ISA":        {Kernels{isa: Go + 1}.scores(kernels.IP, out, 2, v, v), kernels.ErrISA, "instruction set 6"},
		"norms ISA":  {Kernels{isa: Go + 1}.norms(out, v), kernels.ErrISA, "instruction set 6"},
		"norms out":  {k.norms(nil, v), kernels.ErrShape, "out: null pointer for 2 norms"},
		"finite":     {finite, kernels.ErrShape, "-1 rows"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

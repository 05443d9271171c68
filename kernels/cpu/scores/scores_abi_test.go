//go:build asan && cgo && (amd64 || arm64)

// An internal test compiles this package again, C included, so all other tests are external (package cpu_test); under
// the sanitizer it is compiled for the tests only.

package scores

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
)

// TestABIErrors bypasses the Go checks: the C side rejects arguments itself, with code and text in one call.
func TestABIErrors(t *testing.T) {
	v, out := cpu.Rows{Data: make([]float32, 8), N: 2, Dim: 4, Stride: 4}, make([]float64, 4)
	k, lacking := cputest.KernelsOf(cpu.Scalar), cpu.Kernels{}
	const unknown = cpu.Go + 1
	*cputest.Field[cpu.ISA](&lacking, "isa") = unknown
	which := fmt.Sprintf("instruction set %d", uint8(unknown))
	_, finite := nonFinite(k, cpu.Rows{N: -1, Dim: 4, Stride: 4})
	for name, c := range map[string]struct {
		err, want error
		text      string
	}{
		"stride": {scores(k, kernels.IP, out, 2, v, cpu.Rows{Data: v.Data, N: 2, Dim: 4, Stride: 3}), kernels.ErrShape,
			"b: 2 rows of 4 elements with stride 3"},
		"null": {scores(k, kernels.IP, out, 2, cpu.Rows{N: 2, Dim: 4, Stride: 4}, v), kernels.ErrShape,
			"a: null pointer"},
		"out stride": {scores(k, kernels.IP, out, 1, v, v), kernels.ErrShape, "out: stride 1 for 2 columns"},
		"norms":      {scores(k, kernels.Cosine, out, 2, v, v), kernels.ErrShape, "needs the norms"},
		"metric":     {scores(k, 3, out, 2, v, v), kernels.ErrMetric, "metric 3"},
		"ISA":        {scores(lacking, kernels.IP, out, 2, v, v), kernels.ErrISA, which},
		"norms ISA":  {norms(lacking, out, v), kernels.ErrISA, which},
		"norms out":  {norms(k, nil, v), kernels.ErrShape, "out: null pointer for 2 norms"},
		"finite":     {finite, kernels.ErrShape, "-1 rows"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

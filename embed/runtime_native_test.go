//go:build native

package embed

import (
	"testing"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The recorded instruction set is the one that the operators compute with: the best one, or what SLUICE_ISA names.
func TestRuntimeNamesTheInstructionSetInUse(t *testing.T) {
	dir := minilm(t)
	for i, isa := range append([]cpu.ISA{cpu.Available()[0]}, cpu.Available()...) {
		name := isa.String()
		if i == 0 {
			t.Setenv("SLUICE_ISA", "")
		} else {
			t.Setenv("SLUICE_ISA", name)
		}
		if got := openEncoder(t, dir, Options{}).Info().Runtime.ISA; got != name {
			t.Errorf("%s is recorded where %s computes", got, name)
		}
	}
}

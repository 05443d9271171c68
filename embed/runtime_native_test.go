//go:build native

package embed

import (
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// The recorded instruction set is the one that the operators compute with: the best one, or what SLUICE_ISA names.
func TestRuntimeNamesTheInstructionSetInUse(t *testing.T) {
	dir := minilm(t)
	names := []string{"", cpu.EmulatedAMX}
	for _, isa := range cpu.Available() {
		names = append(names, isa.String())
	}
	for _, name := range names {
		t.Setenv("SLUICE_ISA", name)
		want := name
		switch {
		case name == "":
			want = cpu.Available()[0].String()
		case name == cpu.EmulatedAMX && !slices.Contains(cpu.Available(), cpu.AVX2):
			continue
		}
		if want == cpu.AMX.String() {
			want = "amx-bf16x6"
		}
		if got := openEncoder(t, dir, Options{}).Info().Runtime.ISA; got != want {
			t.Errorf("%s is recorded where %s computes", got, want)
		}
	}
}

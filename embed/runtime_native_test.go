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
		if _, err := cpu.Open(isa.String() + cpu.Winograd); err == nil {
			names = append(names, isa.String()+cpu.Winograd)
		}
	}
	for _, name := range names {
		t.Setenv("SLUICE_ISA", name)
		want := name
		switch {
		case name == "":
			best, err := cpu.Open("")
			if err != nil {
				t.Fatal(err)
			}
			want = best.String()
		case name == cpu.EmulatedAMX && !slices.Contains(cpu.Available(), cpu.AVX2):
			continue
		}
		if want == cpu.AMX.String() {
			want = "amx-int24"
		}
		if got := openEncoder(t, dir, Options{}).Info().Runtime.ISA; got != want {
			t.Errorf("%s is recorded where %s computes", got, want)
		}
	}
}

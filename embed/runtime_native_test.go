//go:build native

package embed

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// A store of vectors of 8 bits opens on a machine whose instruction set computes them a little otherwise.
func TestRuntimesOfInt8(t *testing.T) {
	dir, path := minilm(t), filepath.Join(t.TempDir(), "runtime.json")
	for i, name := range []string{cpu.AVX2.String(), cpu.EmulatedAMX} {
		needISA(t, name)
		t.Setenv("SLUICE_ISA", name)
		changed, err := KeepRuntime(t.Context(), path, openEncoder(t, dir, Options{Precision: Int8}))
		if err != nil || changed != (i > 0) {
			t.Errorf("%s: changed %v, %v", name, changed, err)
		}
	}
}

// The recorded instruction set is the one that the operators compute with: the best one, or what SLUICE_ISA names.
func TestRuntimeNamesTheInstructionSetInUse(t *testing.T) {
	race.Skip(t)
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
		for _, p := range precisions {
			named := want
			if want == cpu.AMX.String() {
				named = map[Precision]string{F32: "amx-int24", Int8: "amx-bf16"}[p]
			}
			if got := openEncoder(t, dir, Options{Precision: p}).Info().Runtime.ISA; got != named {
				t.Errorf("%s: %s is recorded where %s computes", p, got, named)
			}
		}
	}
}

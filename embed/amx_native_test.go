//go:build native

package embed

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// vectorsWith embeds texts with the named instruction set.
func vectorsWith(t *testing.T, isa string, o Options, texts []string) []float32 {
	t.Helper()
	t.Setenv("SLUICE_ISA", isa)
	return embedAll(t, openEncoder(t, minilm(t), o), texts, Document).Data
}

// needISA skips a test on a machine without the named instruction set.
func needISA(t *testing.T, isa string) {
	t.Helper()
	if _, err := cpu.Open(isa); errors.Is(err, kernels.ErrISA) {
		t.Skipf("SKIP: %v", err)
	}
}

// The vectors that AMX computes, in emulation: near float64, the same bits alone and in any batch and order, with 8
// bits near those with VNNI; and where there is AMX, its own are the same as in emulation.
func TestVectorsOfAMX(t *testing.T) {
	race.Skip(t)
	needISA(t, cpu.EmulatedAMX)
	dir, texts := minilm(t), mixed(t, 17)
	vectors := map[Precision][]float32{}
	for _, p := range precisions {
		t.Setenv("SLUICE_ISA", cpu.EmulatedAMX)
		e := openEncoder(t, dir, Options{Precision: p})
		all := embedAll(t, e, texts, Document)
		vectors[p] = all.Data
		reversed := slices.Clone(texts)
		slices.Reverse(reversed)
		backwards := embedAll(t, openEncoder(t, dir, Options{Precision: p, MaxBatchTokens: 96}), reversed, Document)
		for i, text := range texts {
			if !slices.Equal(backwards.Row(len(texts)-1-i), all.Row(i)) {
				t.Fatalf("%s: text %d has other bits in another order and other batches", p, i)
			}
			if i < 5 && !slices.Equal(embedAll(t, e, []string{text}, Document).Data, all.Row(i)) {
				t.Fatalf("%s: text %d has other bits alone", p, i)
			}
		}
	}
	t.Run("float64", func(t *testing.T) {
		want, _ := reference(t,
			task{Model: dir, Task: "embed", Pooling: "mean", Normalise: true, MaxTokens: 256, Texts: texts})
		most := 0.
		for i, row := range want {
			most = max(most, worst(vectors[F32][i*len(row):(i+1)*len(row)], row))
		}
		if t.Logf("max |d| to NumPy float64 = %.3g", most); !(most <= 5e-7) {
			t.Errorf("max |d| = %g, at most 5e-7 expected", most)
		}
	})
	t.Run("int8 with VNNI", func(t *testing.T) {
		needISA(t, cpu.AVX512VNNI.String())
		with := vectorsWith(t, cpu.AVX512VNNI.String(), Options{Precision: Int8}, texts)
		if d := worst32(with, vectors[Int8]); !(d <= int8Tolerance) {
			t.Errorf("components differ by up to %g", d)
		}
	})
	for _, p := range precisions {
		t.Run("the instructions themselves, "+string(p), func(t *testing.T) {
			needISA(t, cpu.AMX.String())
			if !slices.Equal(vectorsWith(t, cpu.AMX.String(), Options{Precision: p}, texts), vectors[p]) {
				t.Error("other bits than in emulation")
			}
		})
	}
}

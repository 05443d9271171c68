package gguf

import "testing"

// TestMemoryOfOffloadedLayers: what goes to a GPU is not counted in main memory, and nothing is lost between both.
func TestMemoryOfOffloadedLayers(t *testing.T) {
	f := Footprint{Weights: 30_000_000, Repacked: 10_000_000, Extra: 2_000_000, Token: 9000, Layers: 29, Scratch: 5000,
		Vocab: 1000}
	s := Sizes{Cells: 1024, Batch: 64, Slots: 2, Sequences: 3}
	host := f.Memory(s)
	if host.GPU != 0 {
		t.Errorf("%d bytes on a GPU without layers there", host.GPU)
	}
	before := host
	for n := 1; n <= 40; n++ {
		s.GPULayers = n
		m := f.Memory(s)
		all := int64(f.Layers + 1)
		share := min(int64(n), all)
		weights, cache := f.Weights*share/all, host.Cache*share/all
		if off := m.GPU - (weights + cache + host.Compute); off < -2 || off > 2 {
			t.Fatalf("%d layers: %d bytes on the GPU, %d of weights and %d of cache are theirs", n, m.GPU, weights,
				cache)
		}
		if m.Total() > before.Total() || m.Mapped > m.Weights {
			t.Fatalf("%d layers: %+v after %+v", n, m, before)
		}
		before = m
	}
	if before.Weights != 0 || before.Cache != 0 || before.Compute != host.Compute {
		t.Errorf("all layers are offloaded, and main memory has %+v", before)
	}
}

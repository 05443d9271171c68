package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/engine/internal/device/devicetest"
	"github.com/sluice-rag/sluice/internal/test/race"
	"github.com/sluice-rag/sluice/kernels"
)

// TestGPUScans: single queries and small batches scan what a GPU keeps of a prepared set, with the CPU's bits: with
// biases, after rows were deleted and added, on one GPU and on two, with and without a tail.
func TestGPUScans(t *testing.T) {
	race.Skip(t)
	rng := rand.New(rand.NewPCG(131, 1))
	want := newEngine(t, Options{Device: DeviceCPU, Threads: 2})
	for _, gpus := range []int{1, 2} {
		e, all := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, gpus, nil)
		e.scanRows = 1
		for _, metric := range metrics {
			for _, n := range []int{1, 3, 16} {
				sameSearches(t, want, e, vectors(rng, n, 24, 24), vectors(rng, 1800, 24, 25), metric)
			}
		}
		scans := 0
		for _, d := range all {
			scans += d.Calls("Scan")
		}
		if scans == 0 {
			t.Error("nothing was scanned")
		}
	}
}

// TestGPUScanKeepsCodes: rows are coded once, and what is coded goes with the set.
func TestGPUScanKeepsCodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(132, 1))
	e, gpus := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, 1, nil)
	e.scanRows = 1000
	d := gpus[0]
	s := prepare(t, e, plain(rng, 5000, 32), kernels.Cosine, SetOptions{NoIndex: true})
	d.FailAt("", 0)
	for range 3 {
		if _, err := s.TopK(t.Context(), plain(rng, 2, 32), 3, nil); err != nil {
			t.Fatal(err)
		}
	}
	if d.Calls("Code") != 1 || d.Calls("Scan") < 3 || d.Calls("Count") != 0 {
		t.Errorf("coded %d times, %d scans, %d calls of Count", d.Calls("Code"), d.Calls("Scan"), d.Calls("Count"))
	}
	if _, err := s.TopK(t.Context(), plain(rng, 100, 32), 3, nil); err != nil || d.Calls("Count") == 0 {
		t.Errorf("100 queries are not tiled: %v", err)
	}
	s.Close()
	if d.Live() != 0 {
		t.Errorf("%d sets and copies outlive the set", d.Live())
	}
}

// TestGPUScanBiased: rows with biases, more than are scored at once, are looked at in the codes first.
func TestGPUScanBiased(t *testing.T) {
	rng := rand.New(rand.NewPCG(133, 1))
	want := newEngine(t, Options{Device: DeviceCPU, Threads: 2})
	e, gpus := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, 1, nil)
	e.scanRows = 1
	for _, metric := range metrics {
		q, v := plain(rng, 2, 16), plain(rng, 30_000, 16)
		bias := []Biases{manyBiases(rng, v.Rows, .9, .2), computed{manyBiases(rng, v.Rows, .5, .2)}}
		w := prepare(t, want, v, metric, SetOptions{NoIndex: true})
		g := prepare(t, e, v, metric, SetOptions{NoIndex: true})
		a, err := w.TopK(t.Context(), q, 5, bias)
		if err != nil {
			t.Fatal(err)
		}
		gpus[0].FailAt("", 0)
		b, err := g.TopK(t.Context(), q, 5, bias)
		if diff := difference(a, b); err != nil || diff != "" {
			t.Fatalf("%s: %v\n%s", metric, err, diff)
		}
		if n := gpus[0].Calls("Scan"); n < 5 {
			t.Errorf("%s: %d scans", metric, n)
		}
		w.Close()
		g.Close()
	}
}

// TestGPUScanFaults: whichever call of a scan fails, nothing is left on the device.
func TestGPUScanFaults(t *testing.T) {
	rng := rand.New(rand.NewPCG(134, 1))
	e, gpus := withGPUs(t, Options{Device: DeviceCUDA, Threads: 1}, 1, nil)
	e.scanRows = 1
	d, q, v := gpus[0], plain(rng, 2, 16), plain(rng, 1500, 16)
	for _, method := range []string{"Code", "Scan"} {
		s := prepare(t, e, v, kernels.L2, SetOptions{NoIndex: true})
		d.FailAt(method, 1)
		if _, err := s.TopK(t.Context(), q, 3, nil); err == nil {
			t.Errorf("%s fails, the search does not", method)
		}
		d.FailAt("", 0)
		if _, err := s.TopK(t.Context(), q, 3, nil); err != nil {
			t.Error(err)
		}
		s.Close()
		if d.Live() != 0 {
			t.Errorf("%s: %d sets and copies are left", method, d.Live())
		}
	}
}

// TestGPUPacksInLargeSteps: a set that a GPU packs is sent in pieces of the size that it says, not in ones for a CPU's
// caches.
func TestGPUPacksInLargeSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(135, 1))
	for packs, calls := range map[int]int{0: 10, 4 * 64 * 3200: 2, 1 << 30: 1} {
		e, gpus := withGPUs(t, Options{Device: DeviceCUDA, Threads: 2}, 1,
			func(d *devicetest.StandIn) { d.Packs = packs })
		s := prepare(t, e, plain(rng, 5120, 64), kernels.Cosine, SetOptions{NoIndex: true})
		gpus[0].FailAt("", 0)
		if _, err := s.TopK(t.Context(), plain(rng, 17, 64), 3, nil); err != nil {
			t.Fatal(err)
		}
		if n := gpus[0].Calls("Pack") - 1; n != calls { // one is of the queries
			t.Errorf("steps of %d bytes: %d calls of Pack, want %d", packs, n, calls)
		}
		s.Close()
	}
}

//go:build native

package ops

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/kernels/cpu"
)

// shared makes a product of 12 rows with so many outputs, and what it is without a helper.
func shared(t *testing.T, k cpu.Kernels, out int) (p cpu.Linear, want []float32) {
	t.Helper()
	const rows, in = 12, 96
	rng := rand.New(rand.NewPCG(52, 1))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	w, err := k.PackWeights(cpu.Rows{Data: draw(out * in), N: out, Dim: in, Stride: in})
	if err != nil {
		t.Fatal(err)
	}
	p = cpu.Linear{X: cpu.Rows{Data: draw(rows * in), N: rows, Dim: in, Stride: in}, Weights: w, Stride: out,
		Y: make([]float32, rows*out), Last: w.Panels(), Scratch: make([]float32, k.LinearScratch(rows, in)), After: w}
	alone := p
	alone.Y = make([]float32, rows*out)
	if err := k.Linear(&alone); err != nil {
		t.Fatal(err)
	}
	return p, alone.Y
}

// free waits until no helper is in use.
func (d *Domain) free(t *testing.T) {
	t.Helper()
	for range 2000 {
		used := false
		for i := range d.helpers {
			used = used || d.helpers[i].holders.Load() > 0
		}
		if !used {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("a helper does not end")
}

// Products have the same bits with a helper, with one that never comes, and with one that leaves; it gives its thread
// back once in each case, and takes part where it can.
func TestHelper(t *testing.T) {
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	d := &Domain{kernels: k}
	for _, out := range []int{1, 40, 400} {
		p, want := shared(t, k, out)
		check := func(h *helper, what string) {
			t.Helper()
			clear(p.Y)
			part := p
			if err := h.share(&part); err != nil || !slices.Equal(p.Y, want) {
				t.Fatalf("%d outputs, %s: %v, or other bits than alone", out, what, err)
			}
		}
		var gone atomic.Int32
		stay, count := func() bool { return false }, func() { gone.Add(1) }
		var took bool
		for range 200 {
			_ = d.WithHelper(stay, count, func() error {
				h := &d.helpers[0]
				check(h, "beside a helper")
				for i := 0; i < 100 && !took && atomic.LoadInt32(&h.state) == 0; i++ {
					h.product = p
					h.product.Scratch = slices.Clone(p.Scratch)
					atomic.StoreInt32(&h.state, 1)
					time.Sleep(50 * time.Microsecond)
					took = atomic.LoadInt32(&h.state) == 3
					atomic.StoreInt32(&h.state, 0)
				}
				return nil
			})
			d.free(t)
		}
		if gone.Load() != 200 || !took {
			t.Fatalf("the thread was given back %d times of 200; the helper took part: %v", gone.Load(), took)
		}
		check(&helper{kernels: k}, "without anybody")
		check(&helper{kernels: k, state: 4}, "after the helper left")
		_ = d.WithHelper(func() bool { return true }, count, func() error {
			for range 1000 {
				check(&d.helpers[0], "while the helper leaves")
			}
			for i := 0; d.helpers[0].holders.Load() > 1; i++ { // during the run: somebody else wants the thread
				if time.Sleep(time.Millisecond); i == 2000 {
					t.Error("a helper does not leave")
					break
				}
			}
			// Another run gets another helper: this one is still looked at by the first run's products.
			return d.WithHelper(stay, count, func() error {
				if d.helpers[1].holders.Load() != 2 {
					t.Error("the second run shares the first one's helper")
				}
				check(&d.helpers[0], "beside another run with a helper")
				check(&d.helpers[1], "as another run with a helper")
				return nil
			})
		})
		d.free(t)
	}
}

// More runs than helpers: the others go without, and their threads are given back at once.
func TestMoreRunsThanHelpers(t *testing.T) {
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	d := &Domain{kernels: k}
	var gone atomic.Int32
	var all sync.WaitGroup
	begun, end := make(chan bool), make(chan bool)
	for range helpers + 3 {
		all.Go(func() {
			_ = d.WithHelper(func() bool { return false }, func() { gone.Add(1) }, func() error {
				begun <- true
				<-end
				return nil
			})
		})
	}
	for range helpers + 3 {
		<-begun
	}
	if gone.Load() != 3 {
		t.Errorf("%d threads given back of 3 without a helper", gone.Load())
	}
	close(end)
	all.Wait()
	d.free(t)
	for i := 0; i < 2000 && gone.Load() < helpers+3; i++ {
		time.Sleep(time.Millisecond)
	}
	if gone.Load() != helpers+3 {
		t.Errorf("%d threads given back of %d", gone.Load(), helpers+3)
	}
}

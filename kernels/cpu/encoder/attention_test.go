package encoder_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/encoder"
)

// Texts of all lengths around the sizes of blocks, panels and tiles, with and without a bias by distance, in a batch
// and alone. Kernels for codes are compared with the same rounding in float64.
func TestAttention(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		rng := rand.New(rand.NewPCG(7, 8))
		lengths := []int{1, 2, 11, 0, 12, 13, 15, 16, 17, 31, 32, 33, 70, 5, 0}
		for i, shape := range [][2]int{{1, 1}, {3, 16}, {2, 32}, {4, 20}, {2, 64}, {2, 80}, {1, 32}, {2, 33}} {
			for _, coded := range []bool{false, true} {
				a := attentionOf(rng, k, shape[0], shape[1], lengths, i%2 > 0, coded)
				bound, rounds := 2e-6, coded && strings.HasPrefix(k.String(), AMX.String())
				if rounds {
					bound = 6e-3 // a weight close to a rounding boundary may round the other way
				}
				got, broken := between(len(a.Y))
				a.Y = got
				if err := a.Compute(k); err != nil {
					t.Fatal(err)
				}
				if d := largestError(got, attentionReference(a, rounds)); !(d < bound) || broken() {
					t.Errorf("%v, codes %v: error %g, written outside: %v", shape, coded, d, broken())
				}
				alone := *a
				alone.Y = make([]float32, len(got))
				for i := range lengths {
					for h := range shape[0] {
						alone.First, alone.Last, alone.FirstHead, alone.LastHead = i, i+1, h, h+1
						if err := alone.Compute(k); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !slices.Equal(alone.Y, got) {
					t.Errorf("%v, codes %v: texts and heads one by one have other bits", shape, coded)
				}
			}
		}
	})
}

// On a machine with AMX, its instructions give the same bits as their emulation.
func TestAttentionOfAMX(t *testing.T) {
	emulated := emulatedAMX(t)
	amx, err := Open(AMX.String())
	if err != nil {
		t.Skipf("SKIP: the instructions themselves are not tested: %v", err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for i, size := range []int{1, 31, 32, 64, 100} {
		a := attentionOf(rng, amx, 3, size, []int{40, 1, 16, 100, 31}, i%2 > 0, true)
		for _, k := range []Kernels{emulated, amx} {
			b := *a
			b.Y = make([]float32, len(a.Y))
			if err := b.Compute(k); err != nil {
				t.Fatal(err)
			}
			if k == amx && !slices.Equal(a.Y, b.Y) {
				t.Errorf("heads of %d values: not the bits of the emulation", size)
			}
			a.Y = b.Y
		}
	}
}

func attentionOf(rng *rand.Rand, k Kernels, heads, size int, lengths []int, biased, coded bool) *Attention {
	a := &Attention{Heads: heads, Size: size, Starts: []int64{0}, Scale: float32(1 / math.Sqrt(float64(size))),
		Coded: coded, Last: len(lengths), LastHead: heads}
	for _, n := range lengths {
		a.Starts = append(a.Starts, a.Starts[len(a.Starts)-1]+int64(n))
	}
	rows := int(a.Starts[len(lengths)])
	a.QKV, a.Y = normal(rng, rows*3*heads*size, 1), make([]float32, rows*heads*size)
	a.Scratch = make([]float32, AttentionScratch(k, slices.Max(lengths), size, coded))
	for i := range a.Scratch {
		a.Scratch[i] = cputest.Canary
	}
	if biased {
		a.Far = slices.Max(lengths) - 1
		a.Bias = normal(rng, heads*(2*a.Far+1), 1)
	}
	return a
}

// attentionReference computes all texts and heads in float64; with rounds, it rounds what the kernels round to
// bfloat16.
func attentionReference(a *Attention, rounds bool) []float32 {
	round := func(x float64) float64 {
		if rounds {
			return float64(bfloat16s([]float32{float32(x)})[0])
		}
		return x
	}
	width := a.Heads * a.Size
	y := make([]float32, len(a.Y))
	for text := range a.Starts[1:] {
		from, n := int(a.Starts[text]), int(a.Starts[text+1]-a.Starts[text])
		for head := range a.Heads {
			// of returns the head's queries, keys or values of the text
			of := func(kind int, scale float64) [][]float64 {
				all := make([][]float64, n)
				for j := range all {
					for i := range a.Size {
						x := float64(a.QKV[((from+j)*3+kind)*width+head*a.Size+i])
						all[j] = append(all[j], round(x*scale))
					}
				}
				return all
			}
			queries, keys, values := of(0, float64(a.Scale)*math.Log2E), of(1, 1), of(2, 1)
			for query := range n {
				scores, sum, weighted := make([]float64, n), 0., make([]float64, a.Size)
				for j := range scores {
					scores[j] = dot(queries[query], keys[j])
					if a.Bias != nil {
						scores[j] += math.Log2E * float64(a.Bias[head*(2*a.Far+1)+a.Far+j-query])
					}
				}
				highest := slices.Max(scores)
				for j, s := range scores {
					weight := math.Exp2(s - highest)
					sum += weight
					add(weighted, round(weight), values[j])
				}
				for i, v := range weighted {
					y[(from+query)*width+head*a.Size+i] = float32(v / sum)
				}
			}
		}
	}
	return y
}

// dot returns x·y. norace keeps the sanitizer's calls out of it and of add, one for each number: they would be most of
// the test's time, and Go checks the bounds of slices itself.
//
//go:norace
//go:noinline
func dot(x, y []float64) (sum float64) {
	y = y[:len(x)]
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// add adds a multiple of x to to.
//
//go:norace
//go:noinline
func add(to []float64, factor float64, x []float64) {
	x = x[:len(to)]
	for i := range to {
		to[i] += factor * x[i]
	}
}

// A NaN key, as from damaged weights, affects every row that attends to it, and no other.
func TestAttentionShowsNaN(t *testing.T) {
	forEachProduct(t, func(t *testing.T, k Kernels) {
		for _, coded := range []bool{false, true} {
			a := attentionOf(rand.New(rand.NewPCG(2, 3)), k, 2, 32, []int{5, 40, 3}, false, coded)
			a.QKV[(7*3+1)*64+3] = float32(math.NaN()) // the second text's third key of the first head
			if err := a.Compute(k); err != nil {
				t.Fatal(err)
			}
			for i, y := range a.Y {
				row, head := i/64, i%64/32
				if want := row >= 5 && row < 45 && head == 0; want != (y != y) {
					t.Fatalf("codes %v: row %d, head %d has %v", coded, row, head, y)
				}
			}
		}
	})
}

package tiles_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/kernels"
	. "github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/kernels/cpu/cputest"
	. "github.com/sluice-rag/sluice/kernels/cpu/tiles"
)

func bigOf(s Sum) *big.Int {
	hi := new(big.Int).Lsh(big.NewInt(s.Hi), 64)
	return hi.Add(hi, new(big.Int).SetUint64(s.Lo))
}

// TestSumPlus compares with big integers.
func TestSumPlus(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 1))
	edge := []Sum{{}, {0, 1}, {-1, math.MaxUint64}, {0, math.MaxUint64}, {0, math.MaxInt64},
		{math.MaxInt64, math.MaxUint64}, {math.MinInt64, 0}, {math.MinInt64, 1}, {1, 0}, {-1, 0}}
	for range 30 {
		edge = append(edge, Sum{int64(rng.Uint64()) >> rng.IntN(64), rng.Uint64()})
	}
	lowest, highest := bigOf(Sum{math.MinInt64, 0}), bigOf(Sum{math.MaxInt64, math.MaxUint64})
	refused := 0
	for _, a := range edge {
		for _, b := range edge {
			want := new(big.Int).Add(bigOf(a), bigOf(b))
			fits := want.Cmp(lowest) >= 0 && want.Cmp(highest) <= 0
			got, err := a.Plus(b)
			if err != nil {
				refused++
			}
			if fits != (err == nil) || fits && bigOf(got).Cmp(want) != 0 || err != nil &&
				!errors.Is(err, kernels.ErrRange) {
				t.Errorf("%v + %v = %v, %v; want %v", a, b, got, err, want)
			}
		}
		value, _ := new(big.Float).SetInt(bigOf(a)).Float64()
		if got := a.Float64() * (1 << 30); math.Abs(got-value) > 0x1p-52*math.Abs(value) {
			t.Errorf("%v is %v units, want %v", a, got, value)
		}
	}
	if refused == 0 {
		t.Error("no sum was refused")
	}
}

// TestSumsDoNotWrap continues a count from sums near the limits of 63 and 127 bits, on every instruction set.
func TestSumsDoNotWrap(t *testing.T) {
	forEachTile(t, func(t *testing.T, k Kernels, dtype kernels.DType) {
		rng := rand.New(rand.NewPCG(62, 1))
		for _, metric := range cputest.Metrics {
			a, b := cputest.RandomRows(rng, 70, 24), cputest.RandomRows(rng, 40, 24)
			copy(b.Data, a.Data[:40*24]) // products that add up to something
			b = cputest.WithNorms(Rows{Data: b.Data, N: 40, Dim: 24, Stride: 24})
			s := scaleOf(metric, a)
			left, right := packAs(t, k, Left, dtype, metric, a, nil, s), packAs(t, k, Right, dtype, metric, b, nil, s)
			count := func(from Sum) (Count, error) {
				c := Count{Own: make([]int32, b.N), NoBest: true, Min: float32(math.Inf(-1)), Max: float32(math.Inf(1)),
					Sum: from, Sum2: from}
				for i := range c.Own {
					c.Own[i] = -1
				}
				err := c.Add(k, left, 0, left.Count(), right, 0, right.Count())
				return c, err
			}
			plain, err := count(Sum{})
			if err != nil || plain.Sum2.Float64() <= 0 {
				t.Fatal(plain.Sum2, err)
			}
			for _, from := range []Sum{{0, math.MaxInt64}, {0, math.MaxUint64}, {-1, 1 << 63}, {3, 5}, {-1 << 40, 7}} {
				got, err := count(from)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range [][2]Sum{{got.Sum, plain.Sum}, {got.Sum2, plain.Sum2}} {
					if want, err := from.Plus(x[1]); err != nil || x[0] != want {
						t.Errorf("%s: from %v on: %v, want %v", metric, from, x[0], want)
					}
				}
			}
			if _, err := count(Sum{math.MaxInt64, math.MaxUint64}); !errors.Is(err, kernels.ErrRange) {
				t.Errorf("%s: beyond 128 bits: %v", metric, err)
			}
		}
	})
}

// TestSumOfTileOutOfRange checks that a tile's sum beyond the integer range is rejected, not converted.
func TestSumOfTileOutOfRange(t *testing.T) {
	cputest.ForEachISA(t, func(t *testing.T, k Kernels) {
		a := cputest.WithNorms(Rows{Data: []float32{0x1p60}, N: 1, Dim: 1, Stride: 1})
		left, right := packAs(t, k, Left, kernels.F32, kernels.IP, a, nil, 1),
			packAs(t, k, Right, kernels.F32, kernels.IP, a, nil, 1)
		c := Count{Own: []int32{-1}, NoBest: true, Min: float32(math.Inf(-1)), Max: float32(math.Inf(1))}
		if err := c.Add(k, left, 0, 1, right, 0, 1); !errors.Is(err, kernels.ErrRange) {
			t.Errorf("a sum of 2^120: %v, %v", c.Sum, err)
		}
	})
}

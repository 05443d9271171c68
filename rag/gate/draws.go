package gate

import (
	"context"
	"math/bits"
	"runtime"
)

// draws are the numbers 0 … n−1 that a rand.Rand over a rand.PCG draws one after the other with IntN(n). A bootstrap of
// a large base draws a hundred million of them: here the generator can start anywhere in its sequence, so that
// resamples are drawn side by side, with the same numbers. rand's PCG is fixed by its documentation (O'Neill's
// PCG-DXSM); that both agree is tested.
type draws struct {
	high, low uint64 // state of the generator
	n         uint64
}

func newDraws(seed1, seed2 uint64, n int) draws { return draws{seed1, seed2, uint64(n)} }

// The constants of PCG-DXSM: a state times the first plus the second, modulo 2¹²⁸, is the next.
const (
	pcgMulHigh, pcgMulLow = 2549297995355413924, 4865540595714422341
	pcgIncHigh, pcgIncLow = 6364136223846793005, 1442695040888963407
	pcgOut                = 0xda942042e4dd58b5
)

// step returns a·b + c in 128 bits.
func step(aHigh, aLow, bHigh, bLow, cHigh, cLow uint64) (high, low uint64) {
	high, low = bits.Mul64(aLow, bLow)
	high += aHigh*bLow + aLow*bHigh
	low, carry := bits.Add64(low, cLow, 0)
	high, _ = bits.Add64(high, cHigh, carry)
	return high, low
}

// after returns the generator as it is after k numbers (Brown, Random number generation with arbitrary strides, 1994).
func (d draws) after(k uint64) draws {
	mulHigh, mulLow, incHigh, incLow := uint64(pcgMulHigh), uint64(pcgMulLow), uint64(pcgIncHigh), uint64(pcgIncLow)
	for ; k > 0; k >>= 1 {
		if k&1 == 1 {
			d.high, d.low = step(d.high, d.low, mulHigh, mulLow, incHigh, incLow)
		}
		incHigh, incLow = step(incHigh, incLow, mulHigh, mulLow, incHigh, incLow) // (mul + 1)·inc
		mulHigh, mulLow = step(mulHigh, mulLow, mulHigh, mulLow, 0, 0)
	}
	return d
}

// into counts n draws: weight[i] grows by how often i was drawn. It returns how many numbers had to be drawn again (of
// 2⁶⁴ so few are left over that it takes some 10¹⁴ draws to meet one): by so many the sequence is then ahead.
func (d *draws) into(weight []int32) (again uint64) {
	n, high, low := d.n, d.high, d.low
	weight = weight[:n]
	mask, power := n-1, n&(n-1) == 0
	for left := n; left > 0; {
		high, low = step(high, low, pcgMulHigh, pcgMulLow, pcgIncHigh, pcgIncLow)
		x := high ^ high>>32
		x *= pcgOut
		x ^= x >> 48
		x *= low | 1
		at, rest := bits.Mul64(x, n)
		if power {
			at = x & mask
		} else if rest < n && rest < -n%n {
			again++
			continue
		}
		weight[at]++
		left--
	}
	d.high, d.low = high, low
	return again
}

// beside counts n draws of d and n of o in turns, which takes less time than one after the other: each number waits for
// the one before it in its own sequence only. If a number had to be drawn again, which it tells, weights are of no use.
func (d *draws) beside(o *draws, weight, other []int32) (again uint64) {
	n := d.n
	weight, other = weight[:n], other[:n]
	mask, power := n-1, n&(n-1) == 0
	high, low, high2, low2 := d.high, d.low, o.high, o.low
	for range n {
		high, low = step(high, low, pcgMulHigh, pcgMulLow, pcgIncHigh, pcgIncLow)
		high2, low2 = step(high2, low2, pcgMulHigh, pcgMulLow, pcgIncHigh, pcgIncLow)
		x, y := high^high>>32, high2^high2>>32
		x, y = x*pcgOut, y*pcgOut
		x, y = x^x>>48, y^y>>48
		x, y = x*(low|1), y*(low2|1)
		if power {
			weight[x&mask]++
			other[y&mask]++
			continue
		}
		at, rest := bits.Mul64(x, n)
		at2, rest2 := bits.Mul64(y, n)
		if rest < n && rest < -n%n || rest2 < n && rest2 < -n%n {
			again++
		}
		weight[at]++
		other[at2]++
	}
	d.high, d.low, o.high, o.low = high, low, high2, low2
	return again
}

// each runs tasks on several goroutines, an engine's workers say; nil runs them one after the other.
type each func(ctx context.Context, tasks int, fn func(task int) error) error

func (e each) run(ctx context.Context, tasks int, fn func(task int) error) error {
	if e != nil {
		return e(ctx, tasks, fn)
	}
	for task := range tasks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := fn(task); err != nil {
			return err
		}
	}
	return nil
}

// shares is into how many tasks work is cut that needs memory of its own in each.
func (e each) shares() int {
	if e == nil {
		return 1
	}
	return 4 * runtime.GOMAXPROCS(0)
}

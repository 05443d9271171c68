package gate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Of streams that are like the reference at most the share δ raises an alarm, at any time.
func TestMartingaleKeepsItsPromise(t *testing.T) {
	const streams, delta = 1000, .05
	alarms, last := 0, 0.
	for seed := range uint64(streams) {
		random := rand.New(rand.NewPCG(46, seed))
		reference := make([]float64, 60)
		for i := range reference {
			reference[i] = math.Round(8 * random.NormFloat64()) // with ties
		}
		m, alarm := NewMartingale(reference, seed), false
		for range 400 {
			m.Add(math.Round(8 * random.NormFloat64()))
			alarm = alarm || m.Alarms(delta)
		}
		if last += m.Log10() / streams; alarm {
			alarms++
		}
	}
	if limit := delta + 3*math.Sqrt(delta*(1-delta)/streams); float64(alarms)/streams > limit {
		t.Errorf("%d of %d streams raise an alarm, at most %.3f should", alarms, streams, limit)
	}
	if last >= 0 {
		t.Errorf("the value grows without a reason: its logarithm is %.2f on average", last)
	}
	t.Logf("%d of %d streams of 400 raise an alarm at %g; log10 of the value %.2f on average", alarms, streams, delta, last)
}

// A stream that differs by a standard deviation is found out soon, in either direction.
func TestMartingaleAlarms(t *testing.T) {
	for _, shift := range []float64{-1, 1} {
		random := rand.New(rand.NewPCG(46, 0))
		reference := make([]float64, 100)
		for i := range reference {
			reference[i] = random.NormFloat64()
		}
		m := NewMartingale(reference, 1)
		for !m.Alarms(.01) && m.Questions() < 1000 {
			if p := m.Add(random.NormFloat64() + shift); !(p > 0 && p <= 1) {
				t.Fatalf("p = %v", p)
			}
		}
		t.Logf("shifted by %g: alarm after %d questions", shift, m.Questions())
		if m.Questions() > 100 {
			t.Errorf("shifted by %g: alarm after %d questions", shift, m.Questions())
		}
	}
}

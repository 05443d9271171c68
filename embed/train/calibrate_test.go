package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTemperature: logits whose probabilities are right, times three, get the temperature three.
func TestTemperature(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, multi := range []bool{false, true} {
		o := &objective{labels: 4, multi: multi}
		var logits []float32
		var targets []target
		for range 4000 {
			z := make([]float64, o.labels)
			var sum float64
			for j := range z {
				z[j] = 1.5 * r.NormFloat64()
				sum += math.Exp(z[j])
				logits = append(logits, float32(3*z[j]))
			}
			var have target
			left := r.Float64() * sum
			for j, v := range z {
				if multi {
					if r.Float64() < 1/(1+math.Exp(-v)) {
						have = append(have, int32(j))
					}
				} else if left -= math.Exp(v); left < 0 {
					have = target{int32(j)}
					break
				}
			}
			if !multi && have == nil {
				have = target{3}
			}
			targets = append(targets, have)
		}
		c := calibrate(o, logits, targets)
		if !(math.Abs(c.Temperature-3) < .25) || !(c.ECE < .03) || !(c.ECEBefore > 2*c.ECE) {
			t.Errorf("multi-label %v: %+v", multi, c)
		}
		// with two outcomes it would be .5; the best of four is worth giving where it is more often right than wrong
		if !multi && !(math.Abs(c.Threshold-.5) < .12) {
			t.Errorf("threshold %v", c.Threshold)
		}
	}
}

// TestNothingToCalibrate: where all is right, probabilities stay as they are and the threshold lies below them.
func TestNothingToCalibrate(t *testing.T) {
	o := &objective{labels: 2}
	c := calibrate(o, []float32{2, 0, 0, 3}, []target{{0}, {1}})
	lowest := 1 / (1 + math.Exp(-2))
	if c.Temperature != 1 || !(c.Threshold > .5 && c.Threshold < lowest) || c.Kept != 1 || c.Precision != 1 {
		t.Errorf("%+v", c)
	}
}

// TestReport: the labels of two classifiers, counted by hand.
func TestReport(t *testing.T) {
	single := report(&objective{labels: 2}, []string{"a", "b"}, []float32{1, 0, 0, 1, 0, 1}, []target{{0}, {0}, {1}})
	want := &Report{Labels: []LabelScores{{"a", 1, .5, 2. / 3, 2}, {"b", .5, 1, 2. / 3, 1}},
		Confusion: [][]int{{1, 1}, {0, 1}}}
	if diff := cmp.Diff(want, single); diff != "" {
		t.Error(diff)
	}
	multi := report(&objective{labels: 2, multi: true}, []string{"a", "b"}, []float32{1, -1, 1, 1, -1, -1},
		[]target{{0}, {0}, {1}})
	want = &Report{Labels: []LabelScores{{"a", 1, 1, 1, 2}, {"b", 0, 0, 0, 1}},
		Multi: true, Confusion: [][]int{{1, 0, 0, 2}, {1, 1, 1, 0}}}
	if diff := cmp.Diff(want, multi); diff != "" {
		t.Error(diff)
	}
}

// TestScore is a table that was counted by hand.
func TestScore(t *testing.T) {
	single := score(&objective{labels: 3}, []float32{1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1}, []target{{0}, {1}, {0}, {2}})
	if single.Accuracy != .75 || !(math.Abs(single.F1-(2./3+2./3+1)/3) < 1e-12) || single.Examples != 4 {
		t.Errorf("%+v", single)
	}
	multi := score(&objective{labels: 2, multi: true}, []float32{1, -1, 1, 1, -1, -1}, []target{{0}, {0}, {1}})
	if !(math.Abs(multi.Accuracy-1./3) < 1e-12) || !(math.Abs(multi.F1-4./6) < 1e-12) {
		t.Errorf("%+v", multi)
	}
}

package train

import (
	"slices"
)

// score compares logits with targets.
func score(o *objective, logits []float32, targets []target) Scores {
	s := Scores{Examples: len(targets)}
	plain := &objective{labels: o.labels, multi: o.multi} // class weights are for training
	s.Loss, _ = loss(plain, logits, targets)
	given, right, wanted := make([]float64, o.labels), make([]float64, o.labels), make([]float64, o.labels)
	correct := 0
	for i, t := range targets {
		z := logits[i*o.labels:][:o.labels]
		found := []int32{int32(argmax(z))}
		if o.multi {
			found = found[:0]
			for j, v := range z {
				if v > 0 { // a probability above one half
					found = append(found, int32(j))
				}
			}
		}
		for _, j := range found {
			given[j]++
			if slices.Contains(t, j) {
				right[j]++
			}
		}
		for _, j := range t {
			wanted[j]++
		}
		sorted := slices.Sorted(slices.Values(t))
		if slices.Equal(found, sorted) {
			correct++
		}
	}
	s.Accuracy = float64(correct) / float64(max(len(targets), 1))
	s.F1 = f1(o.multi, given, right, wanted)
	return s
}

// f1 is the harmonic mean of precision and recall: over all decisions, or the mean over the labels that occur.
func f1(all bool, given, right, wanted []float64) float64 {
	if all {
		var g, r, w float64
		for j := range given {
			g, r, w = g+given[j], r+right[j], w+wanted[j]
		}
		return 2 * r / max(g+w, 1)
	}
	var sum, labels float64
	for j := range given {
		if wanted[j] > 0 {
			sum += 2 * right[j] / (given[j] + wanted[j])
			labels++
		}
	}
	return sum / max(labels, 1)
}

// above is the share of decisions from a probability on, and how many of these are right.
func above(d []decision, at float64) (kept, precision float64) {
	var n, right float64
	for _, x := range d {
		if x.p >= at {
			n++
			if x.right {
				right++
			}
		}
	}
	return n / max(float64(len(d)), 1), right / max(n, 1)
}

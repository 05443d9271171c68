package train

import "slices"

// score compares logits with targets.
func score(o *objective, logits []float32, targets []target) Scores {
	s := Scores{Examples: len(targets)}
	plain := &objective{labels: o.labels, multi: o.multi} // class weights are for training only
	s.Loss, _ = loss(plain, logits, targets)
	given, right, wanted := make([]float64, o.labels), make([]float64, o.labels), make([]float64, o.labels)
	correct := 0
	for i, t := range targets {
		found := o.found(logits[i*o.labels:][:o.labels])
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

// found returns the labels that a text's logits predict: the best one, or with multiple labels all with a probability
// above one half.
func (o *objective) found(z []float32) []int32 {
	if !o.multi {
		return []int32{int32(argmax(z))}
	}
	var found []int32
	for j, v := range z {
		if v > 0 {
			found = append(found, int32(j))
		}
	}
	return found
}

// LabelScores holds the scores of one label.
type LabelScores struct {
	Label     string  `json:"label"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
	Support   int     `json:"support"` // number of texts with the label
}

// Report says how well each label is recognised.
type Report struct {
	Labels []LabelScores `json:"per_label"` // in the order of the model's labels
	// Confusion counts texts by their label (rows) and the predicted one (columns). With several labels per text, it
	// has for each label the true negatives, false positives, false negatives and true positives.
	Confusion [][]int `json:"confusion"`
	Multi     bool    `json:"multi,omitempty"` // several labels per text
}

// report counts the outcomes of each label.
func report(o *objective, labels []string, logits []float32, targets []target) *Report {
	r := &Report{Confusion: make([][]int, len(labels)), Multi: o.multi}
	cells := make([][4]int, len(labels))
	for k := range r.Confusion {
		r.Confusion[k] = make([]int, len(labels))
	}
	for i, t := range targets {
		found := o.found(logits[i*o.labels:][:o.labels])
		for k := range labels {
			cell := 0
			if slices.Contains(found, int32(k)) {
				cell = 1
			}
			if slices.Contains(t, int32(k)) {
				cell += 2
			}
			cells[k][cell]++
		}
		if !o.multi {
			r.Confusion[t[0]][found[0]]++
		}
	}
	share := func(part, whole int) float64 { return float64(part) / float64(max(whole, 1)) }
	for k, c := range cells {
		if o.multi {
			r.Confusion[k] = c[:]
		}
		given, wanted, right := c[1]+c[3], c[2]+c[3], c[3]
		r.Labels = append(r.Labels, LabelScores{Label: labels[k], Precision: share(right, given),
			Recall: share(right, wanted), F1: share(2*right, given+wanted), Support: wanted})
	}
	return r
}

// f1 returns the harmonic mean of precision and recall: over all decisions, or the mean over the labels that occur.
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

// above returns the share of decisions with at least a given probability, and how many of these are right.
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

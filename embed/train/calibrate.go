package train

import (
	"cmp"
	"math"
	"slices"
)

// Calibration says how far a model's probabilities can be believed, measured on validation texts.
type Calibration struct {
	Temperature float64 `json:"temperature" yaml:"temperature"` // that logits are divided by
	ECEBefore   float64 `json:"ece_before" yaml:"ece_before"`   // expected calibration error (15 bins) without it
	ECE         float64 `json:"ece" yaml:"ece"`                 // and with it
	Threshold   float64 `json:"threshold" yaml:"threshold"`     // below it, a label is not given
	Kept        float64 `json:"kept" yaml:"kept"`               // share of texts (multi-label: decisions) above it
	Precision   float64 `json:"precision" yaml:"precision"`     // of what is above it
}

// calibrate fits the temperature (Guo et al. 2017) by the negative log-likelihood, and picks a threshold: with one
// label a text the one at which right answers less wrong ones are most; with several the one of the best F1.
func calibrate(o *objective, logits []float32, targets []target) Calibration {
	c := Calibration{Temperature: fit(o, logits, targets)}
	c.ECEBefore = expectedError(decisions(o, logits, targets, 1))
	d := decisions(o, logits, targets, c.Temperature)
	c.ECE = expectedError(d)
	chance := 0.
	if !o.multi {
		chance = 1 / float64(o.labels)
	}
	c.Threshold, c.Kept, c.Precision = threshold(d, o.multi, chance)
	return c
}

// fit returns the temperature of the smallest loss without class weights, by golden sections of its logarithm. Where
// every decision is right, a lower temperature is always better: then it is 1.
func fit(o *objective, logits []float32, targets []target) float64 {
	if score(o, logits, targets).Accuracy == 1 {
		return 1
	}
	plain := &objective{labels: o.labels, multi: o.multi}
	scaled := make([]float64, len(logits))
	value := func(x float64) float64 {
		for i, z := range logits {
			scaled[i] = float64(z) * math.Exp(-x)
		}
		l, _ := loss(plain, scaled, targets)
		return l
	}
	golden := (math.Sqrt(5) - 1) / 2
	a, b := math.Log(.05), math.Log(20.)
	x, y := b-golden*(b-a), a+golden*(b-a)
	fx, fy := value(x), value(y)
	for b-a > 1e-6 {
		if fx < fy {
			b, y, fy = y, x, fx
			x = b - golden*(b-a)
			fx = value(x)
		} else {
			a, x, fx = x, y, fy
			y = a + golden*(b-a)
			fy = value(y)
		}
	}
	return math.Exp((a + b) / 2)
}

// decision is a label with its probability, and whether the text has it.
type decision struct {
	p     float64
	right bool
}

// decisions returns the best label of each text, or with several labels every label of each text.
func decisions(o *objective, logits []float32, targets []target, temperature float64) []decision {
	var out []decision
	for i, t := range targets {
		z := logits[i*o.labels:][:o.labels]
		if o.multi {
			for j, v := range z {
				out = append(out, decision{1 / (1 + math.Exp(-float64(v)/temperature)), slices.Contains(t, int32(j))})
			}
			continue
		}
		best := argmax(z)
		var sum float64
		for _, v := range z {
			sum += math.Exp(float64(v-z[best]) / temperature)
		}
		out = append(out, decision{1 / sum, int32(best) == t[0]})
	}
	return out
}

func argmax(z []float32) int {
	best := 0
	for j, v := range z {
		if v > z[best] {
			best = j
		}
	}
	return best
}

// expectedError returns the mean over 15 equal bins of |share right − mean probability|, weighted by their decisions.
func expectedError(d []decision) float64 {
	const bins = 15
	var p, right [bins]float64
	for _, x := range d {
		b := min(int(x.p*bins), bins-1)
		p[b] += x.p
		if x.right {
			right[b]++
		}
	}
	var sum float64
	for b := range bins {
		sum += math.Abs(right[b] - p[b])
	}
	return sum / max(float64(len(d)), 1)
}

// threshold returns the probability from which on decisions are kept, with the share kept and how many of these are
// right. Where all are kept, it lies between the least probable and chance.
func threshold(d []decision, multi bool, chance float64) (at, kept, precision float64) {
	d = slices.Clone(d)
	slices.SortFunc(d, func(a, b decision) int { return cmp.Compare(b.p, a.p) })
	all := 0
	for _, x := range d {
		if x.right {
			all++
		}
	}
	at, best, right := 1., math.Inf(-1), 0
	for i, x := range d {
		if x.right {
			right++
		}
		if i+1 < len(d) && d[i+1].p == x.p {
			continue
		}
		value := float64(2*right - (i + 1))
		if multi {
			value = 2 * float64(right) / float64(i+1+all)
		}
		if value >= best { // of equals the lowest threshold, which gives the most answers
			best, at, kept, precision = value, (x.p+chance)/2, float64(i+1)/float64(len(d)), float64(right)/float64(i+1)
			if i+1 < len(d) { // between two: what is met later is neither exactly
				at = (x.p + d[i+1].p) / 2
			}
		}
	}
	return at, kept, precision
}

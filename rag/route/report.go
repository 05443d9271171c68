package route

import (
	"cmp"
	"math"
	"slices"
)

// Report is how well a router does on texts that it was not trained on.
type Report struct {
	Texts    int           `json:"texts"`
	Accuracy float64       `json:"accuracy"`  // texts whose labels are all right, before abstaining
	MacroF1  float64       `json:"macro_f1"`  // mean over the labels
	Abstains float64       `json:"abstains"`  // share of the texts
	Kept     float64       `json:"kept"`      // accuracy of the texts that it does not abstain from
	LogLoss  float64       `json:"log_loss"`  // of the calibrated probabilities, a text
	ECE      float64       `json:"ece"`       // their expected calibration error (15 bins)
	Labels   []LabelReport `json:"per_label"` // in the order of the labels
	// Confusion counts texts by their label (rows) and the one that they got (columns), with one label a text. With
	// several, each label has its true negatives, false positives, false negatives and true positives.
	Confusion [][]int `json:"confusion"`
	Outside   int     `json:"outside,omitempty"`       // texts of no domain
	AUROC     float64 `json:"outside_auroc,omitempty"` // that the abstention score tells them from the others
	Refused   float64 `json:"outside_refused,omitempty"`
}

// LabelReport is a label's line.
type LabelReport struct {
	Label     string  `json:"label"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
	Support   int     `json:"support"`
}

// outcome is a router's decision on a text, with the right one.
type outcome struct {
	want          []int32 // nil with outside
	outside       bool
	scores        []float64 // of the model
	probabilities []float64
	familiar      float64
}

// got returns the labels that the scores give.
func (o *outcome) got(multi bool, threshold float64) []int32 {
	if !multi {
		return []int32{int32(best(o.probabilities))}
	}
	var list []int32
	for k, p := range o.probabilities {
		if p >= threshold {
			list = append(list, int32(k))
		}
	}
	return list
}

func best(p []float64) int {
	top := 0
	for k, x := range p {
		if x > p[top] {
			top = k
		}
	}
	return top
}

// report counts outcomes.
func report(all []outcome, labels []string, multi bool, threshold, abstain float64) *Report {
	n := len(labels)
	r := &Report{Confusion: make([][]int, n)}
	for i := range r.Confusion {
		r.Confusion[i] = make([]int, n)
		if multi {
			r.Confusion[i] = make([]int, 4)
		}
	}
	given, right, wanted := make([]int, n), make([]int, n), make([]int, n)
	correct, kept, keptRight := 0, 0, 0
	refused := 0
	for i := range all {
		o := &all[i]
		if o.outside {
			r.Outside++
			if o.familiar < abstain {
				refused++
			}
			continue
		}
		r.Texts++
		got := o.got(multi, threshold)
		ok := slices.Equal(got, o.want)
		if ok {
			correct++
		}
		if o.familiar >= abstain {
			kept++
			if ok {
				keptRight++
			}
		}
		if !multi {
			r.Confusion[o.want[0]][got[0]]++
		}
		for k := range n {
			g, w := slices.Contains(got, int32(k)), slices.Contains(o.want, int32(k))
			cell := 0
			if g {
				given[k]++
				cell = 1
			}
			if w {
				wanted[k]++
				cell += 2
			}
			if g && w {
				right[k]++
			}
			if multi {
				r.Confusion[k][cell]++
			}
		}
	}
	r.Accuracy, r.Kept = share(correct, r.Texts), share(keptRight, kept)
	r.Abstains, r.Refused = 1-share(kept, r.Texts), share(refused, r.Outside)
	for k, l := range labels {
		p := LabelReport{Label: l, Precision: share(right[k], given[k]), Recall: share(right[k], wanted[k]),
			F1: share(2*right[k], given[k]+wanted[k]), Support: wanted[k]}
		r.Labels = append(r.Labels, p)
		r.MacroF1 += p.F1 / float64(n)
	}
	r.LogLoss, r.ECE = believed(all, multi)
	if r.Outside > 0 && r.Texts > 0 {
		r.AUROC = auroc(all)
	}
	return r
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// believed returns the log-loss of a text and the expected calibration error of the probabilities: of the label that a
// text gets, or with several labels of every decision.
func believed(all []outcome, multi bool) (loss, ece float64) {
	const bins = 15
	var sum, right, count [bins]float64
	texts, decisions := 0., 0.
	put := func(p float64, ok bool) {
		b := min(int(p*bins), bins-1)
		sum[b] += p
		count[b]++
		decisions++
		if ok {
			right[b]++
		}
	}
	for i := range all {
		o := &all[i]
		if o.outside {
			continue
		}
		texts++
		if !multi {
			loss -= math.Log(max(o.probabilities[o.want[0]], 1e-15))
			top := best(o.probabilities)
			put(o.probabilities[top], int32(top) == o.want[0])
			continue
		}
		for k, p := range o.probabilities {
			ok := slices.Contains(o.want, int32(k))
			put(p, ok)
			if !ok {
				p = 1 - p
			}
			loss -= math.Log(max(p, 1e-15))
		}
	}
	for b := range bins {
		if count[b] > 0 {
			ece += math.Abs(sum[b]-right[b]) / max(decisions, 1)
		}
	}
	return loss / max(texts, 1), ece
}

// auroc returns the probability that a text of a domain is more familiar than one without a domain; ties count half.
func auroc(all []outcome) float64 {
	type scored struct {
		score   float64
		outside bool
	}
	list := make([]scored, len(all))
	outside := 0.
	for i, o := range all {
		list[i] = scored{o.familiar, o.outside}
		if o.outside {
			outside++
		}
	}
	slices.SortFunc(list, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	below, wins := 0., 0.
	for i := 0; i < len(list); {
		j, in, out := i, 0., 0.
		for ; j < len(list) && list[j].score == list[i].score; j++ {
			if list[j].outside {
				out++
			} else {
				in++
			}
		}
		wins += in * (below + out/2)
		below += out
		i = j
	}
	return wins / (outside * (float64(len(all)) - outside))
}

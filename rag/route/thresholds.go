package route

import (
	"cmp"
	"math"
	"slices"
)

// probabilities turns scores into probabilities: the softmax of the scores divided by the temperature, or with several
// labels the logistic function of each, moved by the offset.
func probabilities(scores []float64, multi bool, temperature, offset float64) []float64 {
	p := make([]float64, len(scores))
	if multi {
		for k, s := range scores {
			p[k] = 1 / (1 + math.Exp(-(s/temperature + offset)))
		}
		return p
	}
	top, all := slices.Max(scores), 0.
	for k, s := range scores {
		p[k] = math.Exp((s - top) / temperature)
		all += p[k]
	}
	for k := range p {
		p[k] /= all
	}
	return p
}

// golden returns the place of the smallest value of f between a and b, which has one minimum there.
func golden(a, b float64, f func(float64) float64) float64 {
	ratio := (math.Sqrt(5) - 1) / 2
	x, y := b-ratio*(b-a), a+ratio*(b-a)
	fx, fy := f(x), f(y)
	for b-a > 1e-4 {
		if fx < fy {
			b, y, fy = y, x, fx
			x = b - ratio*(b-a)
			fx = f(x)
		} else {
			a, x, fx = x, y, fy
			y = a + ratio*(b-a)
			fy = f(y)
		}
	}
	return (a + b) / 2
}

// fitTemperature finds the temperature, and with several labels the offset, with the smallest log-loss on held-out
// texts. If every decision is right, the loss decreases monotonically with the temperature. With single labels a
// penalty term, about the loss of one additional wrong text (meanGap), keeps the temperature above 0; with several
// labels Platt's targets do.
func fitTemperature(all []outcome, multi bool) (temperature, offset float64) {
	gap := 0.
	if !multi {
		gap = meanGap(all)
	}
	yes, no := plattTargets(all)
	loss := func(temperature, offset float64) float64 {
		for i := range all {
			all[i].probabilities = probabilities(all[i].scores, multi, temperature, offset)
		}
		if multi {
			return plattLoss(all, yes, no)
		}
		l, _ := believed(all, multi)
		return l + gap/temperature
	}
	for range 3 {
		temperature = math.Exp(golden(math.Log(1e-3), math.Log(1e9), func(x float64) float64 {
			return loss(math.Exp(x), offset)
		}))
		if !multi {
			break
		}
		offset = golden(-10, 10, func(x float64) float64 { return loss(temperature, x) })
	}
	loss(temperature, offset)
	return temperature, offset
}

// plattTargets returns the probabilities that decisions of several labels are fitted to: (n₊+1)/(n₊+2) and 1/(n₋+2) for
// n₊ given and n₋ other labels, instead of 1 and 0 (Platt, Probabilistic Outputs for Support Vector Machines, 1999).
func plattTargets(all []outcome) (yes, no float64) {
	var given, other float64
	for i := range all {
		if o := &all[i]; !o.outside {
			given += float64(len(o.want))
			other += float64(len(o.scores) - len(o.want))
		}
	}
	return (given + 1) / (given + 2), 1 / (other + 2)
}

// plattLoss returns the cross-entropy of the probabilities and Platt's targets.
func plattLoss(all []outcome, yes, no float64) (loss float64) {
	for i := range all {
		o := &all[i]
		if o.outside {
			continue
		}
		for k, p := range o.probabilities {
			target := no
			if slices.Contains(o.want, int32(k)) {
				target = yes
			}
			loss -= target*math.Log(max(p, 1e-15)) + (1-target)*math.Log(max(1-p, 1e-15))
		}
	}
	return loss
}

// meanGap returns how far the best score is above the second one, on average, for each text: divided by the
// temperature, about the loss of one text more whose label is not the best one. It keeps the temperature above 0.
func meanGap(all []outcome) float64 {
	gap, texts := 0., 0.
	for i := range all {
		o := &all[i]
		if o.outside || len(o.scores) < 2 {
			continue
		}
		top := best(o.scores)
		second := math.Inf(-1)
		for k, s := range o.scores {
			if k != top {
				second = max(second, s)
			}
		}
		gap += o.scores[top] - second
		texts++
	}
	return gap / max(texts*texts, 1)
}

// abstention returns the familiarity below which the router abstains: where it tells held-out texts best from those of
// no domain (balanced accuracy), if there are such, else what keeps a share of the held-out texts.
func abstention(all []outcome, keep float64) float64 {
	var inside, outside []float64
	for _, o := range all {
		if o.outside {
			outside = append(outside, o.familiar)
		} else {
			inside = append(inside, o.familiar)
		}
	}
	slices.Sort(inside)
	slices.Sort(outside)
	if len(inside) == 0 {
		return 0
	}
	if len(outside) == 0 {
		at := min(int(math.Floor((1-keep)*float64(len(inside)))), len(inside)-1)
		return inside[at]
	}
	bestAt, bestScore := inside[0], -1.
	for i, at := range inside { // keeps inside[i:], refuses the outside ones below
		refused, _ := slices.BinarySearch(outside, at)
		score := share(len(inside)-i, len(inside)) + share(refused, len(outside))
		if score > bestScore {
			bestAt, bestScore = at, score
		}
	}
	return bestAt
}

// decisionThreshold returns the probability from which on a label is given where a text may have several: halfway, in
// log-odds, between the decisions that have the best F1 over all and the next ones.
func decisionThreshold(all []outcome) float64 {
	type decision struct {
		p  float64
		ok bool
	}
	var list []decision
	wanted := 0.
	for _, o := range all {
		if o.outside {
			continue
		}
		for k, p := range o.probabilities {
			ok := slices.Contains(o.want, int32(k))
			list = append(list, decision{p, ok})
			if ok {
				wanted++
			}
		}
	}
	slices.SortStableFunc(list, func(a, b decision) int { return cmp.Compare(b.p, a.p) })
	right, bestF1, at := 0., -1., .5
	for i, d := range list {
		if d.ok {
			right++
		}
		if i+1 < len(list) && list[i+1].p == d.p {
			continue
		}
		if f1 := 2 * right / (float64(i+1) + wanted); f1 > bestF1 {
			bestF1, at = f1, d.p/2
			if i+1 < len(list) {
				at = between(list[i+1].p, d.p)
			}
		}
	}
	return at
}

// between returns the probability halfway between two, in log-odds.
func between(p, q float64) float64 {
	odds := func(p float64) float64 { p = min(max(p, 1e-15), 1-1e-15); return math.Log(p / (1 - p)) }
	return 1 / (1 + math.Exp(-(odds(p)+odds(q))/2))
}

package route

import (
	"cmp"
	"slices"
)

// Sets says how the labels of a routed search are chosen: the most probable ones until their probabilities sum to Mass.
// More than Most of them, and texts that the router abstains from, are searched for everywhere.
type Sets struct {
	Mass    float64 `json:"mass"`
	Most    int     `json:"most"`
	Covered float64 `json:"covered"` // share of the held-out texts whose label is searched
	Size    float64 `json:"size"`    // mean number of labels of those that are not searched for everywhere
	All     float64 `json:"all"`     // share of the held-out texts that are searched for everywhere
}

// Choice is what a search for a text goes by.
type Choice struct {
	Labels []Label // that are searched; nil: all
	Reason string  // why all are
}

// Choose takes the labels that a search for a text goes by.
func (r *Router) Choose(d Decision) Choice {
	if d.Abstained {
		return Choice{Reason: "the query is unlike the texts that the router was trained on"}
	}
	n := setSize(d.Labels, r.Multi, r.Sets)
	if n == 0 {
		return Choice{Reason: "the router is unsure"}
	}
	return Choice{Labels: d.Labels[:n]}
}

// setSize returns how many of the labels, the most probable first, are searched; 0 is all.
func setSize(labels []Label, multi bool, s Sets) int {
	sum := 0.
	for n, l := range labels {
		if n == s.Most {
			return 0
		}
		if multi { // each label has a probability of its own: the mass is what the others may have at most
			if n > 0 && l.Probability < 1-s.Mass {
				return n
			}
			continue
		}
		if sum += l.Probability; sum >= s.Mass {
			return n + 1
		}
	}
	if multi && len(labels) <= s.Most {
		return len(labels)
	}
	return 0
}

// chooseMass takes the smallest mass with which the label of a share of the held-out texts is searched.
func chooseMass(held []outcome, multi bool, cover, abstain float64) (best Sets) {
	for _, mass := range []float64{.3, .4, .5, .6, .7, .8, .85, .9, .93, .95, .97, .98, .99, .995, .998, .999} {
		best = setsOf(held, multi, abstain, mass)
		if best.Covered >= cover {
			break
		}
	}
	return best
}

// setsOf measures the sets of a mass.
func setsOf(held []outcome, multi bool, abstain, mass float64) Sets {
	labels := 1
	if len(held) > 0 {
		labels = len(held[0].probabilities)
	}
	s := Sets{Mass: mass, Most: max(1, (labels+1)/2)}
	texts, covered, sizes, everywhere := 0, 0, 0, 0
	for _, o := range held {
		if o.outside {
			continue
		}
		texts++
		ranked := make([]Label, labels)
		order := make([]int32, labels)
		for k := range order {
			order[k] = int32(k)
		}
		slices.SortStableFunc(order, func(a, b int32) int {
			return cmp.Compare(o.probabilities[b], o.probabilities[a])
		})
		for i, k := range order {
			ranked[i].Probability = o.probabilities[k]
		}
		n := 0
		if o.familiar >= abstain {
			n = setSize(ranked, multi, s)
		}
		if n == 0 {
			covered++
			everywhere++
			continue
		}
		sizes += n
		in := true
		for _, k := range o.want {
			in = in && slices.Contains(order[:n], k)
		}
		if in {
			covered++
		}
	}
	s.Covered, s.All = share(covered, texts), share(everywhere, texts)
	if texts > everywhere {
		s.Size = float64(sizes) / float64(texts-everywhere)
	}
	return s
}

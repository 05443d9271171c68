package check

import (
	"slices"
	"strings"
)

// verdict is the result of comparing a sentence with one or two places.
type verdict struct {
	places  []int
	missing []fact
	cover   float64 // of the words that are no facts
	rank    float64 // cover together with the facts that stand there
	sure    bool    // one place, or a second one that has facts
}

// has reports whether a fact stands in a place. A quotation may stand anywhere in its passage.
func (x *checker) has(p *place, f *fact) bool {
	x.steps++
	switch f.kind {
	case aNumber:
		return slices.ContainsFunc(f.values, func(v float64) bool {
			if p.numbers[v] == 0 {
				return false
			}
			units := p.units[v]
			return f.unit == "" || len(units) == 0 || slices.Contains(units, "") || slices.Contains(units, f.unit)
		})
	case aDate:
		d := f.date
		number := func(n int) bool { return n == 0 || p.numbers[float64(n)] > 0 }
		if d.century+d.decade > 0 || d.weekday != "" {
			return p.spans[d] || number(d.century) && number(d.decade) && d.weekday == ""
		}
		return number(d.year) && number(d.day) && (d.month == 0 || p.months[d.month])
	case aName:
		return slices.ContainsFunc(f.keys, func(k string) bool { return p.keys[k] > 0 }) ||
			len(f.text) > 1 && f.text == strings.ToUpper(f.text) && p.initial[f.keys[0]]
	}
	before := ""
	for i, w := range f.words {
		if x.steps++; i > 0 {
			before = f.words[i-1]
		}
		if !x.pairs[p.passage][[2]string{before, w}] {
			return false
		}
	}
	return true
}

// judge compares a sentence with a place.
func (x *checker) judge(c *claim, id int) verdict {
	p := &x.places[id]
	v := verdict{places: []int{id}, sure: true, cover: x.cover(c, p.words, nil)}
	found := 0
	for i := range c.facts {
		if x.has(p, &c.facts[i]) {
			found++
		} else {
			v.missing = append(v.missing, c.facts[i])
		}
	}
	displaces := c.displaces(p)
	v.missing = append(x.excuse(c, p, v.missing, displaces), c.repeated(p, displaces && v.cover >= enough)...)
	v.rank = v.cover
	if n := float64(len(c.facts)); n > 0 {
		mean := 1. // a fact counts as much as a word
		if c.mass > 0 {
			mean = c.mass / float64(len(c.rest))
		}
		v.rank = (v.cover*c.mass + mean*float64(found)) / (c.mass + mean*n)
	}
	return v
}

// cover returns the weighted share of the words other than facts that one of two places has; 1 for a sentence that has
// no such words.
func (x *checker) cover(c *claim, a, b map[string]float64) float64 {
	if c.mass == 0 {
		return 1
	}
	sum := 0.
	for _, w := range c.order {
		x.steps++
		_, in := a[w]
		if _, also := b[w]; in || also {
			sum += c.rest[w]
		}
	}
	return sum / c.mass
}

// answers reports whether the places have enough of the words that are not the question's. Words that repeat the
// question are in every passage about its subject, and prove nothing.
func (x *checker) answers(c *claim, v verdict) bool {
	has, all := 0., 0.
	for _, w := range c.fresh {
		all += c.rest[w]
		for _, id := range v.places {
			if _, in := x.places[id].words[w]; in {
				has += c.rest[w]
				break
			}
		}
	}
	return has >= enough*all
}

// adds returns the weighted share of the words other than facts that only the second place has.
func (c *claim) adds(first, second map[string]float64) (n int) {
	for w := range c.rest {
		_, in := first[w]
		if _, also := second[w]; also && !in {
			n++
		}
	}
	return n
}

// excuse removes missing names that need not stand in the place: a name in one of the sentences before, if the place
// takes it up with a pronoun; the full name of a person whom the place calls by a part of it; and the long form of an
// acronym.
func (x *checker) excuse(c *claim, p *place, missing []fact, displaces bool) (left []fact) {
	if len(missing) == 0 {
		return nil
	}
	before := (!displaces || c.takenUp(p)) && x.before(c, p, missing)
	for _, f := range missing {
		switch {
		case f.kind != aName:
		case f.weak && !displaces, before && f.run == c.firstRun, len(c.runs[f.run]) > 1 && p.keys[c.runs[f.run]] > 0,
			!displaces && x.wholeName(c, p, f):
			continue
		}
		left = append(left, f)
	}
	return left
}

// displaces reports whether the place has a name more often than the sentence.
func (c *claim) displaces(p *place) bool {
	there := map[string]int{}
	for _, t := range p.names {
		for _, k := range nameKeys(t.key) {
			there[k]++
		}
	}
	return slices.ContainsFunc(p.names, func(t token) bool {
		return !slices.ContainsFunc(nameKeys(t.key), func(k string) bool { return there[k] <= c.keys[k] })
	})
}

// lacks reports whether the place has a number or a month that the sentence lacks.
func (c *claim) lacks(p *place) bool {
	for m := range p.months {
		if !c.months[m] {
			return true
		}
	}
	return slices.ContainsFunc(p.order, func(v float64) bool { return c.sum[v] == 0 })
}

// takenUp reports whether the place begins with a pronoun that the sentence lacks.
func (c *claim) takenUp(p *place) bool {
	return p.pronoun != "" && !slices.ContainsFunc(c.tokens, func(t token) bool { return t.key == p.pronoun })
}

// before reports whether all missing ones of the sentence's first names stand in the sentences before a place.
func (x *checker) before(c *claim, p *place, missing []fact) bool {
	from, to := x.first[p.passage]+max(0, p.in-backwards), x.first[p.passage]+p.in
	for _, f := range missing {
		if f.kind != aName || f.run != c.firstRun {
			continue
		}
		there := false
		for id := from; id < to && !there; id++ {
			x.steps++
			q := x.read(id)
			there = slices.ContainsFunc(f.keys, func(k string) bool { return q.capitals[k] })
		}
		if !there {
			return false
		}
	}
	return true
}

// wholeName reports whether the passages have the missing name beside one that the place has: a first name.
func (x *checker) wholeName(c *claim, p *place, f fact) bool {
	for _, k := range []int{f.token - 1, f.token + 1} {
		if k < 0 || k >= len(c.tokens) || !c.tokens[k].upper || p.keys[c.tokens[k].key] == 0 {
			continue
		}
		if x.beside[[2]string{c.tokens[min(f.token, k)].key, c.tokens[max(f.token, k)].key}] {
			return true
		}
	}
	return false
}

// repeated finds facts that the sentence has more often than the place, while the place has another fact of that kind
// that the sentence lacks: one was probably substituted for the other. Free writing repeats names as well, so names
// are checked only where the place has most of the other words.
func (c *claim) repeated(p *place, displaces bool) (facts []fact) {
	lacks := c.lacks(p)
	seen, times := map[float64]int{}, map[string]int{}
	for _, f := range c.facts {
		switch v := f.number(); {
		case f.kind == aName && displaces:
			for _, k := range f.keys {
				if times[k]++; p.keys[k] > 0 && times[k] > p.keys[k] {
					facts = append(facts, f)
					break
				}
			}
		case v > 0 && lacks:
			if seen[v]++; p.numbers[v] > 0 && seen[v] > p.numbers[v] {
				facts = append(facts, f)
			}
		}
	}
	return facts
}

// number returns the value of a number or the year of a date; 0 for other facts, and for a number that can be read in
// two ways.
func (f fact) number() float64 {
	if f.kind == aNumber && len(f.values) == 1 {
		return f.values[0]
	}
	return float64(f.date.year)
}

// join looks for a second place that has the facts which the first one lacks, together with words that only it has.
func (x *checker) join(c *claim, v verdict, ids []int) verdict {
	if len(v.places) == 0 || len(v.missing) == 0 && v.cover >= enough {
		return v
	}
	first, best := &x.places[v.places[0]], v
	names, numbers := c.displaces(first), c.lacks(first)
	for _, id := range ids {
		p := &x.places[id]
		cover := x.cover(c, first.words, p.words)
		if id == v.places[0] || cover < v.cover+joining || c.adds(first.words, p.words) < 2 {
			continue
		}
		names, numbers := names || c.displaces(p), numbers || c.lacks(p)
		missing := slices.DeleteFunc(slices.Clone(v.missing), func(f fact) bool {
			return x.has(p, &f) && !(f.kind == aName && names) && !(f.kind != aName && numbers)
		})
		if len(missing) < len(best.missing) || len(missing) == len(best.missing) && cover > best.cover {
			best = verdict{places: []int{v.places[0], id}, missing: missing, cover: cover,
				sure: len(missing) < len(v.missing), rank: max(v.rank, cover)}
		}
	}
	return best
}

// pronoun matches words, in English and German, that refer back to a name.
func pronoun(key string) bool {
	switch key {
	case "he", "she", "it", "they", "his", "her", "its", "their", "him", "them", "this", "these", "those", "such",
		"er", "sie", "es", "ihr", "ihre", "ihren", "ihrem", "ihrer", "sein", "seine", "seinen", "seinem", "seiner",
		"ihm", "ihn", "ihnen", "dieser", "diese", "dieses", "diesem", "diesen", "dessen", "deren":
		return true
	}
	return false
}

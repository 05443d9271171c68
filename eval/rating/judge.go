package rating

import "fmt"

// Agreement says how far the verdicts of a judge agree with the ratings of people: answers that they rate above the
// middle are good, those below are bad.
type Agreement struct {
	Good       int `json:"good"`
	GoodAgreed int `json:"good_agreed"` // the judge finds them correct
	Bad        int `json:"bad"`
	BadAgreed  int `json:"bad_agreed"` // the judge finds them wrong
}

func (a Agreement) String() string {
	return fmt.Sprintf("people on %d of %d good answers and %d of %d bad ones", a.GoodAgreed, a.Good,
		a.BadAgreed, a.Bad)
}

// Judges compares the verdicts of judges with ratings, by measure; nil without answers that have both. Of several
// ratings of an answer by a rater the last one counts, and of several raters the mean; in the middle it is left out.
func Judges(items []Item, ratings []Rating) map[string]Agreement {
	given := last(ratings)
	var all map[string]Agreement
	for _, it := range items {
		for system, verdicts := range it.Correct {
			above := 0 // the sum of what the ratings are above the middle
			for _, n := range given[key(it.ID, system)] {
				above += n - (Max+1)/2
			}
			for measure, v := range verdicts {
				if above == 0 {
					continue
				}
				if all == nil {
					all = map[string]Agreement{}
				}
				a := all[measure]
				a.count(above > 0, v >= .5)
				all[measure] = a
			}
		}
	}
	return all
}

func (a *Agreement) count(good, correct bool) {
	total, agreed := &a.Bad, &a.BadAgreed
	if good {
		total, agreed = &a.Good, &a.GoodAgreed
	}
	*total++
	if good == correct {
		*agreed++
	}
}

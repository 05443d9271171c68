package check

import "math"

// Found is a span of a passage that a reader (extractive question answering) gives as an answer to the question.
type Found struct {
	Place
	Score float64 // logits, comparable across passages
}

// What decides by a reader, chosen on topics of squad16 that it was not trained on (docs/adr/0031-readers.md).
const (
	agreeing = .5 // F1 of the words of a sentence and of a span that say the same
	behind   = 2. // logits that a span may score less than the best one
)

// asRead returns the sentence of a passage with the best span that says what a sentence of a few words says, if the
// reader prefers no other span by more than behind.
func (x *checker) asRead(c *claim, text string) (place Place, ok bool, err error) {
	if !c.asked || len(x.Found) == 0 {
		return Place{}, false, nil
	}
	said, err := x.weights(text)
	if err != nil {
		return Place{}, false, err
	}
	best, agrees := math.Inf(-1), Found{Score: math.Inf(-1)}
	for _, f := range x.Found {
		x.steps++
		best = max(best, f.Score)
		if f.Score <= agrees.Score {
			continue
		}
		found, err := x.weights(x.passages[f.Passage][f.Start:f.End])
		if err != nil {
			return Place{}, false, err
		}
		if agree(said, found) >= agreeing {
			agrees = f
		}
	}
	if math.IsInf(agrees.Score, -1) || agrees.Score < best-behind {
		return Place{}, false, nil
	}
	for _, p := range x.places {
		if p.passage == agrees.Passage && p.start <= agrees.Start && agrees.Start < p.end {
			return Place{p.passage, p.start, p.end}, true, nil
		}
	}
	return agrees.Place, true, nil
}

// agree returns the F1 of two sets of words.
func agree(a, b map[string]float64) float64 {
	both := 0
	for w := range a {
		if _, is := b[w]; is {
			both++
		}
	}
	return 2 * float64(both) / float64(max(1, len(a)+len(b)))
}

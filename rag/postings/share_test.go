package postings

import "testing"

// TestShareOfATextIsItsCover: a text of the index covers of a query what the index says, and two texts together cover
// the words that either has.
func TestShareOfATextIsItsCover(t *testing.T) {
	texts := []string{"The tides follow the moon.", "Herrings swim in large schools.", "A moon of Jupiter", "",
		"schools"}
	x := index(t, inEnglish(texts...), never)
	for _, question := range []string{"Which moon do tides follow?", "school of herring, school!", "nothing", "",
		"moons and tides of unheard waters"} {
		q := query(t, x, question, Scoring{Kind: Cover})
		for row, text := range texts {
			near(t, question+" of "+text, q.Share(q.In(text)), q.Score(row))
		}
	}
	q := query(t, x, "tides moon schools", Scoring{Kind: Cover})
	a, b := q.In(texts[0]), q.In(texts[1])
	for i := range a {
		a[i] = a[i] || b[i]
	}
	near(t, "both texts", q.Share(a), 1)
}

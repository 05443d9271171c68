package generate

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
)

// prose returns plain sentences with at least a number of words, determined by numbers. Texts with different numbers
// differ from their first words on, so that they are in no prompt cache.
func prose(words int, numbers ...uint64) string {
	var a, b uint64 = 1, 1
	for _, n := range numbers {
		a, b = a*6364136223846793005+n+1, b*1442695040888963407+a
	}
	r := rand.New(rand.NewPCG(a, b))
	pick := func(list string) string {
		all := strings.Fields(list)
		return all[r.IntN(len(all))]
	}
	const (
		things = "harbour river garden letter winter engine teacher window mountain bridge lantern village doctor " +
			"market forest captain"
		traits = "old quiet red narrow bright heavy empty northern simple broken famous small distant " +
			"careful warm wooden"
		deeds = "opened crossed found described repaired forgot counted followed painted sold measured " +
			"remembered carried closed"
		times = "yesterday later again early slowly together twice alone"
	)
	var text strings.Builder
	fmt.Fprintf(&text, "%d notes.", 10_000+r.IntN(90_000))
	for n := 2; n < words; n += 9 {
		fmt.Fprintf(&text, " The %s %s %s the %s %s near the %s %s.",
			pick(traits), pick(things), pick(deeds), pick(traits), pick(things), pick(things), pick(times))
	}
	return text.String()
}

// fit cuts a text between words to a number of tokens; if no cut has that many, short words fill it up as far as
// possible.
func fit(count func(string) (int, error), text string, tokens int) (string, error) {
	words := strings.Fields(text)
	var failed error
	size := func(s string) int {
		n, err := count(s)
		if err != nil && failed == nil {
			failed = err
		}
		return n
	}
	fitting := sort.Search(len(words), func(i int) bool { return size(strings.Join(words[:i+1], " ")) > tokens })
	if fitting == len(words) && size(text) < tokens && failed == nil {
		return "", fmt.Errorf("bench: a text of %d words has fewer than %d tokens", len(words), tokens)
	}
	out := strings.Join(words[:fitting], " ")
	for failed == nil && size(out) < tokens {
		longer := out + " a"
		if n := size(longer); n > tokens || n <= size(out) {
			break
		}
		out = longer
	}
	return out, failed
}

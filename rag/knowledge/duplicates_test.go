package knowledge

import "testing"

func TestShareOfWords(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"", "", 1}, {"", "one", 0}, {"One!", "one", 1}, {"One, two. Three", "one TWO\nthree", 1},
		{"one two three", "one two four", 1. / 3}, {"a b c d", "d c b a", 0}, {"中 文 x", "中 文", .5},
	} {
		if got := ShareOfWords(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %g, want %g", c.a, c.b, got, c.want)
		}
	}
}

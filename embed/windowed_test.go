package embed

import (
	"slices"
	"testing"
)

// TestWindowed: windows have all of a text's own tokens in their order, equally many but for one, with the special ones
// around each.
func TestWindowed(t *testing.T) {
	for _, x := range []struct{ own, windows, least int }{{0, 1, 0}, {7, 1, 7}, {8, 2, 4}, {15, 3, 5}, {22, 4, 5}} {
		ids := []uint32{101, 5} // special and prefix
		for i := range x.own {
			ids = append(ids, uint32(1000+i))
		}
		ids = append(ids, 102)
		var own []uint32
		all := windowed(ids, 2, 1, 10)
		for _, w := range all {
			n := len(w) - 3
			if n > 7 || n < x.least || n > x.least+1 || w[0] != 101 || w[1] != 5 || w[len(w)-1] != 102 {
				t.Errorf("%d own tokens: window %d", x.own, w)
			}
			own = append(own, w[2:len(w)-1]...)
		}
		if len(all) != x.windows || !slices.Equal(own, ids[2:len(ids)-1]) {
			t.Errorf("%d own tokens: %d windows with %d", x.own, len(all), own)
		}
	}
	if all := windowed([]uint32{1, 2, 3, 4, 5}, 3, 1, 4); len(all) != 1 || len(all[0]) != 4 {
		t.Errorf("a prefix that leaves no room: %d", all)
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]struct {
		base   string
		p      Precision
		tokens int
	}{
		"all-MiniLM-L6-v2": {"all-MiniLM-L6-v2", "", 0}, "m:int8": {"m", Int8, 0}, "m:512": {"m", "", 512},
		"m:int8:512": {"m", Int8, 512}, "m:": {"m:", "", 0}, ":512": {":512", "", 0}, "m:+5": {"m:+5", "", 0},
		"http://host:8080": {"http://host:8080", "", 0}, "m:99999999999999999999": {"m:99999999999999999999", "", 0},
	} {
		if base, p, tokens := SplitName(name); base != want.base || p != want.p || tokens != want.tokens {
			t.Errorf("%s: %q, %q, %d", name, base, p, tokens)
		}
	}
}

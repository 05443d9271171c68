package build

import "testing"

// TestNumerals: by hand, and as Word and CSS write them.
func TestNumerals(t *testing.T) {
	for n, want := range map[int][5]string{1: {"a", "A", "i", "1st", "01"}, 27: {"aa", "AA", "xxvii", "27th", "27"},
		28: {"bb", "AB", "xxviii", "28th", "28"}, 1994: {"1994", "BXR", "mcmxciv", "1994th", "1994"},
		0: {"0", "0", "0", "0th", "00"}, -1: {"-1", "-1", "-1", "-1th", "-1"},
		112: {"hhhhh", "DH", "cxii", "112th", "112"}} {
		for i, format := range []string{"lowerLetter", "upper-alpha", "lowerRoman", "ordinal", "decimalZero"} {
			if got := Numeral(format, n); got != want[i] {
				t.Errorf("%d as %s is %q, want %q", n, format, got, want[i])
			}
		}
	}
}

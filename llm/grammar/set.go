package grammar

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// set is a set of characters: ranges in order that neither overlap nor touch.
type set [][2]rune

// every returns the characters of texts: Unicode without surrogates and NUL, which ends a piece of text in llama.cpp.
func every() set { return set{{1, 0xD7FF}, {0xE000, utf8.MaxRune}} }

// newSet sorts and merges ranges.
func newSet(ranges [][2]rune) set {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b [2]rune) int { return cmp.Compare(a[0], b[0]) })
	var s set
	for _, r := range ranges {
		if n := len(s); n > 0 && r[0] <= s[n-1][1]+1 {
			s[n-1][1] = max(s[n-1][1], r[1])
		} else {
			s = append(s, r)
		}
	}
	return s
}

func (s set) and(t set) set {
	var out set
	for i, j := 0, 0; i < len(s) && j < len(t); {
		if lo, hi := max(s[i][0], t[j][0]), min(s[i][1], t[j][1]); lo <= hi {
			out = append(out, [2]rune{lo, hi})
		}
		if s[i][1] < t[j][1] {
			i++
		} else {
			j++
		}
	}
	return out
}

// not returns every character that is not in s.
func (s set) not() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if next < r[0] {
			out = append(out, [2]rune{next, r[0] - 1})
		}
		next = r[1] + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, [2]rune{next, utf8.MaxRune})
	}
	return out.and(every())
}

package embed

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		ids            []uint32
		limit, closing int
		want           []uint32
		cut            bool
	}{
		{[]uint32{1, 5, 6, 2}, 4, 1, []uint32{1, 5, 6, 2}, false},
		{[]uint32{1, 5, 6, 2}, 3, 1, []uint32{1, 5, 2}, true},
		{[]uint32{5, 6, 7}, 2, 0, []uint32{5, 6}, true},
		{[]uint32{1, 5, 6, 2, 3}, 3, 2, []uint32{1, 2, 3}, true},
		{nil, 3, 1, nil, false},
	} {
		got, cut := truncate(slices.Clone(c.ids), c.limit, c.closing)
		if !slices.Equal(got, c.want) || cut != c.cut {
			t.Errorf("truncate(%v, %d, %d) = %v, %t", c.ids, c.limit, c.closing, got, cut)
		}
	}
}

func FuzzRepair(f *testing.F) {
	for _, s := range []string{"", "plain", "a\x00b", "\xff\xfe", "Grüße \xc3", "\uFFFD", "日\x00本\xe6\x97"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fixed, changed := Repair(s)
		if !utf8.ValidString(fixed) || strings.Contains(fixed, "\x00") {
			t.Fatalf("%q is not repaired: %q", s, fixed)
		}
		if changed != (fixed != s) {
			t.Fatalf("%q → %q, changed %t", s, fixed, changed)
		}
		m := repairMap(s)
		if len(m) != len(fixed)+1 || m[len(fixed)] != len(s) || !slices.IsSorted(m) {
			t.Fatalf("%q: map %v of %q", s, m, fixed)
		}
		for i, at := range m[:len(fixed)] {
			if s[at] != fixed[i] && !strings.ContainsRune(fixed[max(i-2, 0):min(i+3, len(fixed))], utf8.RuneError) {
				t.Fatalf("%q: byte %d of %q is mapped to %d", s, i, fixed, at)
			}
		}
	})
}

func TestClassesFill(t *testing.T) {
	c := Classes{Labels: []string{"a", "b", "c"}, Logits: []float32{0, 0, 0, 1000, -1000, 0, -5, 2, 2}}
	c.fill(false)
	if !slices.Equal(c.Best, []int{0, 0, 1}) || c.Row(1)[0] != 1 || c.Row(1)[1] != 0 || c.Row(0)[2] != float32(1./3) {
		t.Errorf("%+v", c)
	}
	one := Classes{Labels: []string{"x"}, Logits: []float32{0, 200, -200}}
	one.fill(true)
	if !slices.Equal(one.Probabilities, []float32{.5, 1, 0}) {
		t.Errorf("sigmoids %v", one.Probabilities)
	}
}

func TestProject(t *testing.T) {
	v := make([]float64, 64)
	for i := range v {
		v[i] = rand.Float64()
	}
	before := project(v)
	for i := range v {
		v[i] += .8
		if d := project(v) - before; d*d < .009 || d*d > .011 {
			t.Fatalf("component %d moves the projection by %g, expected ±0.1", i, d)
		}
		v[i] -= .8
	}
}

package grammar

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// randomRange makes up a schema of a number with bounds, and numbers at, near and around them in the notation that the
// grammar uses: no zeros at the end of decimals, no sign before zero.
func randomRange(rnd *rand.Rand) (schema string, near []string) {
	scale := []int64{1, 1, 10, 100, 1000}[rnd.IntN(5)]
	typ := "number"
	if scale == 1 {
		typ = "integer"
	}
	size := []int64{5, 50, 3000, 200000}[rnd.IntN(4)]
	lo := rnd.Int64N(2*size) - size
	hi := lo + rnd.Int64N(size)
	words := []string{fmt.Sprintf(`"type":%q`, typ)}
	if rnd.IntN(4) > 0 {
		words = append(words, fmt.Sprintf("%q:%s", []string{"minimum", "exclusiveMinimum"}[rnd.IntN(2)],
			decimal(lo, scale)))
	}
	if rnd.IntN(4) > 0 {
		words = append(words, fmt.Sprintf("%q:%s", []string{"maximum", "exclusiveMaximum"}[rnd.IntN(2)],
			decimal(hi, scale)))
	}
	switch step := []int64{2, 3, 5, 7, 10, 12, 25, 60, 100}[rnd.IntN(9)]; {
	case rnd.IntN(3) > 0:
	case scale == 1:
		words = append(words, fmt.Sprintf(`"multipleOf":%d`, step))
	default:
		words = append(words, fmt.Sprintf(`"multipleOf":%s`, decimal(1, scale)))
	}
	at := []int64{0, 1, -1, lo, hi, lo + 1, lo - 1, hi + 1, hi - 1}
	for range 30 {
		at = append(at, lo-3+rnd.Int64N(hi-lo+7), rnd.Int64N(4*size)-2*size)
	}
	for _, n := range at {
		near = append(near, decimal(n, scale))
		if len(words) < 4 && scale > 1 {
			near = append(near, decimal(n*10+rnd.Int64N(10), scale*10))
		}
	}
	return "{" + strings.Join(words, ",") + "}", near
}

// decimal writes n/scale, scale a power of ten.
func decimal(n, scale int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprint(n / scale)
	if rest := n % scale; rest > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%0*d", len(fmt.Sprint(scale))-1, rest), "0")
	}
	return sign + text
}

package grammar

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultDigits = 15   // of a number: as many as a float64 keeps exactly
	maxDigits     = 30   // of a bound, on either side of the point
	maxStates     = 3000 // step of multiples, times digits
)

// rational reads a JSON number exactly.
func rational(v *value) (*big.Rat, error) {
	if v.kind != '0' {
		return nil, fmt.Errorf("%s is not a number", v.encode())
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(v.text), "e"); ok {
		if e, err := strconv.Atoi(exponent); err != nil || e < -maxDigits || e > maxDigits {
			return nil, fmt.Errorf("%s has an exponent beyond %d", v.text, maxDigits)
		}
	}
	if len(v.text) > 100 {
		return nil, fmt.Errorf("%.20s... has more than 100 characters", v.text)
	}
	r, ok := new(big.Rat).SetString(v.text)
	if !ok {
		return nil, fmt.Errorf("%s is not a number", v.text)
	}
	return r, nil
}

// limit is one end of a range of numbers; at is nil without a limit.
type limit struct {
	at      *big.Rat
	strict  bool // the end itself is not in the range
	keyword string
}

// limit reads a bound that may be written inclusively or exclusively. sign is 1 for a lower one, -1 for an upper one.
func (c *compiler) limit(s *value, path, inclusive, exclusive string, sign int) (l limit) {
	for _, keyword := range []string{inclusive, exclusive} {
		v := s.get(keyword)
		if v == nil {
			continue
		}
		r, err := rational(v)
		if err != nil {
			c.fail(path, keyword, "%v", err)
		}
		decimals, _ := r.FloatPrec()
		if len(new(big.Int).Quo(r.Num(), r.Denom()).String()) > maxDigits || decimals > maxDigits {
			c.fail(path, keyword, "%s has more than %d digits before or after the point", v.text, maxDigits)
		}
		strict := keyword == exclusive
		if l.at == nil || r.Cmp(l.at)*sign > 0 || r.Cmp(l.at) == 0 && strict {
			l = limit{r, strict, keyword}
		}
	}
	return l
}

func (c *compiler) number(typ string, s *value, path string) string {
	lo := c.limit(s, path, "minimum", "exclusiveMinimum", 1)
	hi := c.limit(s, path, "maximum", "exclusiveMaximum", -1)
	step, decimals := c.step(typ, s, path)
	if lo.at == nil && hi.at == nil && step == nil && decimals == unlimited {
		return c.anyNumber()
	}
	var alts []string
	if step != nil {
		alts = c.integers(lo, hi, step, path)
	} else {
		alts = c.decimals(lo, hi, decimals)
	}
	if len(alts) == 0 {
		c.fail(path, cmp.Or(lo.keyword, hi.keyword), "no %s is in the range", typ)
	}
	return strings.Join(alts, " | ")
}

// step reads multipleOf: integers are multiples of step; of other numbers it says how many decimals they have.
func (c *compiler) step(typ string, s *value, path string) (step *big.Int, decimals int) {
	v := s.get("multipleOf")
	if v == nil {
		if typ == "integer" {
			return big.NewInt(1), 0
		}
		return nil, unlimited
	}
	r, err := rational(v)
	if err != nil {
		c.fail(path, "multipleOf", "%v", err)
	}
	n, _ := r.FloatPrec()
	switch {
	case r.Sign() <= 0:
		c.fail(path, "multipleOf", "%s is not above 0", v.text)
	case typ == "integer" || r.IsInt():
		return r.Num(), 0 // an integer is a multiple of p/q, in lowest terms, if it is one of p
	case n > defaultDigits || r.Num().Cmp(big.NewInt(1)) != 0 || r.Denom().Cmp(pow10(n)) != 0:
		c.fail(path, "multipleOf", "%s is neither whole nor 0.1, 0.01 and so on", v.text)
	}
	return nil, n
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// round returns an end of a range in whole units of 1/scale, rounded into the range: upwards with sign 1.
func (l limit) round(scale *big.Int, sign int) *big.Int {
	r := new(big.Rat).Mul(l.at, new(big.Rat).SetInt(scale))
	n, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	exact := rest.Sign() == 0
	switch {
	case exact && l.strict:
		n.Add(n, big.NewInt(int64(sign)))
	case !exact && sign > 0:
		n.Add(n, big.NewInt(1))
	}
	return n
}

// ends fills in a missing end: the usual number of digits, or one more than the other end if that has as many.
func ends(lo, hi limit) (limit, limit) {
	far := func(other limit) *big.Rat {
		digits := defaultDigits
		if other.at != nil {
			n := new(big.Int).Quo(other.at.Num(), other.at.Denom())
			digits = max(digits, len(n.Abs(n).String())+1)
		}
		return new(big.Rat).SetInt(new(big.Int).Sub(pow10(digits), big.NewInt(1)))
	}
	farLo, farHi := far(hi), far(lo)
	lo.at = cmp.Or(lo.at, farLo.Neg(farLo))
	hi.at = cmp.Or(hi.at, farHi)
	return lo, hi
}

// integers returns alternatives for the multiples of step in a range.
func (c *compiler) integers(lo, hi limit, step *big.Int, path string) []string {
	lo, hi = ends(lo, hi)
	one := big.NewInt(1)
	from, to := lo.round(one, 1), hi.round(one, -1)
	var alts []string
	if from.Sign() <= 0 && to.Sign() >= 0 {
		alts = append(alts, `"0"`)
	}
	positive := c.multiples(bigMax(from, one), to, step, path)
	negative := c.multiples(bigMax(new(big.Int).Neg(to), one), new(big.Int).Neg(from), step, path)
	switch {
	case len(negative) == 0:
		return append(alts, positive...)
	case slices.Equal(negative, positive):
		return append(alts, join(`"-"?`, choice(positive...)))
	}
	return append(append(alts, positive...), join(`"-"`, choice(negative...)))
}

func bigMax(a, b *big.Int) *big.Int { return slices.MaxFunc([]*big.Int{a, b}, (*big.Int).Cmp) }
func bigMin(a, b *big.Int) *big.Int { return slices.MinFunc([]*big.Int{a, b}, (*big.Int).Cmp) }

// usualDecimals returns how many decimals a number may have: up to 6 that a float64 distinguishes near the ends of the
// range, and at least one more than the ends have.
func usualDecimals(given ...limit) int {
	maxDecimals, whole := 0, 1
	for _, l := range given {
		if l.at != nil {
			n, _ := l.at.FloatPrec()
			maxDecimals = max(maxDecimals, n+1)
			whole = max(whole, len(new(big.Int).Quo(l.at.Num(), l.at.Denom()).String()))
		}
	}
	return max(maxDecimals, min(6, defaultDigits-whole))
}

// decimals returns alternatives for the numbers in a range, without exponent and with at most maxDecimals decimals;
// unlimited means the usual number of them.
func (c *compiler) decimals(lo, hi limit, maxDecimals int) []string {
	usual := usualDecimals(lo, hi)
	lo, hi = ends(lo, hi)
	if maxDecimals != unlimited {
		scale := pow10(maxDecimals)
		lo = limit{at: new(big.Rat).SetFrac(lo.round(scale, 1), scale)}
		hi = limit{at: new(big.Rat).SetFrac(hi.round(scale, -1), scale)}
	} else {
		maxDecimals = usual
	}
	if d := lo.at.Cmp(hi.at); d > 0 || d == 0 && (lo.strict || hi.strict) {
		return nil
	}
	zero := new(big.Rat)
	var alts []string
	if hi.at.Sign() > 0 || hi.at.Sign() == 0 && !hi.strict {
		from := lo
		if lo.at.Sign() < 0 {
			from = limit{at: zero}
		}
		alts = c.magnitudes(from, hi, maxDecimals)
	}
	if lo.at.Sign() < 0 {
		from, to := limit{at: zero, strict: true}, limit{at: new(big.Rat).Neg(lo.at), strict: lo.strict}
		if hi.at.Sign() < 0 {
			from = limit{at: new(big.Rat).Neg(hi.at), strict: hi.strict}
		}
		if negative := c.magnitudes(from, to, maxDecimals); len(negative) > 0 {
			alts = append(alts, join(`"-"`, choice(negative...)))
		}
	}
	return alts
}

// magnitudes is decimals for a range from 0 on.
func (c *compiler) magnitudes(lo, hi limit, maxDecimals int) []string {
	a, aFraction := digitsOf(lo.at)
	b, bFraction := digitsOf(hi.at)
	from := &end{aFraction, lo.strict}
	to := &end{bFraction, hi.strict}
	var alts []string
	add := func(whole string, from, to *end) {
		if f, ok := c.fraction(from, to, maxDecimals); ok {
			alts = append(alts, join(whole, f))
		}
	}
	if a.Cmp(b) == 0 {
		add(literal(a.String()), from, to)
		return alts
	}
	add(literal(a.String()), from, nil)
	one := big.NewInt(1)
	// No path, since multiples of 1 can always be written.
	if between := c.multiples(new(big.Int).Add(a, one), new(big.Int).Sub(b, one), one, ""); len(between) > 0 {
		add(choice(between...), nil, nil)
	}
	add(literal(b.String()), nil, to)
	return alts
}

// digitsOf splits a non-negative decimal at its point; the fraction has no zeros at its end.
func digitsOf(r *big.Rat) (*big.Int, string) {
	n, _ := r.FloatPrec()
	whole, fraction, _ := strings.Cut(r.FloatString(n), ".")
	i, _ := new(big.Int).SetString(whole, 10)
	return i, fraction
}

package grammar

import (
	"math/big"
	"strings"
)

// multiples returns alternatives for the multiples of step from lo (at least 1) to hi, for the schema at path.
func (c *compiler) multiples(lo, hi, step *big.Int, path string) []string {
	zeros, ten := 0, big.NewInt(10)
	for {
		q, rest := new(big.Int).QuoRem(step, ten, new(big.Int))
		if rest.Sign() != 0 {
			break
		}
		step, zeros = q, zeros+1
		lo, hi = ceilDiv(lo, ten), new(big.Int).Quo(hi, ten)
	}
	first := ceilDiv(lo, step)
	count := new(big.Int).Sub(new(big.Int).Quo(hi, step), first)
	if hi.Cmp(lo) < 0 || count.Sign() < 0 {
		return nil
	}
	tail := strings.Repeat("0", zeros)
	var alts []string
	if step.Cmp(big.NewInt(1)) > 0 && count.Cmp(big.NewInt(64)) < 0 {
		for i := range count.Int64() + 1 {
			n := new(big.Int).Add(first, big.NewInt(i))
			alts = append(alts, literal(n.Mul(n, step).String()+tail))
		}
		return alts
	}
	length := len(hi.String())
	if limit := int64(maxStates / length); !step.IsInt64() || step.Int64() > limit {
		c.fail(path, "multipleOf", "multiples of %s up to %d digits need too large a grammar; the limit is %d",
			step, length, limit)
	}
	if tail != "" {
		tail = literal(tail)
	}
	for _, part := range c.lengths(lo, hi, int(step.Int64())) {
		alts = append(alts, join(part, tail))
	}
	return alts
}

func ceilDiv(a, b *big.Int) *big.Int {
	q, rest := new(big.Int).DivMod(a, b, new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// lengths splits a range by the number of digits. Lengths whose numbers are all in the range share one alternative.
func (c *compiler) lengths(lo, hi *big.Int, step int) []string {
	var alts []string
	full, short := 0, 0 // how many lengths in a row are whole, and the shortest one
	flush := func() {
		if full > 0 {
			alts = append(alts, join("[1-9]", c.repeat("[0-9]", short-1, short+full-2)))
		}
		full = 0
	}
	for n := len(lo.String()); n <= len(hi.String()); n++ {
		lower, upper := pow10(n-1), new(big.Int).Sub(pow10(n), big.NewInt(1))
		if lo.Cmp(lower) <= 0 && hi.Cmp(upper) >= 0 && step == 1 {
			if full++; full == 1 {
				short = n
			}
			continue
		}
		flush()
		r := &digitRange{c.builder, bigMax(lo, lower).String(), bigMin(hi, upper).String(), step, c.digits}
		if s := r.from(0, true, true, 0); s.ok {
			alts = append(alts, s.text)
		}
	}
	flush()
	return alts
}

// state is the set of continuations at a place among the digits; not ok: the set is empty.
type state struct {
	text string
	ok   bool
}

// digitRange writes the numbers of one length between lo and hi that step divides.
type digitRange struct {
	*builder
	lo, hi string
	step   int
	memo   map[[3]int]state // states that no bound limits any more, by step, digits to come and remainder
}

// from returns the digits from i on. isLo and isHi say that the digits so far equal the beginning of lo or hi; they
// leave a remainder.
func (d *digitRange) from(i int, isLo, isHi bool, remainder int) state {
	left := len(d.lo) - i
	if left == 0 {
		return state{"", remainder == 0}
	}
	free := !isLo && !isHi
	if free && d.step == 1 {
		return state{d.repeat("[0-9]", left, left), true}
	}
	if free {
		if s, known := d.memo[[3]int{d.step, left, remainder}]; known {
			return s
		}
	}
	next := newDigits()
	a, b := byte('0'), byte('9')
	if isLo {
		a = d.lo[i]
	}
	if isHi {
		b = d.hi[i]
	}
	for digit := a; digit <= b; digit++ {
		s := d.from(i+1, isLo && digit == a, isHi && digit == b, (remainder*10+int(digit-'0'))%d.step)
		if s.ok {
			next.add(digit, s.text)
		}
	}
	s := state{next.write(), len(next.order) > 0}
	if free {
		if s.ok {
			s.text = d.add("digits", "", s.text)
		}
		d.memo[[3]int{d.step, left, remainder}] = s
	}
	return s
}

// digits holds the alternatives at one place: digits by what follows them.
type digits struct {
	order []string
	sets  map[string][][2]rune
}

func newDigits() *digits { return &digits{sets: map[string][][2]rune{}} }

func (d *digits) add(digit byte, rest string) {
	if _, ok := d.sets[rest]; !ok {
		d.order = append(d.order, rest)
	}
	d.sets[rest] = append(d.sets[rest], [2]rune{rune(digit), rune(digit)})
}

func (d *digits) write() string {
	var alts []string
	for _, rest := range d.order {
		alts = append(alts, join(newSet(d.sets[rest]).write(), rest))
	}
	return choice(alts...)
}

// end is the fraction of one end of a range.
type end struct {
	digits string // without zeros at the end
	strict bool
}

// fraction returns the decimals, point included, of numbers that have the same whole part as the given ends; ok is
// false when no number is in the range.
func (c *compiler) fraction(lo, hi *end, maxDecimals int) (text string, ok bool) {
	f := &fractions{c.builder, lo, hi, maxDecimals}
	text, ends := f.from(0, lo != nil, hi != nil)
	if text == "" {
		return "", ends
	}
	text = join(`"."`, text)
	if ends {
		text = "(" + text + ")?"
	}
	return text, true
}

type fractions struct {
	*builder
	lo, hi      *end
	maxDecimals int
}

// from returns the digits from place i on, at least one, and whether the number may end there. isLo and isHi say that
// the digits so far equal the beginning of that end's.
func (f *fractions) from(i int, isLo, isHi bool) (text string, ends bool) {
	if isLo && i >= len(f.lo.digits) && !f.lo.strict {
		isLo = false // more digits cannot bring the number below lo
	}
	if !isLo && !isHi {
		return f.repeat("[0-9]", 1, f.maxDecimals-i), true
	}
	ends = !isLo
	if isHi && i >= len(f.hi.digits) {
		return "", ends && !f.hi.strict // only zeros could follow
	}
	if i == f.maxDecimals {
		return "", ends
	}
	a, b := byte('0'), byte('9')
	if isLo && i < len(f.lo.digits) {
		a = f.lo.digits[i]
	}
	if isHi {
		b = f.hi.digits[i]
	}
	next := newDigits()
	for digit := a; digit <= b; digit++ {
		switch rest, ends := f.from(i+1, isLo && digit == a, isHi && digit == b); {
		case rest != "" && ends:
			next.add(digit, "("+rest+")?")
		case rest != "" || ends:
			next.add(digit, rest)
		}
	}
	return next.write(), ends
}

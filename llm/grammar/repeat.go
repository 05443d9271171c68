package grammar

import (
	"math"
	"slices"
)

// unlimited is the upper bound of a repetition without one.
const unlimited = math.MaxInt

// repeat writes out a repetition of seq[start:] as llama.cpp does. It returns the longer sequence, and how many rules
// llama.cpp counts for the item now:
//
//	S{m,n}  →  S S ... (m times) R(n-m)     R(k) ::= S R(k-1) |     R(1) ::= S |
//	S{m,}   →  S S ... (m times) R          R    ::= S R |
func (p *parser) repeat(seq []symbol, start, rules int, nested bool) ([]symbol, int) {
	at := p.pos
	lower, upper := p.bounds(nested)
	item := slices.Clone(seq[start:])
	if len(item) == 0 {
		p.fail(at, "nothing to repeat before '%c'", p.src[at])
	}
	times, optional := max(lower, upper, 1), upper-lower
	if upper == unlimited {
		times, optional = max(lower, 1), 1
	}
	if rules*times > maxRepeat {
		p.fail(at, "%d repetitions of %d rules are more than llama.cpp's limit of %d; give the item a rule of its own, or repeat it less",
			times, rules, maxRepeat)
	}
	p.count(at, max(lower-1, 0)*len(item)+optional*(len(item)+1))
	if lower == 0 {
		seq = seq[:start]
	}
	for range lower - 1 {
		seq = append(seq, item...)
	}
	last := int32(-1)
	for range optional {
		body := slices.Clone(item)
		id := p.part(at)
		if upper == unlimited {
			last = id
		}
		if last >= 0 {
			body = append(body, symbol{ref: last})
		}
		p.rules[id].alts = [][]symbol{body, nil}
		last = id
	}
	if last >= 0 {
		seq = append(seq, symbol{ref: last})
	}
	return seq, rules * times
}

// bounds reads *, +, ?, {m}, {m,} or {m,n}.
func (p *parser) bounds(nested bool) (lower, upper int) {
	at := p.pos
	c := p.peek()
	p.pos++
	switch c {
	case '*':
		return 0, unlimited
	case '+':
		return 1, unlimited
	case '?':
		return 0, 1
	}
	p.space(nested)
	if !isDigit(p.peek()) {
		p.fail(p.pos, "expected a number of repetitions but found %s", p.found())
	}
	lower = p.number(nested)
	upper = lower
	if p.peek() == ',' {
		p.pos++
		p.space(nested)
		upper = unlimited
		if isDigit(p.peek()) {
			upper = p.number(nested)
		}
	}
	if p.peek() != '}' {
		p.fail(p.pos, "expected '}' but found %s", p.found())
	}
	p.pos++
	if upper < lower {
		p.fail(at, "at least %d and at most %d repetitions", lower, upper)
	}
	return lower, upper
}

func (p *parser) number(nested bool) int {
	at, n := p.pos, 0
	for ; isDigit(p.peek()); p.pos++ {
		n = min(n*10+int(p.peek()-'0'), maxRepeat+1)
	}
	if n > maxRepeat {
		p.fail(at, "%s repetitions are above llama.cpp's limit of %d", p.src[at:p.pos], maxRepeat)
	}
	p.space(nested)
	return n
}

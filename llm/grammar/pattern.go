package grammar

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxPattern  = 4096 // bytes
	maxBranches = 500  // alternatives of a whole pattern
)

// piece is a part of a pattern as GBNF, with the number of its characters. Where it repeats one thing of a fixed width,
// the repetition is kept so that it can be tightened.
type piece struct {
	text         string
	lower, upper int // characters; upper may be unlimited

	item            string // text is item, from to to times
	width, from, to int
}

// regular compiles the regular expression of a keyword.
type regular struct {
	*compiler
	path, keyword string
	without       set // characters that its classes do not match
}

// refuse panics with a *SchemaError about the keyword.
func (r *regular) refuse(format string, args ...any) { r.fail(r.path, r.keyword, format, args...) }

// pattern compiles a regular expression to what may stand between the quotes of a JSON string. As in JSON Schema it may
// match anywhere in the text unless it is anchored. lower and upper bound the text's characters; where the pattern
// itself does not keep them, one part of varying length that repeats something of a fixed length is tightened.
func (r *regular) pattern(pattern string, lower, upper int) string {
	re, err := syntax.Parse(r.adapt(pattern), syntax.Perl)
	if err != nil {
		r.refuse("%q: %v", pattern, err)
	}
	if strings.Contains(pattern, `\S`) {
		// Go's \S has the white space that only JSON Schema's \s knows.
		r.without = set{{0x0B, 0x0B}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
			{0x202F, 0x202F},
			{0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}}
	}
	var alts []string
	for _, pieces := range r.rows(re) {
		if alt, ok := r.fit(pieces, lower, upper); ok {
			alts = append(alts, alt)
		}
	}
	if len(alts) == 0 {
		r.refuse("no text of %s matches %q", lengths(lower, upper), pattern)
	}
	return choice(alts...)
}

func lengths(lower, upper int) string {
	if upper == unlimited {
		return fmt.Sprintf("at least %d characters", lower)
	}
	return fmt.Sprintf("%d to %d characters", lower, upper)
}

// adapt translates ECMAScript's notation to Go's, and refuses what only one of them knows.
func (r *regular) adapt(p string) string {
	if len(p) > maxPattern {
		r.refuse("it has %d bytes, at most %d are read", len(p), maxPattern)
	}
	var b strings.Builder
	inClass := false
	for i := 0; i < len(p); i++ {
		rest := p[i:]
		switch ch := p[i]; {
		case ch == '\\':
			text, n := r.adaptEscape(rest)
			b.WriteString(text)
			i += n - 1
		case inClass && ch == '[':
			b.WriteString(`\[`)
		case inClass:
			inClass = ch != ']'
			b.WriteByte(ch)
		case strings.HasPrefix(rest, "[]") || strings.HasPrefix(rest, "[^]"):
			r.refuse("a class needs at least one character")
		case ch == '[':
			inClass = true
			b.WriteByte(ch)
			if strings.HasPrefix(rest, "[^") {
				b.WriteByte('^')
				i++
			}
		case strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!") || strings.HasPrefix(rest, "(?<=") ||
			strings.HasPrefix(rest, "(?<!"):
			r.refuse("lookahead and lookbehind are not supported")
		case strings.HasPrefix(rest, "(?") && !strings.HasPrefix(rest, "(?:") && !strings.HasPrefix(rest, "(?<"):
			r.refuse("%.3s is not supported", rest)
		default:
			b.WriteByte(ch)
		}
	}
	return b.String()
}

// adaptEscape translates the escape that p begins with and returns how long it was.
func (r *regular) adaptEscape(p string) (text string, length int) {
	if len(p) < 2 {
		r.refuse("a backslash at the end")
	}
	hex := func(from, to int) (string, int) {
		if to > len(p) {
			r.refuse("%s is cut short", p)
		}
		v, err := strconv.ParseUint(p[from:to], 16, 32)
		if err != nil || !utf8.ValidRune(rune(v)) {
			r.refuse("%s is not a character", p[:to])
		}
		return fmt.Sprintf(`\x{%X}`, v), to
	}
	switch ch := p[1]; {
	case strings.HasPrefix(p, `\u{`):
		end := strings.IndexByte(p, '}')
		if end < 0 || end > 9 {
			r.refuse("%.10s is not a character", p)
		}
		text, _ := hex(3, end)
		return text, end + 1
	case ch == 'u':
		return hex(2, 6)
	case ch == 'x':
		return hex(2, 4)
	case ch == '0' && (len(p) == 2 || !isDigit(p[2])):
		return `\x00`, 2
	case strings.IndexByte("dDwWsStnrvfpP", ch) >= 0, ch < 0x80 && !isWord(ch) && ch != '_', ch == '-':
		return p[:2], 2
	case isDigit(ch) || ch == 'k':
		r.refuse("the back reference %s is not supported", p[:2])
	case ch == 'b' || ch == 'B':
		r.refuse("the word boundary %s is not supported", p[:2])
	}
	unknown, _ := utf8.DecodeRuneInString(p[1:])
	r.refuse("the escape \\%c is not supported", unknown)
	return "", 0
}

// rows splits a pattern into alternatives, each a row of pieces, and puts any text where one is not anchored.
func (r *regular) rows(re *syntax.Regexp) [][]piece {
	branches := expand([]*syntax.Regexp{re}, 0)
	if len(branches) > maxBranches {
		r.refuse("it has more than %d alternatives", maxBranches)
	}
	var rows [][]piece
	for _, subs := range branches {
		first, last := 0, len(subs)
		var row []piece
		if last > 0 && subs[0].Op == syntax.OpBeginText {
			first++
		} else {
			row = append(row, r.anything())
		}
		end := last > first && subs[last-1].Op == syntax.OpEndText
		if end {
			last--
		}
		for _, sub := range subs[first:last] {
			row = append(row, r.compile(sub))
		}
		if !end {
			row = append(row, r.anything())
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *regular) anything() piece {
	return r.times(piece{text: r.char(), lower: 1, upper: 1}, 0, unlimited)
}

// expand multiplies a concatenation out until anchors stand at its two ends: groups at an end that hold anchors, and a
// single group between anchors.
func expand(subs []*syntax.Regexp, depth int) [][]*syntax.Regexp {
	i := -1
	if n := len(subs); n > 0 {
		first, last := 0, n-1
		if subs[first].Op == syntax.OpBeginText && first < last {
			first++
		}
		if subs[last].Op == syntax.OpEndText && first < last {
			last--
		}
		switch {
		case first == last || holds(subs[first], syntax.OpBeginText):
			i = first
		case holds(subs[last], syntax.OpEndText):
			i = last
		}
	}
	if i < 0 || depth > maxDepth {
		return [][]*syntax.Regexp{subs}
	}
	var inner [][]*syntax.Regexp
	switch sub := subs[i]; sub.Op {
	case syntax.OpCapture, syntax.OpConcat:
		inner = append(inner, sub.Sub)
	case syntax.OpAlternate:
		for _, s := range sub.Sub {
			inner = append(inner, []*syntax.Regexp{s})
		}
	default:
		return [][]*syntax.Regexp{subs}
	}
	var all [][]*syntax.Regexp
	for _, in := range inner {
		all = append(all, expand(slices.Concat(subs[:i], in, subs[i+1:]), depth+1)...)
		if len(all) > maxBranches {
			break
		}
	}
	return all
}

// holds reports whether a group holds a part of a kind.
func holds(re *syntax.Regexp, op syntax.Op) bool {
	return slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return s.Op == op || holds(s, op) })
}

// fit joins a row of pieces so that it has lower to upper characters; ok is false when that is impossible.
func (r *regular) fit(row []piece, lower, upper int) (text string, ok bool) {
	lo, hi, varying := 0, 0, -1
	for i, p := range row {
		lo, hi = lo+p.lower, plus(hi, p.upper)
		if p.lower != p.upper {
			if varying >= 0 {
				varying = len(row) // more than one
			} else {
				varying = i
			}
		}
	}
	switch {
	case lo > upper || hi < lower:
		return "", false
	case lo >= lower && hi <= upper:
	case varying < 0 || varying == len(row) || row[varying].item == "":
		r.refuse("with %s it cannot be expressed; bound the repetitions in it so that every match has as many",
			lengths(lower, upper))
	default:
		p := row[varying]
		others := lo - p.lower
		from, to := p.from, p.to
		if n := lower - others; n > 0 {
			from = max(from, (n+p.width-1)/p.width)
		}
		if upper != unlimited {
			to = min(to, (upper-others)/p.width)
		}
		if from > to {
			return "", false
		}
		row[varying].text = r.repeat(p.item, from, to)
	}
	var parts []string
	for _, p := range row {
		parts = append(parts, p.text)
	}
	if text = join(parts...); text == "" {
		text = `""`
	}
	return text, true
}

// plus adds two numbers; the sum is unlimited if one of them is.
func plus(a, b int) int {
	if a == unlimited || b == unlimited {
		return unlimited
	}
	return a + b
}

// compile returns the piece for a part of a pattern without anchors.
func (r *regular) compile(re *syntax.Regexp) piece {
	switch re.Op {
	case syntax.OpEmptyMatch:
	case syntax.OpCapture:
		return r.compile(re.Sub[0])
	case syntax.OpLiteral:
		text := quote(string(re.Rune))
		return piece{text: literal(text[1 : len(text)-1]), lower: len(re.Rune), upper: len(re.Rune)}
	case syntax.OpCharClass, syntax.OpAnyCharNotNL:
		chars := set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.not()
		if re.Op == syntax.OpCharClass {
			var ranges [][2]rune
			for i := 0; i < len(re.Rune); i += 2 {
				ranges = append(ranges, [2]rune{re.Rune[i], re.Rune[i+1]})
			}
			chars = newSet(ranges).and(r.without.not())
		}
		return piece{text: r.class(chars), lower: 1, upper: 1}
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return r.repetition(re)
	case syntax.OpConcat, syntax.OpAlternate:
		return r.several(re)
	case syntax.OpBeginText, syntax.OpEndText:
		r.refuse("^ and $ are supported only at the two ends")
	default:
		r.refuse("%s is not supported", re)
	}
	return piece{}
}

func (r *regular) several(re *syntax.Regexp) piece {
	var all piece
	var parts []string
	for i, sub := range re.Sub {
		p := r.compile(sub)
		switch {
		case re.Op == syntax.OpConcat:
			all.lower, all.upper = all.lower+p.lower, plus(all.upper, p.upper)
		case i == 0:
			all.lower, all.upper = p.lower, p.upper
		default:
			all.lower, all.upper = min(all.lower, p.lower), max(all.upper, p.upper)
		}
		if p.text == "" && re.Op == syntax.OpAlternate {
			p.text = `""`
		}
		parts = append(parts, p.text)
	}
	if all.text = join(parts...); re.Op == syntax.OpAlternate {
		all.text = choice(parts...)
	}
	return all
}

func (r *regular) repetition(re *syntax.Regexp) piece {
	from, to := re.Min, re.Max
	switch {
	case re.Op == syntax.OpStar:
		from, to = 0, unlimited
	case re.Op == syntax.OpPlus:
		from, to = 1, unlimited
	case re.Op == syntax.OpQuest:
		from, to = 0, 1
	case to < 0: // without a limit
		to = unlimited
	}
	p := r.compile(re.Sub[0])
	if p.upper == 0 || to == 0 {
		return piece{}
	}
	if p.lower == 0 && to == unlimited {
		r.refuse("%s repeats what may be empty without limit", re)
	}
	return r.times(p, from, to)
}

func (r *regular) times(p piece, from, to int) piece {
	item := p.text
	if strings.Contains(item, " ") || len(item) > len(`"x"`) && item[0] == '"' {
		item = r.add("pattern", "", item)
	}
	all := piece{text: r.repeat(item, from, to), lower: p.lower * from, upper: unlimited}
	if to != unlimited && p.upper != unlimited {
		all.upper = p.upper * to
	}
	if p.lower == p.upper {
		all.item, all.width, all.from, all.to = item, p.lower, from, to
	}
	return all
}

// class writes a character of a set as it appears in a JSON string.
func (r *regular) class(s set) string {
	var alts []string
	if plain := s.and(raw()); len(plain) > 0 {
		alts = append(alts, plain.write())
	}
	for _, ch := range `"\` {
		if len(s.and(set{{ch, ch}})) > 0 {
			alts = append(alts, literal(`\`+string(ch)))
		}
	}
	if controls := s.and(set{{1, 0x1F}}); len(controls) == 1 && controls[0] == [2]rune{1, 0x1F} {
		alts = append(alts, r.shared("control", `"\\" ([bfnrt] | "u00" ("0" [1-7bBeEfF] | "1" [0-9a-fA-F]))`))
	} else {
		for _, span := range controls {
			for ch := span[0]; ch <= span[1]; ch++ {
				escaped := quote(string(ch))
				alts = append(alts, literal(escaped[1:len(escaped)-1]))
			}
		}
	}
	if len(alts) == 0 {
		r.refuse("a class has no character that a text can have")
	}
	return choice(alts...)
}

package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxRepeat is llama.cpp's MAX_REPETITION_THRESHOLD: of a count, and of a count times the rules that it repeats.
	maxRepeat = 2000
	// maxSource, maxSymbols and maxNesting bound llama.cpp's memory, since it copies what is repeated, and its stack.
	maxSource  = 1 << 20 // bytes
	maxSymbols = 1 << 20 // of all rules once repetitions are written out
	maxNesting = 500     // groups inside each other
)

// symbol is a reference to a rule, or one character.
type symbol struct {
	ref   int32 // the rule's index, or -1
	chars set   // one of them; without ref
}

// rule is one rule as llama.cpp keeps it: groups and repetitions are rules of their own.
type rule struct {
	name    string // of the named rule that this one is, or is part of
	at      int    // byte offset of its definition, or of its first use while it has none
	defined bool
	alts    [][]symbol
}

// parser reads GBNF in the same order as llama.cpp's llama_grammar_parser, which counts the rules first seen inside a
// group to decide which repetitions it accepts.
type parser struct {
	src     string
	pos     int
	depth   int
	rules   []*rule
	ids     map[string]int32
	current string
	symbols int
}

// fail panics with a SyntaxError at a byte offset; parse recovers it.
func (p *parser) fail(at int, format string, args ...any) {
	panic(p.errorAt(at, p.current, format, args...))
}

func (p *parser) errorAt(at int, rule, format string, args ...any) *SyntaxError {
	line, column := position(p.src, at)
	return &SyntaxError{Line: line, Column: column, Rule: rule, Reason: fmt.Sprintf(format, args...)}
}

// position returns the line and the column of a byte offset, from 1.
func position(src string, at int) (line, column int) {
	before := src[:min(at, len(src))]
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

func parse(source string) (p *parser, err error) {
	p = &parser{src: source, ids: map[string]int32{}}
	if len(source) > maxSource {
		return nil, p.errorAt(0, "", "it has %d bytes, at most %d are read", len(source), maxSource)
	}
	if at := strings.IndexByte(source, 0); at >= 0 {
		return nil, p.errorAt(at, "", "NUL")
	}
	if at := invalidUTF8(source); at >= 0 {
		return nil, p.errorAt(at, "", "invalid UTF-8: byte 0x%02X", source[at])
	}
	defer caught[*SyntaxError](&err)
	p.space(true)
	for p.pos < len(p.src) {
		p.rule()
	}
	return p, nil
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// peek returns the byte at the position, NUL at the end.
func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// space skips blanks and comments, and line ends where those mean nothing.
func (p *parser) space(lines bool) {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.pos++
		case c == '#':
			for p.pos < len(p.src) && p.src[p.pos] != '\n' && p.src[p.pos] != '\r' {
				p.pos++
			}
		default:
			return
		}
	}
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || isDigit(c)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (p *parser) name() string {
	start := p.pos
	for isWord(p.peek()) {
		p.pos++
	}
	if p.pos == start {
		p.fail(start, "expected a rule's name (letters, digits and hyphens) but found %s", p.found())
	}
	return p.src[start:p.pos]
}

func (p *parser) found() string {
	if p.pos >= len(p.src) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(p.src[p.pos:])
	return strconv.QuoteRune(r)
}

// id returns the index of a named rule, and adds a new one.
func (p *parser) id(name string, at int) int32 {
	if id, ok := p.ids[name]; ok {
		return id
	}
	p.rules = append(p.rules, &rule{name: name, at: at})
	p.ids[name] = int32(len(p.rules) - 1)
	return p.ids[name]
}

func (p *parser) part(at int, alts ...[]symbol) int32 {
	p.rules = append(p.rules, &rule{name: p.current, at: at, defined: true, alts: alts})
	return int32(len(p.rules) - 1)
}

func (p *parser) rule() {
	at := p.pos
	p.current = ""
	name := p.name()
	p.space(false)
	r := p.rules[p.id(name, at)]
	p.current = name
	if !strings.HasPrefix(p.src[p.pos:], "::=") {
		p.fail(p.pos, "expected \"::=\" after the rule's name but found %s", p.found())
	}
	if r.defined {
		p.fail(at, "the rule is defined twice")
	}
	r.at, r.defined = at, true
	p.pos += len("::=")
	p.space(true)
	r.alts = p.alternatives(false)
	switch c := p.peek(); {
	case p.pos == len(p.src) || c == '\n' || c == '\r':
	case c == ')':
		p.fail(p.pos, "')' without '('")
	default:
		p.fail(p.pos, "unexpected %s", p.found())
	}
	p.space(true)
	p.current = ""
}

func (p *parser) alternatives(nested bool) [][]symbol {
	alts := [][]symbol{p.sequence(nested)}
	for p.peek() == '|' {
		p.pos++
		p.space(true)
		alts = append(alts, p.sequence(nested))
	}
	return alts
}

// sequence reads items up to something else.
func (p *parser) sequence(nested bool) []symbol {
	var seq []symbol
	start, rules := 0, 1 // where the last item begins, and how many rules llama.cpp says it is
	for p.pos < len(p.src) {
		at := p.pos
		switch c := p.peek(); {
		case c == '"':
			start, rules = len(seq), 1
			seq = p.literal(seq)
		case c == '[':
			start, rules = len(seq), 1
			seq = append(seq, symbol{ref: -1, chars: p.class()})
		case c == '.':
			start, rules = len(seq), 1
			p.pos++
			seq = append(seq, symbol{ref: -1, chars: every()})
		case c == '<' || c == '!':
			p.fail(at, "token references are not supported; write the text as a literal")
		case isWord(c):
			start, rules = len(seq), 1
			seq = append(seq, symbol{ref: p.id(p.name(), at)})
		case c == '(':
			before := len(p.rules)
			start = len(seq)
			seq = append(seq, symbol{ref: p.group()})
			rules = len(p.rules) - before
		case c == '*' || c == '+' || c == '?' || c == '{':
			seq, rules = p.repeat(seq, start, rules, nested)
			p.space(nested)
			continue
		default:
			return seq
		}
		p.count(at, len(seq)-start)
		p.space(nested)
	}
	return seq
}

// count adds symbols to the total and refuses to go on above maxSymbols.
func (p *parser) count(at, n int) {
	if p.symbols += n; p.symbols > maxSymbols {
		p.fail(at, "the rules have more than %d symbols once repetitions are written out", maxSymbols)
	}
}

func (p *parser) group() int32 {
	at := p.pos
	if p.depth++; p.depth > maxNesting {
		p.fail(at, "more than %d groups are inside each other", maxNesting)
	}
	p.pos++
	p.space(true)
	id := p.part(at)
	alts := p.alternatives(true)
	p.rules[id].alts = alts
	if p.peek() != ')' {
		if p.pos == len(p.src) {
			p.fail(at, "'(' without ')'")
		}
		p.fail(p.pos, "unexpected %s in a group", p.found())
	}
	p.pos++
	p.depth--
	return id
}

func (p *parser) literal(seq []symbol) []symbol {
	at := p.pos
	for p.pos++; p.peek() != '"'; {
		from := p.pos
		r := p.char(at, "literal")
		if r == 0 || !utf8.ValidRune(r) {
			p.fail(from, "no text has the character 0x%X", uint32(r))
		}
		seq = append(seq, symbol{ref: -1, chars: set{{r, r}}})
	}
	p.pos++
	return seq
}

func (p *parser) class() set {
	at := p.pos
	p.pos++
	negated := p.peek() == '^'
	if negated {
		p.pos++
	}
	var ranges [][2]rune
	for p.peek() != ']' {
		from := p.pos
		lo := p.char(at, "class")
		hi := lo
		if p.peek() == '-' && !strings.HasPrefix(p.src[p.pos:], "-]") {
			p.pos++
			hi = p.char(at, "class")
		}
		if uint32(lo) > uint32(hi) {
			p.fail(from, "the range %s is reversed", p.src[from:p.pos])
		}
		if uint32(hi) > utf8.MaxRune {
			hi = utf8.MaxRune
		}
		if uint32(lo) <= utf8.MaxRune {
			ranges = append(ranges, [2]rune{lo, hi})
		}
	}
	p.pos++
	if p.src[at:p.pos] == "[]" || p.src[at:p.pos] == "[^]" {
		p.fail(at, "a class needs at least one character; any character is '.', nothing is \"\"")
	}
	chars := newSet(ranges).and(every())
	if negated {
		chars = chars.not()
	}
	if len(chars) == 0 {
		p.fail(at, "no character is in the class")
	}
	return chars
}

// char reads a character or an escape of a literal or class that began at an offset.
func (p *parser) char(began int, where string) rune {
	if p.pos >= len(p.src) {
		p.fail(began, "the %s is not closed", where)
	}
	if p.src[p.pos] != '\\' {
		r, n := utf8.DecodeRuneInString(p.src[p.pos:])
		p.pos += n
		return r
	}
	at, digits := p.pos, 0
	p.pos++
	c := p.peek()
	p.pos++
	switch c {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'n':
		return '\n'
	case '\\', '"', '[', ']', '-':
		return rune(c)
	default:
		p.pos--
		p.fail(at, "unknown escape: a backslash before %s", p.found())
	}
	end := p.pos + digits
	for i := p.pos; i < end; i++ {
		if i >= len(p.src) || !strings.ContainsRune("0123456789abcdefABCDEF", rune(p.src[i])) {
			p.fail(at, "\\%c needs %d hexadecimal digits", c, digits)
		}
	}
	v, err := strconv.ParseUint(p.src[p.pos:end], 16, 32)
	if err != nil {
		p.fail(at, "%v", err)
	}
	p.pos = end
	return rune(uint32(v)) // negative above 0x7FFFFFFF; literal and class compare it as uint32
}

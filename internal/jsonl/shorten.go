package jsonl

import "unicode/utf8"

// shortener cuts the strings of one JSON text that comes in parts. A character, an escape sequence and a pair of
// escaped surrogates stay whole.
type shortener struct {
	most   int   // bytes that are kept of a string; 0 is all
	cut    int64 // bytes left out so far
	inside bool  // a string
	kept   int   // bytes of the string so far
	drop   bool  // the rest of it
	escape int   // bytes of the escape sequence that are still to come
	digits int   // of \uXXXX so far
	high   bool  // the last character was the first of a pair
}

// append appends to dst what is kept of part, the next bytes of the text.
func (s *shortener) append(dst, part []byte) []byte {
	if s.most <= 0 {
		return append(dst, part...)
	}
	for _, c := range part {
		if s.keeps(c) {
			dst = append(dst, c)
		} else {
			s.cut++
		}
	}
	return dst
}

// keeps takes the next byte and reports whether it is kept.
func (s *shortener) keeps(c byte) bool {
	switch {
	case !s.inside:
		if c == '"' {
			*s = shortener{most: s.most, cut: s.cut, inside: true}
		}
		return true
	case s.escape > 0:
		s.escaped(c)
	case c == '"':
		s.inside = false
		return true
	case utf8.RuneStart(c): // a character begins
		s.drop = s.drop || s.kept >= s.most && !s.high
		s.high = false
		if c == '\\' {
			s.escape, s.digits = 1, 0
		}
	}
	s.kept++
	return !s.drop
}

// escaped takes a byte of an escape sequence after its backslash.
func (s *shortener) escaped(c byte) {
	s.escape--
	switch {
	case s.digits > 0:
		if s.digits == 1 {
			s.high = c == 'd' || c == 'D'
		} else if s.digits == 2 {
			s.high = s.high && (c == '8' || c == '9' || c|0x20 == 'a' || c|0x20 == 'b')
		}
		s.digits++
	case c == 'u':
		s.escape, s.digits = 4, 1
	}
}

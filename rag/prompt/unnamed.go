package prompt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// longestMark is how many bytes of an open bracket are held back before it is known to be no citation.
const longestMark = 64

// Unnamed removes from an answer, while it streams, the citations that name no passage: a model that was shown four
// passages also writes "[5]". Brackets in code, and those right behind a word such as "array[5]", stay.
type Unnamed struct {
	Passages int // how many were shown: 1 … Passages are names
	Removed  int // citations so far that name none; a range such as [5-9] is one

	code    int    // backticks that end the open code: 0 outside of code, 1 a span, 3 a block
	ticks   int    // backticks in a row, not yet known to have ended
	mark    string // an open bracket and what follows, held back
	spaces  string // before what comes next, held back
	cut     bool   // a citation was removed behind spaces
	last    byte   // written last
	started bool
}

// Write takes the next piece of the answer and returns what is certain by now.
func (u *Unnamed) Write(piece string) string {
	var out strings.Builder
	for _, r := range piece {
		u.next(&out, r)
	}
	return out.String()
}

// Flush returns what was held back; the answer has ended.
func (u *Unnamed) Flush() string {
	var out strings.Builder
	u.release(&out)
	if !u.cut {
		u.emit(&out, u.spaces)
	}
	u.spaces, u.ticks = "", 0
	return out.String()
}

func (u *Unnamed) emit(out *strings.Builder, text string) {
	if text != "" {
		out.WriteString(text)
		u.last, u.started = text[len(text)-1], true
	}
}

// release writes a bracket that is not a citation.
func (u *Unnamed) release(out *strings.Builder) {
	if u.mark != "" {
		u.keepSpaces(out)
		u.emit(out, u.mark)
		u.mark = ""
	}
}

func (u *Unnamed) keepSpaces(out *strings.Builder) {
	u.emit(out, u.spaces)
	u.spaces, u.cut = "", false
}

func (u *Unnamed) next(out *strings.Builder, r rune) {
	if r == '`' {
		u.release(out)
		u.ticks++
	} else if u.ticks > 0 {
		u.tick()
	}
	switch {
	case r == '`' || u.code > 0:
		u.keepSpaces(out)
		u.emit(out, string(r))
		if r == '\n' && u.code == 1 {
			u.code = 0
		}
	case u.mark != "":
		u.inMark(out, r)
	case r == '[' || r == '【':
		u.mark = string(r)
	case r == ' ':
		if !u.cut || u.started && u.last != '\n' && u.last != ' ' {
			u.space()
		}
	default:
		if u.cut && strings.ContainsRune(".,;:!?)\n", r) {
			u.spaces = ""
		}
		u.keepSpaces(out)
		u.emit(out, string(r))
	}
}

// space holds one back; behind a citation that was removed there is one before it already.
func (u *Unnamed) space() {
	if u.cut {
		u.spaces = " "
	} else {
		u.spaces += " "
	}
}

// tick takes in that a row of backticks has ended.
func (u *Unnamed) tick() {
	switch {
	case u.code > 0 && u.ticks >= u.code:
		u.code = 0
	case u.code == 0 && u.ticks >= 3:
		u.code = 3
	case u.code == 0 && u.ticks == 1:
		u.code = 1
	}
	u.ticks = 0
}

// inMark takes the next rune behind an open bracket.
func (u *Unnamed) inMark(out *strings.Builder, r rune) {
	switch {
	case r == ']' || r == '】':
		text := u.named(u.mark + string(r))
		u.mark = ""
		if text != "" {
			u.keepSpaces(out)
			u.emit(out, text)
		} else {
			u.cut = true
		}
	case r == '\n' || r == '[' || r == '【' || len(u.mark) >= longestMark:
		u.release(out)
		u.next(out, r)
	default:
		u.mark += string(r)
	}
}

// named returns a bracket without the numbers that name no passage, "" if none is left.
func (u *Unnamed) named(mark string) string {
	m := brackets.FindStringSubmatch(mark)
	if m == nil || len(m[0]) != len(mark) || u.spaces == "" && wordByte(u.last) {
		return mark
	}
	var kept []string
	removed := 0
	for _, r := range ranges(m[1]) {
		low, high := max(r[0], 1), min(r[1], u.Passages)
		if low != r[0] || high != r[1] {
			removed++
		}
		switch {
		case low > high:
		case low == high:
			kept = append(kept, strconv.Itoa(low))
		default:
			kept = append(kept, strconv.Itoa(low)+"-"+strconv.Itoa(high))
		}
	}
	u.Removed += removed
	switch {
	case removed == 0:
		return mark
	case len(kept) == 0:
		return ""
	}
	_, open := utf8.DecodeRuneInString(mark)
	_, end := utf8.DecodeLastRuneInString(mark)
	return mark[:open] + strings.Join(kept, ", ") + mark[len(mark)-end:]
}

func wordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_'
}

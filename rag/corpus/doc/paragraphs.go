package doc

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PlainBlocks yields the blocks of unmarked text: paragraphs end at blank lines and before lines that begin with a list
// marker, and a list of lines has a block for each item.
func PlainBlocks(text string, s Span) iter.Seq[Block] {
	return func(yield func(Block) bool) {
		start, at := s.Start, s.Start
		for line := range strings.Lines(text[s.Start:s.End]) {
			if t := strings.TrimSpace(line); (t == "" || IsListItem(t)) && at > start {
				if !yieldLines(text, Span{start, at}, yield) {
					return
				}
				start = at
			}
			at += len(line)
		}
		if at > start {
			yieldLines(text, Span{start, at}, yield)
		}
	}
}

// yieldLines yields a paragraph, or its items where it is a list of lines.
func yieldLines(text string, s Span, yield func(Block) bool) bool {
	paragraph, start := text[s.Start:s.End], s.Start
	if IsListItem(strings.TrimSpace(paragraph)) {
		return yield(Block{Span: s})
	}
	breaks := lineBreaks(paragraph)
	if !separateItems(breaks) {
		return yield(Block{Span: s})
	}
	for b := range breaks {
		if b.room || b.begins {
			if !yield(Block{Span: Span{start, s.Start + b.at}}) {
				return false
			}
			start = s.Start + b.at
		}
	}
	return yield(Block{Span: Span{start, s.End}})
}

// lineBreak is the end of a line within a paragraph.
type lineBreak struct {
	at       int  // where the next line begins
	begins   bool // the next line begins as a sentence does
	indented bool // it is indented
	room     bool // its first word would have fitted on the line before
}

// lineBreaks yields the line breaks of a paragraph. It is as wide as its longest line of more than one word.
func lineBreaks(paragraph string) iter.Seq[lineBreak] {
	width := 0
	for line := range strings.Lines(paragraph) {
		if strings.Contains(strings.TrimSpace(line), " ") {
			width = max(width, utf8.RuneCountInString(strings.TrimRightFunc(line, unicode.IsSpace)))
		}
	}
	return func(yield func(lineBreak) bool) {
		before, at := 0, 0
		for line := range strings.Lines(paragraph) {
			whole := strings.TrimRightFunc(line, unicode.IsSpace)
			rest := strings.TrimLeftFunc(whole, unicode.IsSpace)
			if before > 0 && rest != "" {
				r, _ := utf8.DecodeRuneInString(rest)
				word, _, _ := strings.Cut(rest, " ")
				if !yield(lineBreak{at: at, begins: !unicode.IsLetter(r) || unicode.IsUpper(r),
					indented: len(whole)-len(rest) >= 2, room: before+1+utf8.RuneCountInString(word) <= width}) {
					return
				}
			}
			before = utf8.RuneCountInString(whole)
			at += len(line)
		}
	}
}

// separateItems reports whether the lines of a paragraph are items of their own, as in notes, addresses and logs of
// changes. Few lines of wrapped text begin as a sentence does, and few have room for the next line's first word: of a
// list's line breaks, three in four have such beginnings and one in four has room, or three in four have room and are
// indented.
func separateItems(breaks iter.Seq[lineBreak]) bool {
	var all, begins, indented, room int
	for b := range breaks {
		all++
		if b.begins {
			begins++
		}
		if b.indented {
			indented++
		}
		if b.room {
			room++
		}
	}
	most := 3 * all
	return all > 0 && (4*begins >= most && 4*room >= all || 4*indented >= most && 4*room >= most)
}

// IsListItem reports whether line begins with a bullet, or a number of up to three digits with a dot or parenthesis,
// and a space.
func IsListItem(line string) bool {
	marker, rest, ok := strings.Cut(line, " ")
	if !ok || rest == "" {
		return false
	}
	switch marker {
	case "-", "*", "•", "–", "+", "·":
		return true
	}
	number := strings.TrimRight(marker, ".)")
	return len(number) == len(marker)-1 && len(number) <= 3 && number != "" && strings.Trim(number, "0123456789") == ""
}

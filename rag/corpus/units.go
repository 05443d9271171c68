package corpus

import (
	"iter"
	"slices"
	"strings"
	"unicode"
)

// Costs of beginning a chunk with a unit. Of the places that fill a chunk by at least half, the cheapest is taken.
const (
	cutFree    = 0 // a sentence, a row, a block of code
	cutBlank   = 1 // a line of code behind a blank one; 1 more for each step of its indent, up to cutLine-1
	cutLine    = 6 // another line
	cutCloser  = 8 // a line that closes a scope opened before
	cutNowhere = 9 // the first row behind those that name the columns
)

// items yields the units of the chunkers: a sentence, a block of code, or a table with its caption.
func (d *Document) items(sec Section) iter.Seq[item] {
	return func(yield func(item) bool) {
		var table item
		for b := range d.blocksOf(sec.Start, sec.End) {
			if b.table != 0 && b.table == table.table {
				table.end = b.end
				table.blocks = table.blocks[:len(table.blocks)+1]
				continue
			}
			if table.table != 0 && !yield(table) {
				return
			}
			table = item{}
			switch {
			case b.table != 0:
				i, _ := slices.BinarySearchFunc(d.blocks, b.start, func(x block, at int) int { return x.end - at - 1 })
				table = item{span: span{b.start, b.end}, table: b.table, blocks: d.blocks[i : i+1]}
			case b.code:
				if t := wholeLines(d.Text, span{b.start, b.end}); t.start < t.end && !yield(item{span: t, code: true}) {
					return
				}
			default:
				for t := range sentences(d.Text, span{b.start, b.end}) {
					if !yield(item{span: t}) {
						return
					}
				}
			}
		}
		if table.table != 0 {
			yield(table)
		}
	}
}

// item is a sentence, a block of code or a table.
type item struct {
	span
	code   bool
	table  int32
	blocks []block // of a table: a part of Document.blocks
}

// wholeLines removes blank lines from both ends, and the white space behind the last line. The first line keeps its
// indent.
func wholeLines(text string, s span) span {
	t := s.trim(text)
	if t.start == t.end {
		return t
	}
	if i := strings.LastIndexAny(text[s.start:t.start], "\n\r\v\f"); i >= 0 {
		s.start += i + 1
	}
	t.start = s.start
	return t
}

// units yields the units of a section, each within the tokens of a chunk below the section's heading.
func (s *splitter) units(p *part) iter.Seq2[unit, error] {
	room := s.o.Size - p.base
	return func(yield func(unit, error) bool) {
		var few []unit
		give := func(err error) bool {
			if err != nil {
				yield(unit{}, err)
				return false
			}
			for _, u := range few {
				if !yield(u, nil) {
					return false
				}
			}
			return true
		}
		for it := range s.d.items(p.Section) {
			switch {
			case it.table != 0:
				if !s.tableUnits(p, it, room, yield) {
					return
				}
			case it.code:
				for line := range codeLines(s.d.Text, it.span) {
					var err error
					few, err = s.measure(few[:0], line.span, room)
					for i := range few {
						few[i].code, few[i].cost = true, cutCloser
					}
					if len(few) > 0 {
						few[0].cost = line.cost
					}
					if !give(err) {
						return
					}
				}
			default:
				var err error
				if few, err = s.measure(few[:0], it.span, room); !give(err) {
					return
				}
			}
		}
	}
}

// tableUnits yields the rows of a table, the caption as one; it returns false when the consumer has stopped.
func (s *splitter) tableUnits(p *part, it item, room int, yield func(unit, error) bool) bool {
	l, err := s.tableLead(it.table, room)
	if err != nil {
		yield(unit{}, err)
		return false
	}
	p.lead = l
	t := s.d.tables[it.table-1]
	behind := t.start // the first row behind those that name the columns
	if from := max(t.head.end, t.caption.end); from > t.start {
		behind = firstBehind(s.d.Text, from)
	}
	var few []unit
	for i := 0; i < len(it.blocks); {
		row := span{it.blocks[i].start, it.blocks[i].end}
		for i++; i < len(it.blocks) && it.blocks[i].more; i++ {
			row.end = it.blocks[i].end
		}
		if row = row.trim(s.d.Text); row.start == row.end {
			continue
		}
		few, err = s.row(few[:0], t, row, room, l)
		if err != nil {
			yield(unit{}, err)
			return false
		}
		for _, u := range few {
			u.table = it.table
			if u.start > t.start && u.start <= behind {
				u.cost = cutNowhere
			}
			if !yield(u, nil) {
				return false
			}
		}
	}
	return true
}

// firstBehind returns the offset of the first byte at or behind at that is not white space.
func firstBehind(text string, at int) int {
	return len(text) - len(strings.TrimLeftFunc(text[at:], unicode.IsSpace))
}

// row appends a row, or its cells if it does not fit a chunk below the rows that name the columns.
func (s *splitter) row(out []unit, t tableSpan, row span, room int, l lead) ([]unit, error) {
	left := room
	if row.start >= l.from {
		left -= l.tokens
	}
	if row.end-row.start <= s.o.Size*BytesPerToken/4 {
		n, err := s.count(s.d.Text[row.start:row.end])
		if err != nil {
			return nil, err
		}
		if n -= s.special; n <= left {
			return append(out, unit{span: row, tokens: n}), nil
		}
	}
	list := cells(s.d.Text, row)
	if len(list) < 2 {
		for t := range sentences(s.d.Text, row) {
			var err error
			if out, err = s.measure(out, t, left); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	names := s.columns(t, row, len(list))
	for i, cell := range list {
		named := 0
		if names != nil {
			n, err := s.count(s.d.Text[names[i].start:names[i].end])
			if err != nil {
				return nil, err
			}
			if named = n - s.special + 1; named > room/2 {
				names, named = nil, 0
			}
		}
		for t := range sentences(s.d.Text, cell) {
			from := len(out)
			var err error
			if out, err = s.measure(out, t, room-named); err != nil {
				return nil, err
			}
			for k := from; k < len(out); k++ {
				out[k].tokens, out[k].row, out[k].cell = out[k].tokens+named, row.start+1, i
			}
		}
	}
	return out, nil
}

// columns returns the cells of the row that names the columns of a row of n cells, nil if there is no such row.
func (s *splitter) columns(t tableSpan, row span, n int) []span {
	if t.head.start == t.head.end || row.start < t.head.end {
		return nil
	}
	head := t.head
	if i := strings.LastIndexByte(s.d.Text[head.start:head.end], '\n'); i >= 0 { // the last header row is the nearest
		head.start += i + 1
	}
	if names := cells(s.d.Text, head); len(names) >= n {
		return names
	}
	return nil
}

// codeLine is a line of code that is not blank, with its indent.
type codeLine struct {
	span
	cost uint8
}

// codeLines yields the lines of a block of code, with a cost of cutting there that depends on the indent and on a blank
// line before.
func codeLines(text string, s span) iter.Seq[codeLine] {
	return func(yield func(codeLine) bool) {
		at, isBlank, attached := s.start, true, false
		step := 0 // the indent of one level
		for line := range strings.Lines(text[s.start:s.end]) {
			start := at
			at += len(line)
			body := strings.TrimRightFunc(line, unicode.IsSpace)
			if body == "" {
				isBlank = true
				continue
			}
			width := indentOf(body)
			if step == 0 && width > 0 {
				step = width
			}
			depth := 0
			if step > 0 {
				depth = (width + step - 1) / step
			}
			l := codeLine{span{start, start + len(body)}, uint8(cutLine + min(depth, 1))}
			first := strings.TrimLeft(body, " \t")
			switch {
			case start == s.start:
				l.cost = cutFree
			case isCloser(first):
				l.cost = cutCloser
			case isBlank:
				l.cost = uint8(min(cutBlank+depth, cutLine-1))
			case isDeclaration(first) && !attached:
				l.cost = uint8(min(cutBlank+depth, cutLine-1))
			}
			isBlank, attached = false, isAttached(first)
			if !yield(l) {
				return
			}
		}
	}
}

// indentOf returns the width of the white space at the beginning of a line; a tab counts as four.
func indentOf(line string) int {
	n := 0
	for _, c := range []byte(line) {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 4
		default:
			return n
		}
	}
	return n
}

// isCloser reports whether a line closes a scope opened before it.
func isCloser(line string) bool {
	if strings.IndexByte("})]", line[0]) >= 0 {
		return true
	}
	word := firstWord(line)
	return word == "end" || word == "fi" || word == "done" || word == "esac" || word == "else" || word == "elif" ||
		word == "except" || word == "finally" || word == "rescue" || word == "ensure" || word == "catch"
}

// isAttached reports whether a line belongs to the one behind it: a comment, a decorator, an annotation, an attribute.
func isAttached(line string) bool {
	return slices.ContainsFunc([]string{"//", "#", "/*", "*", "--", "@", "[", "template"},
		func(mark string) bool { return strings.HasPrefix(line, mark) })
}

// isDeclaration reports whether a line begins, in most languages, a function or a type, or what precedes one.
func isDeclaration(line string) bool {
	if strings.HasPrefix(line, "@") || strings.HasPrefix(line, "///") || strings.HasPrefix(line, "/**") {
		return true
	}
	for range 4 { // public static final class
		word := firstWord(line)
		if declares(word) {
			return true
		}
		if !modifies(word) {
			return false
		}
		line = strings.TrimLeft(line[len(word):], " \t")
	}
	return false
}

func firstWord(line string) string {
	n := strings.IndexFunc(line, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return line
	}
	return line[:n]
}

// declares reports whether word begins the declaration of a function or of a type.
func declares(word string) bool {
	switch word {
	case "func", "def", "fn", "function", "class", "interface", "struct", "enum", "trait", "impl", "module",
		"namespace",
		"type", "union", "record", "object", "protocol", "extension", "sub", "fun", "mod", "package", "defmodule",
		"proc",
		"procedure":
		return true
	}
	return false
}

// modifies reports whether word may stand before those of declares.
func modifies(word string) bool {
	switch word {
	case "public", "private", "protected", "internal", "static", "final", "abstract", "async", "export", "default",
		"pub", "unsafe", "const", "override", "virtual", "sealed", "partial", "open", "data", "inline", "extern",
		"local", "suspend", "readonly", "typedef":
		return true
	}
	return false
}

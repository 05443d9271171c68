package chunk

import (
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
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
func items(d *doc.Document, sec doc.Section) iter.Seq[item] {
	return func(yield func(item) bool) {
		var table item
		for b := range d.BlocksOf(sec.Start, sec.End) {
			if b.Table != 0 && b.Table == table.table {
				table.End = b.End
				table.blocks = table.blocks[:len(table.blocks)+1]
				continue
			}
			if table.table != 0 && !yield(table) {
				return
			}
			table = item{}
			switch {
			case b.Table != 0:
				i := d.BlockAt(b.Start)
				table = item{Span: b.Span, table: b.Table, blocks: d.Blocks[i : i+1]}
			case b.Code:
				if t := doc.WholeLines(d.Text, b.Span); t.Start < t.End && !yield(item{Span: t, code: true}) {
					return
				}
			default:
				for t := range sentence.Split(d.Text, b.Span) {
					if !yield(item{Span: t}) {
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
	doc.Span
	code   bool
	table  int32
	blocks []doc.Block // of a table: a part of Document.Blocks
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
		for it := range items(s.d, p.Section) {
			switch {
			case it.table != 0:
				if !s.tableUnits(p, it, room, yield) {
					return
				}
			case it.code:
				for line := range codeLines(s.d.Text, it.Span) {
					var err error
					few, err = s.measure(few[:0], line.Span, room)
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
				if few, err = s.measure(few[:0], it.Span, room); !give(err) {
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
	t := s.d.Tables[it.table-1]
	behind := t.Start // the first row behind those that name the columns
	if from := max(t.Head.End, t.Caption.End); from > t.Start {
		behind = len(s.d.Text) - len(strings.TrimLeftFunc(s.d.Text[from:], unicode.IsSpace))
	}
	var few []unit
	for i := 0; i < len(it.blocks); {
		row := doc.Span{Start: it.blocks[i].Start, End: it.blocks[i].End}
		for i++; i < len(it.blocks) && it.blocks[i].More; i++ {
			row.End = it.blocks[i].End
		}
		if row = row.Trim(s.d.Text); row.Start == row.End {
			continue
		}
		few, err = s.row(few[:0], t, row, room, l)
		if err != nil {
			yield(unit{}, err)
			return false
		}
		for _, u := range few {
			u.table = it.table
			if u.Start > t.Start && u.Start <= behind {
				u.cost = cutNowhere
			}
			if !yield(u, nil) {
				return false
			}
		}
	}
	return true
}

// row appends a row, or its cells if it does not fit a chunk below the rows that name the columns.
func (s *splitter) row(out []unit, t doc.Table, row doc.Span, room int, l lead) ([]unit, error) {
	left := room
	if row.Start >= l.from {
		left -= l.tokens
	}
	if row.End-row.Start <= s.o.Size*BytesPerToken/4 {
		n, err := s.count(s.d.Text[row.Start:row.End])
		if err != nil {
			return nil, err
		}
		if n -= s.special; n <= left {
			return append(out, unit{Span: row, tokens: n}), nil
		}
	}
	list := doc.Cells(s.d.Text, row)
	if len(list) < 2 {
		for t := range sentence.Split(s.d.Text, row) {
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
			n, err := s.count(s.d.Text[names[i].Start:names[i].End])
			if err != nil {
				return nil, err
			}
			if named = n - s.special + 1; named > room/2 {
				names, named = nil, 0
			}
		}
		for t := range sentence.Split(s.d.Text, cell) {
			from := len(out)
			var err error
			if out, err = s.measure(out, t, room-named); err != nil {
				return nil, err
			}
			for k := from; k < len(out); k++ {
				out[k].tokens, out[k].row, out[k].cell = out[k].tokens+named, row.Start+1, i
			}
		}
	}
	return out, nil
}

// columns returns the cells of the row that names the columns of a row of n cells, nil if there is no such row.
func (s *splitter) columns(t doc.Table, row doc.Span, n int) []doc.Span {
	if t.Head.Start == t.Head.End || row.Start < t.Head.End {
		return nil
	}
	head := t.Head
	if i := strings.LastIndexByte(s.d.Text[head.Start:head.End], '\n'); i >= 0 { // the last header row is the nearest
		head.Start += i + 1
	}
	if names := doc.Cells(s.d.Text, head); len(names) >= n {
		return names
	}
	return nil
}

// codeLine is a line of code that is not blank, with its indent.
type codeLine struct {
	doc.Span
	cost uint8
}

// codeLines yields the lines of a block of code, with a cost of cutting there that depends on the indent and on a blank
// line before.
func codeLines(text string, s doc.Span) iter.Seq[codeLine] {
	return func(yield func(codeLine) bool) {
		at, isBlank, attached := s.Start, true, false
		step := 0 // the indent of one level
		for line := range strings.Lines(text[s.Start:s.End]) {
			start := at
			at += len(line)
			body := strings.TrimRightFunc(line, unicode.IsSpace)
			if body == "" {
				isBlank = true
				continue
			}
			width := doc.IndentOf(body)
			if step == 0 && width > 0 {
				step = width
			}
			depth := 0
			if step > 0 {
				depth = (width + step - 1) / step
			}
			l := codeLine{doc.Span{Start: start, End: start + len(body)}, uint8(cutLine + min(depth, 1))}
			first := strings.TrimLeft(body, " \t")
			switch {
			case start == s.Start:
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

// isCloser reports whether a line closes a scope opened before it.
func isCloser(line string) bool {
	if strings.IndexByte("})]", line[0]) >= 0 {
		return true
	}
	return doc.OneOf(doc.FirstWord(line), " end fi done esac else elif except finally rescue ensure catch ")
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
		word := doc.FirstWord(line)
		if doc.OneOf(word, declaring) {
			return true
		}
		if !doc.OneOf(word, modifying) {
			return false
		}
		line = strings.TrimLeft(line[len(word):], " \t")
	}
	return false
}

// declaring lists the words that begin the declaration of a function or of a type.
const declaring = " func def fn function class interface struct enum trait impl module namespace type union " +
	"record object protocol extension sub fun mod package defmodule proc procedure "

// modifying lists the words that may stand before the ones in declaring.
const modifying = " public private protected internal static final abstract async export default pub unsafe const " +
	"override virtual sealed partial open data inline extern local suspend readonly typedef "

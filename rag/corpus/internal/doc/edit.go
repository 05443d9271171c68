package doc

import (
	"slices"
	"sort"
	"strings"
	"unicode"
)

// Edit replaces a range of a text. It begins and ends where white space begins or ends, or with a whole character.
type Edit struct {
	Span
	With string
}

// Edit replaces ranges of the text, which ascend and do not overlap, and moves all offsets along.
func (d *Document) Edit(list []Edit) {
	if len(list) == 0 {
		return
	}
	var w Writer
	at := 0
	for _, e := range list {
		w.Copy(d.Text[at:e.Start], at)
		w.Atom(e.With, e.Start, e.End-e.Start)
		at = e.End
	}
	w.Copy(d.Text[at:], at)
	text, m := w.Done()
	if m == nil {
		m = Map{{0, 0, 1, 1}}
	}
	shift := make([]int, len(list)+1) // behind so many edits
	for i, e := range list {
		shift[i+1] = shift[i] + len(e.With) - (e.End - e.Start)
	}
	forward := func(at int) int { // of a place within what was replaced: where that begins
		i := sort.Search(len(list), func(i int) bool { return list[i].End > at })
		if i < len(list) {
			at = min(at, list[i].Start)
		}
		return at + shift[i]
	}
	d.move(forward)
	d.Blocks = slices.DeleteFunc(d.Blocks, func(b Block) bool { return b.Start >= b.End && b.Table == 0 })
	d.Offsets = Compose(m, d.Offsets, len(text))
	d.Text = text
}

// Line is a line of prose that is not blank, without white space around it.
type Line struct {
	Span
	Text  string
	Heads []string
}

// Removed are the edits that take lines out, each run of lines with the white space on the side where there is less.
func (d *Document) Removed(lines []Line) (edits []Edit) {
	for i := 0; i < len(lines); {
		s := lines[i].Span
		for i++; i < len(lines) && strings.TrimSpace(d.Text[s.End:lines[i].Start]) == ""; i++ {
			s.End = lines[i].End
		}
		before := len(strings.TrimRightFunc(d.Text[:s.Start], unicode.IsSpace))
		after := len(d.Text) - len(strings.TrimLeftFunc(d.Text[s.End:], unicode.IsSpace))
		switch {
		case before == 0 || after == len(d.Text):
			s = Span{before, after}
		case strings.Count(d.Text[before:s.Start], "\n") >= strings.Count(d.Text[s.End:after], "\n"):
			s.End = after
		default:
			s.Start = before
		}
		edits = append(edits, Edit{Span: s})
	}
	return edits
}

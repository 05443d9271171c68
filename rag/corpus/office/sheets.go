package office

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/office/number"
	"github.com/sluice-rag/sluice/rag/corpus/table"
)

// Sheets reads an Excel workbook (.xlsx, ECMA-376): a section for each visible sheet under its name, a line for
// each row. The anchor of a section is "sheet=NAME". Values are the stored ones, shown by their number formats;
// formulas are not computed. Each row that a merged cell covers gets its value.
func Sheets(d *doc.Document, a *Archive) error {
	const workbook = "xl/workbook.xml"
	parts, _, err := a.related(workbook)
	if err != nil {
		return err
	}
	type sheet struct{ name, part string }
	var sheets []sheet
	r := sheetReader{a: a}
	err = a.starts(workbook, func(e xml.StartElement) {
		switch {
		case e.Name.Local == "sheet" && !strings.HasSuffix(strings.ToLower(attribute(e, "state")), "hidden"):
			sheets = append(sheets, sheet{attribute(e, "name"), parts[prefixed(e, "r", "id")]})
		case e.Name.Local == "workbookPr":
			r.from1904 = attribute(e, "date1904") == "1" || attribute(e, "date1904") == "true"
		}
	})
	if err != nil {
		return err
	}
	b := &build.Builder{Pulse: a.p, W: doc.Writer{IsSource: true}}
	if r.strings, err = sharedStrings(a, b); err != nil {
		return err
	}
	if r.formats, err = cellStyles(a); err != nil {
		return err
	}
	file := doc.NameOf(d.ID)
	for _, s := range sheets {
		if r.merges, err = mergesOf(a, s.part); err != nil {
			return err
		}
		r.t, r.line, r.covered = table.Writer{Builder: b, Title: file, Sheet: s.name}, 0, nil
		if err := a.elements(s.part, r.token); err != nil {
			return err
		}
		if r.t.Begun {
			file = ""
		}
		r.t.End()
	}
	b.Finish(d, nil)
	a.said(d, coreProperties)
	return nil
}

// sharedStrings returns the texts that cells refer to by number.
func sharedStrings(a *Archive, b *build.Builder) (all []string, err error) {
	var text strings.Builder
	in, phonetic := false, false
	err = a.elements("xl/sharedStrings.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "t":
				in = !phonetic
			case "rPh":
				phonetic = true
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				in = false
			case "rPh":
				phonetic = false
			case "si":
				b.W.Take(stringBytes + text.Len())
				all = append(all, unescaped(text.String()))
				text.Reset()
			}
		case xml.CharData:
			if in {
				hold(&text, string(t))
			}
		}
		return nil
	})
	return all, optional(err)
}

// stringBytes is the memory of a string in addition to its bytes.
const stringBytes = 16

// cellStyles returns the number formats of the cell styles.
func cellStyles(a *Archive) (styles []*number.Format, err error) {
	known, inCells := number.Builtin(), false
	parsed := map[string]*number.Format{}
	err = a.list("xl/styles.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "numFmt":
				known[attribute(t, "numFmtId")] = attribute(t, "formatCode")
			case "cellXfs":
				inCells = true
			case "xf":
				if inCells {
					code := known[attribute(t, "numFmtId")]
					if parsed[code] == nil {
						parsed[code] = number.New(code)
					}
					styles = append(styles, parsed[code])
				}
			}
		case xml.EndElement:
			if t.Name.Local == "cellXfs" {
				inCells = false
			}
		}
		return nil
	})
	return styles, optional(err)
}

// merge is a cell of a sheet that covers cells of rows below it. Rows and columns count from 1.
type merge struct{ column, first, last int }

// mergesOf returns the cells of a sheet that cover rows, by their first rows. They are stored behind the rows; a part
// that does not mention them is not parsed as XML a second time.
func mergesOf(a *Archive, part string) (list []merge, err error) {
	left := a.left
	defer func() { a.left = left }()
	r, err := a.open(part)
	if err != nil {
		return nil, err
	}
	if found, err := contains(r, "mergeCell"); err != nil || !found {
		return nil, err
	}
	err = a.elements(part, func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		if !ok || e.Name.Local != "mergeCell" {
			return nil
		}
		from, to, _ := strings.Cut(attribute(e, "ref"), ":")
		m := merge{columnOf(from), rowOf(from), rowOf(to)}
		if m.column > 0 && m.column <= maxColumns && m.first > 0 && m.last > m.first {
			list = append(list, m)
		}
		return a.take(0)
	})
	slices.SortStableFunc(list, func(x, y merge) int { return cmp.Compare(x.first, y.first) })
	return list, err
}

// contains reports whether the text occurs in what is read from r.
func contains(r io.Reader, text string) (bool, error) {
	buf, n := make([]byte, 64<<10), 0
	for {
		k, err := r.Read(buf[n:])
		if n += k; bytes.Contains(buf[:n], []byte(text)) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		keep := min(n, len(text)-1)
		copy(buf, buf[n-keep:n])
		n = keep
	}
}

// sheetReader turns a sheet into rows.
type sheetReader struct {
	a        *Archive
	strings  []string
	formats  []*number.Format // by the styles of cells
	from1904 bool

	t       table.Writer
	merges  []merge   // that have not begun
	covered []running // that have begun
	cells   []string
	column  int
	line    int    // of the row, from 1
	kind    string // of the cell: "s", "inlineStr", "b", "e", "str", "d", or a number
	style   int
	value   strings.Builder
	in      bool
}

// running is a merge that covers the current row, with its value.
type running struct {
	merge
	text string
}

// maxColumns is Excel's own limit.
const maxColumns = 16384

func (r *sheetReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		switch t.Name.Local {
		case "row":
			r.cells, r.column = nil, 0
			r.line++
			if n, err := strconv.Atoi(attribute(t, "r")); err == nil && n > 0 {
				r.line = n
			}
		case "c":
			if n := columnOf(attribute(t, "r")); n > 0 {
				r.column = n - 1
			}
			r.kind = attribute(t, "t")
			r.style, _ = strconv.Atoi(attribute(t, "s"))
			r.value.Reset()
		case "v", "t":
			r.in = true
		}
	case xml.EndElement:
		switch t.Name.Local {
		case "v", "t":
			r.in = false
		case "c":
			return r.endCell()
		case "row":
			if len(r.cells) > 0 {
				r.merged()
				r.t.Row(r.cells, 0, 0)
			}
		}
	case xml.CharData:
		if r.in {
			hold(&r.value, string(t))
		}
	}
	return nil
}

// merged puts the values of the cells that cover the row into it, and records those that begin in it.
func (r *sheetReader) merged() {
	kept := r.covered[:0]
	for _, m := range r.covered {
		if m.last < r.line || !r.t.Builder.Again(len(m.text)+len(doc.CellBorder)) {
			continue
		}
		kept = append(kept, m)
		for len(r.cells) < m.column {
			r.cells = append(r.cells, "")
		}
		if r.cells[m.column-1] == "" {
			r.cells[m.column-1] = m.text
		}
	}
	r.covered = kept
	for len(r.merges) > 0 && r.merges[0].first <= r.line {
		m := r.merges[0]
		r.merges = r.merges[1:]
		if m.first == r.line && m.column <= len(r.cells) && r.cells[m.column-1] != "" {
			r.covered = append(r.covered, running{m, r.cells[m.column-1]})
		}
	}
}

func (r *sheetReader) endCell() error {
	text := r.shown(r.value.String())
	if r.kind == "s" { // any number of cells may refer to one long string
		if err := r.a.take(len(text)); err != nil {
			return err
		}
	}
	r.column++
	if text == "" {
		return nil
	}
	if r.column > maxColumns {
		return fmt.Errorf("a cell in column %d, the limit is %d", r.column, maxColumns)
	}
	r.t.Builder.W.Take(max(r.column-len(r.cells), 0)) // each row with a cell far to the right has that many cells
	for len(r.cells) < r.column {
		r.cells = append(r.cells, "")
	}
	r.cells[r.column-1] = text
	return nil
}

// shown returns a cell's value as Excel shows it.
func (r *sheetReader) shown(value string) string {
	format := r.formats[:0:0]
	if r.style >= 0 && r.style < len(r.formats) {
		format = r.formats[r.style : r.style+1]
	}
	switch r.kind {
	case "s":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n >= len(r.strings) {
			return ""
		}
		value = r.strings[n]
	case "b":
		return map[string]string{"1": "TRUE", "0": "FALSE"}[value]
	case "inlineStr", "str":
		value = unescaped(value)
	case "d", "e":
		return value
	default:
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return value
		}
		if len(format) == 0 {
			return number.General(x)
		}
		return format[0].Number(x, r.from1904)
	}
	if len(format) == 0 {
		return value
	}
	return format[0].Text(value)
}

// unescaped decodes a text of ECMA-376's ST_Xstring, in which _xHHHH_ stands for a unit of UTF-16. Control characters
// become spaces.
func unescaped(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	var out strings.Builder
	var units []uint16
	flush := func() {
		for _, c := range utf16.Decode(units) {
			if unicode.IsControl(c) {
				c = ' '
			}
			out.WriteRune(c)
		}
		units = units[:0]
	}
	for text != "" {
		if strings.HasPrefix(text, "_x") && len(text) >= 7 && text[6] == '_' {
			if n, err := strconv.ParseUint(text[2:6], 16, 16); err == nil {
				units = append(units, uint16(n))
				text = text[7:]
				continue
			}
		}
		flush()
		n := strings.IndexByte(text[1:], '_') + 1
		if n == 0 {
			n = len(text)
		}
		out.WriteString(text[:n])
		text = text[n:]
	}
	flush()
	return out.String()
}

// columnOf returns the number of a reference's column, 2 for "B7", or 0.
func columnOf(ref string) (n int) {
	for i := 0; i < len(ref) && ref[i] >= 'A' && ref[i] <= 'Z' && n <= maxColumns; i++ {
		n = n*26 + int(ref[i]-'A') + 1
	}
	return n
}

// rowOf returns the number of a reference's row, 7 for "B7", or 0.
func rowOf(ref string) int {
	n, err := strconv.Atoi(strings.TrimLeft(ref, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	if err != nil {
		return 0
	}
	return n
}

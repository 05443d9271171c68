// Package table writes rows of cells with the names of their columns, and reads comma- and tab-separated values.
package table

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// Writer writes rows of cells to a builder: a line each, "NAME: value | NAME: value" by the names of the header, so
// that a row can be understood without the rest. The header is the first row or two, below up to mostTitles rows with
// one filled cell. Without names an empty cell keeps its place.
type Writer struct {
	Builder *build.Builder
	Title   string // of the file, whose section the first row begins; "": the section has begun
	Sheet   string // in a file of several tables
	names   []string
	held    []tableRow // the first rows, until it is known which of them are the header
	Begun   bool
	known   bool // which rows are the header
}

// tableRow is a row that stands at source [from, to).
type tableRow struct {
	cells    []string
	from, to int
}

// mostTitles is the number of rows with one filled cell that may stand above a header.
const mostTitles = 3

// Row adds a row, which stands at source [from, to). Rows without text are left out.
func (t *Writer) Row(cells []string, from, to int) {
	if build.Filled(cells) == 0 {
		return
	}
	if !t.Begun {
		t.Builder.Heading(1, t.Title, "", from, from)
		t.Builder.Heading(2, t.Sheet, "sheet="+t.Sheet, from, from)
		t.Builder.BeginTable(build.OpenTable{Named: true})
		t.Begun = true
	}
	if t.known {
		t.write(cells, from, to)
		return
	}
	t.held = append(t.held, tableRow{cells, from, to})
	if titles, ok := t.titles(); ok && len(t.held) >= titles+3 || len(t.held) > mostTitles+3 {
		t.release()
	}
}

// titles returns how many of the rows held, of one filled cell each, stand above one with more; false if none has more.
func (t *Writer) titles() (int, bool) {
	for i, r := range t.held[:min(len(t.held), mostTitles+1)] {
		if build.Filled(r.cells) > 1 {
			return i, true
		}
	}
	return 0, false
}

// release decides which of the rows held are the header, and writes the others.
func (t *Writer) release() {
	var rows [][]string
	for _, r := range t.held {
		rows = append(rows, r.cells)
	}
	header := build.HeaderRows(rows)
	titles, _ := t.titles()
	if titles > 0 && header > 0 && !build.HeadsNumbers(rows[titles:]) {
		titles = 0
	} else if header = build.HeaderRows(rows[titles:]); header == 0 {
		titles = 0
	}
	for _, r := range t.held[:titles] {
		t.write(r.cells, r.from, r.to)
	}
	switch header {
	case 1:
		t.names = build.ColumnNames(rows[titles])
	case 2:
		t.names = build.GroupNames(rows[titles], rows[titles+1], rows[titles+2])
	}
	for _, r := range t.held[titles+header:] {
		t.write(r.cells, r.from, r.to)
	}
	t.held, t.known = nil, true
}

// End writes the rows that are still held back: a table of one row has no names.
func (t *Writer) End() {
	if len(t.held) > 0 {
		t.release()
	}
	if t.Begun {
		t.Builder.EndTable()
	}
	t.Builder.EndBlock("\n\n")
}

// longestGap is the largest run of empty cells that keep their places.
const longestGap = 64

func (t *Writer) write(cells []string, from, to int) {
	var parts []string
	empty := 0
	for i, cell := range cells {
		t.Builder.Pulse.Beat()
		cell = strings.Join(strings.Fields(cell), " ")
		if cell == "" {
			if i >= len(t.names) {
				empty++
			}
			continue
		}
		if i < len(t.names) && t.names[i] != "" {
			cell = t.names[i] + ": " + cell
		}
		for range min(empty, longestGap) {
			if len(parts) == 0 {
				parts = append(parts, doc.EmptyFirst)
				continue
			}
			parts = append(parts, "")
		}
		empty = 0
		parts = append(parts, cell)
	}
	// one unit that NFC must not change later
	t.Builder.Atom(norm.NFC.String(strings.Join(parts, doc.CellBorder)), from, to-from)
	t.Builder.EndBlock("\n")
}

// Parse reads comma- or tab-separated values (RFC 4180, and what programs write): ragged rows, loose quotes, lines
// that end in CR alone. The delimiter of .csv is the one that a first line "sep=;" names, else the one of , ; tab and |
// that splits the first lines best. The file's name stands above the rows.
func Parse(d *doc.Document, in charset.Text, tabs bool, p *doc.Pulse) error {
	text := in.Text
	if !strings.Contains(text, "\n") {
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	base, comma := 0, delimiter(text, tabs)
	if line, _, _ := strings.Cut(text, "\n"); len(line) < 10 {
		named, ok := strings.CutPrefix(strings.Trim(line, "\r\""), "sep=")
		if c, size := utf8.DecodeRuneInString(named); ok && size == len(named) && size > 0 && c != utf8.RuneError {
			if c != '"' {
				base, comma = min(len(line)+1, len(text)), c
			}
		}
	}
	r := csv.NewReader(p.Reader(strings.NewReader(text[base:])))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = comma, true, -1, false
	b := &build.Builder{Pulse: p}
	t := Writer{Builder: b, Title: doc.NameOf(d.ID)}
	for {
		from := base + int(r.InputOffset())
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if at, ok := errors.AsType[*csv.ParseError](err); ok {
				return fmt.Errorf("%w: line %d: %w", doc.ErrFormat, at.Line, at.Err)
			}
			return fmt.Errorf("%w: %w", doc.ErrFormat, err)
		}
		to := base + int(r.InputOffset())
		for from < to && doc.IsSpace(text[from]) { // skips empty lines
			from++
		}
		for to > from && doc.IsSpace(text[to-1]) {
			to--
		}
		t.Row(cells, from, to)
	}
	t.End()
	b.Finish(d, in.Map)
	return nil
}

// delimiter returns the cell delimiter: the character that is in most of the first lines equally often.
func delimiter(text string, tabs bool) rune {
	if tabs {
		return '\t'
	}
	best, most := ',', 0
	for _, c := range ",;\t|" {
		counts, lines := map[int]int{}, 0
		for line := range strings.Lines(text[:min(len(text), 16<<10)]) {
			if lines++; lines > 20 {
				break
			}
			quoted, n := false, 0
			for _, x := range line {
				if x == '"' {
					quoted = !quoted
				}
				if x == c && !quoted {
					n++
				}
			}
			if n > 0 {
				counts[n]++
			}
		}
		for n, times := range counts {
			if score := times*1000 + min(n, 999); score > most {
				best, most = c, score
			}
		}
	}
	return best
}

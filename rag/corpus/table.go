package corpus

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// table writes rows of cells to a builder: a line each, "NAME: value | NAME: value" by the names of the header, so that
// a row can be understood without the rest. The header is the first row or two, below up to mostTitles rows with one
// filled cell. Without names an empty cell keeps its place.
type table struct {
	b     *builder
	title string // of the file, whose section the first row begins; "": the section has begun
	sheet string // in a file of several tables
	names []string
	held  []tableRow // the first rows, until it is known which of them are the header
	begun bool
	known bool // which rows are the header
}

// tableRow is a row that stands at source [from, to).
type tableRow struct {
	cells    []string
	from, to int
}

// mostTitles is the number of rows with one filled cell that may stand above a header.
const mostTitles = 3

// row adds a row, which stands at source [from, to). Rows without text are left out.
func (t *table) row(cells []string, from, to int) {
	if filled(cells) == 0 {
		return
	}
	if !t.begun {
		t.b.heading(1, t.title, "", from, from)
		t.b.heading(2, t.sheet, "sheet="+t.sheet, from, from)
		t.b.beginTable(openTable{named: true})
		t.begun = true
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
func (t *table) titles() (int, bool) {
	for i, r := range t.held[:min(len(t.held), mostTitles+1)] {
		if filled(r.cells) > 1 {
			return i, true
		}
	}
	return 0, false
}

// release decides which of the rows held are the header, and writes the others.
func (t *table) release() {
	var rows [][]string
	for _, r := range t.held {
		rows = append(rows, r.cells)
	}
	header := HeaderRows(rows)
	titles, _ := t.titles()
	if titles > 0 && header > 0 && !headsNumbers(rows[titles:]) {
		titles = 0
	} else if header = HeaderRows(rows[titles:]); header == 0 {
		titles = 0
	}
	for _, r := range t.held[:titles] {
		t.write(r.cells, r.from, r.to)
	}
	switch header {
	case 1:
		t.names = columnNames(rows[titles])
	case 2:
		t.names = groupNames(rows[titles], rows[titles+1], rows[titles+2])
	}
	for _, r := range t.held[titles+header:] {
		t.write(r.cells, r.from, r.to)
	}
	t.held, t.known = nil, true
}

// end writes the rows that are still held back: a table of one row has no names.
func (t *table) end() {
	if len(t.held) > 0 {
		t.release()
	}
	if t.begun {
		t.b.endTable()
	}
	t.b.endBlock("\n\n")
}

// longestGap is the largest run of empty cells that keep their places.
const longestGap = 64

func (t *table) write(cells []string, from, to int) {
	var parts []string
	empty := 0
	for i, cell := range cells {
		t.b.pulse.beat()
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
				parts = append(parts, emptyFirst)
				continue
			}
			parts = append(parts, "")
		}
		empty = 0
		parts = append(parts, cell)
	}
	t.b.atom(norm.NFC.String(strings.Join(parts, cellBorder)), from, to-from) // one unit that NFC must not change later
	t.b.endBlock("\n")
}

// parseTable reads comma- or tab-separated values (RFC 4180, and what programs write): ragged rows, loose quotes, lines
// that end in CR alone. The delimiter of .csv is the one that a first line "sep=;" names, else the one of , ; tab and |
// that splits the first lines best. The file's name stands above the rows.
func parseTable(d *Document, in decoded, tabs bool, p *pulse) error {
	text := in.text
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
	r := csv.NewReader(beating{strings.NewReader(text[base:]), p})
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = comma, true, -1, false
	b := &builder{pulse: p}
	t := table{b: b, title: nameOf(d.ID)}
	for {
		from := base + int(r.InputOffset())
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if at, ok := errors.AsType[*csv.ParseError](err); ok {
				return fmt.Errorf("%w: line %d: %w", ErrFormat, at.Line, at.Err)
			}
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		to := base + int(r.InputOffset())
		for from < to && isSpace(text[from]) { // skips empty lines
			from++
		}
		for to > from && isSpace(text[to-1]) {
			to--
		}
		t.row(cells, from, to)
	}
	t.end()
	b.finish(d, in.m)
	return nil
}

// nameOf returns the name of a file without its extension.
func nameOf(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
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

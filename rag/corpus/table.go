package corpus

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// table writes rows of cells to a builder: a line each, "NAME: value | NAME: value" by the names of the first row if it
// is a header, so that a row can be understood without the rest. Without names an empty cell keeps its place.
type table struct {
	b     *builder
	title string // of the file, whose section the first row begins; "": the section has begun
	sheet string // in a file of several tables
	names []string
	first []string // the first row, until the second one is read
	at    [2]int   // the range of first in the source
	begun bool
}

// row adds a row, which stands at source [from, to).
func (t *table) row(cells []string, from, to int) {
	switch {
	case !t.begun:
		t.b.heading(1, t.title, "", from, from)
		t.b.heading(2, t.sheet, "sheet="+t.sheet, from, from)
		t.b.beginTable(openTable{named: true})
		t.begun, t.first, t.at = true, cells, [2]int{from, to}
		return
	case t.first != nil:
		if IsHeader(t.first, cells) {
			t.names = columnNames(t.first)
		} else {
			t.write(t.first, t.at[0], t.at[1])
		}
		t.first = nil
	}
	t.write(cells, from, to)
}

// end writes the row that is still held back: a table of one row has no names.
func (t *table) end() {
	if t.first != nil {
		t.write(t.first, t.at[0], t.at[1])
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

// columnNames returns the names that a row gives to columns; the second of two equal ones gets a number.
func columnNames(row []string) []string {
	names, seen := make([]string, len(row)), map[string]int{}
	for i, cell := range row {
		names[i] = strings.Join(strings.Fields(cell), " ")
		if seen[names[i]]++; names[i] != "" && seen[names[i]] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", names[i], seen[names[i]])
		}
	}
	return names
}

// IsHeader reports whether the first row of a table names its columns: most of its cells are filled, and there is more
// than one column, or the second row has a number. Numbers are names if they count columns (countColumns), and a name
// may occur twice if the second row has none of the names.
func IsHeader(first, second []string) bool {
	seen, filled, twice := map[string]bool{}, 0, false
	var numbers []int // columns that are named by numbers
	for i, c := range first {
		c = strings.TrimSpace(c)
		if c == "" {
			continue
		}
		if len(c) > maxHeading {
			return false
		}
		if filled++; isNumber(c) {
			numbers = append(numbers, i)
		}
		twice = twice || seen[c]
		seen[c] = true
	}
	if filled == 0 || 2*filled < len(first) || len(numbers) > 0 && !countColumns(first, second, numbers) {
		return false
	}
	again := func(c string) bool { return seen[strings.TrimSpace(c)] }
	if twice && (len(seen) < 2 || slices.ContainsFunc(second, again)) {
		return false
	}
	if len(first) > 1 {
		return true
	}
	return len(second) == 1 && isNumber(strings.TrimSpace(second[0]))
}

// countColumns reports whether the numbers of the first row, in some of its columns, are names: years that rise or
// fall, or beside other names at least three evenly spaced whole numbers, and those of the second row are neither.
func countColumns(first, second []string, columns []int) bool {
	if len(columns) == len(first) && len(first) == 1 {
		return false
	}
	years, even := progression(first, columns)
	if !years && (!even || len(columns) < 3 || len(columns) == len(first)) {
		return false
	}
	alsoYears, alsoEven := progression(second, columns)
	return years && !alsoYears || !years && !alsoEven
}

// progression reports whether all cells in the given columns are years that rise or fall, and whether all are whole
// numbers that do so evenly.
func progression(row []string, columns []int) (years, even bool) {
	years, even = true, true
	last, step := 0, 0
	for k, i := range columns {
		if i >= len(row) {
			return false, false
		}
		n, err := strconv.Atoi(strings.TrimSpace(row[i]))
		if err != nil {
			return false, false
		}
		years = years && n >= 1500 && n < 2200
		switch d := n - last; {
		case k == 1:
			step = d
		case k > 1:
			even = even && d == step
			years = years && d > 0 == (step > 0)
		}
		last = n
	}
	return years && (len(columns) == 1 || step != 0), even && step != 0
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(s, ",", "."), "%"), 64)
	return err == nil && strings.ContainsAny(s, "0123456789")
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
			var at *csv.ParseError
			if errors.As(err, &at) {
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

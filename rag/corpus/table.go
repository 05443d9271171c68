package corpus

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// table gives rows of cells to a builder: a line each, "NAME: value | NAME: value" by the names of the first row if
// that is one of names, so that a row says what it is about wherever it is cut off from the rest.
type table struct {
	b     *builder
	names []string
	first []string // the first row, until the second one has come
	at    [2]int   // its place
	begun bool
}

// row takes the next row, which stands at source [from, to).
func (t *table) row(cells []string, from, to int) {
	switch {
	case !t.begun:
		t.b.beginTable(openTable{named: true})
		t.begun, t.first, t.at = true, cells, [2]int{from, to}
		return
	case t.first != nil:
		if IsHeader(t.first, cells) {
			t.names = t.first
		} else {
			t.write(t.first, t.at[0], t.at[1])
		}
		t.first = nil
	}
	t.write(cells, from, to)
}

// end gives on what is left: a table of one row has no names.
func (t *table) end() {
	if t.first != nil {
		t.write(t.first, t.at[0], t.at[1])
	}
	if t.begun {
		t.b.endTable()
	}
	t.b.endBlock("\n\n")
}

func (t *table) write(cells []string, from, to int) {
	var parts []string
	for i, cell := range cells {
		t.b.pulse.beat()
		cell = strings.Join(strings.Fields(cell), " ")
		if cell == "" {
			continue
		}
		if i < len(t.names) && t.names[i] != "" {
			cell = strings.Join(strings.Fields(t.names[i]), " ") + ": " + cell
		}
		parts = append(parts, cell)
	}
	t.b.atom(norm.NFC.String(strings.Join(parts, cellBorder)), from, to-from) // one unit, which must not change later
	t.b.endBlock("\n")
}

// IsHeader tells whether the first row of a table names its columns: no cell of it is a number or there twice, most are
// filled, and there is more than one column, or the second row has a number.
func IsHeader(first, second []string) bool {
	seen, filled := map[string]bool{}, 0
	for _, c := range first {
		c = strings.TrimSpace(c)
		if c == "" {
			continue
		}
		if isNumber(c) || seen[c] || len(c) > maxHeading {
			return false
		}
		seen[c] = true
		filled++
	}
	if filled == 0 || 2*filled < len(first) {
		return false
	}
	if len(first) > 1 {
		return true
	}
	return len(second) == 1 && isNumber(strings.TrimSpace(second[0]))
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSuffix(strings.ReplaceAll(s, ",", "."), "%"), 64)
	return err == nil
}

// parseTable reads comma- or tab-separated values (RFC 4180, and what programs write): ragged rows, loose quotes, and
// of .csv whatever of , ; tab and | parts the first lines best.
func parseTable(d *Document, in decoded, tabs bool, p *pulse) error {
	r := csv.NewReader(beating{strings.NewReader(in.text), p})
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = delimiter(in.text, tabs), true, -1, false
	b := &builder{pulse: p}
	t := table{b: b}
	for {
		from := int(r.InputOffset())
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
		to := int(r.InputOffset())
		for from < to && isSpace(in.text[from]) { // empty lines that were passed over
			from++
		}
		for to > from && isSpace(in.text[to-1]) {
			to--
		}
		t.row(cells, from, to)
	}
	t.end()
	b.finish(d, in.m)
	return nil
}

// delimiter is what parts the cells: the character that is in most of the first lines equally often.
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

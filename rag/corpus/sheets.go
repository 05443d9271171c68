package corpus

import (
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// parseSheets reads an Excel workbook (.xlsx, ECMA-376): a section for each visible sheet under its name, a line for
// each row. The anchor of a section is "sheet=NAME". Values are those that the file keeps, formulas are not computed.
func parseSheets(d *Document, a *archive) error {
	const workbook = "xl/workbook.xml"
	parts, _, err := a.related(workbook)
	if err != nil {
		return err
	}
	type sheet struct{ name, part string }
	var sheets []sheet
	r := sheetReader{a: a}
	err = a.list(workbook, func(t xml.Token) error {
		e, ok := t.(xml.StartElement)
		switch {
		case ok && e.Name.Local == "sheet" && !strings.HasSuffix(strings.ToLower(attribute(e, "state")), "hidden"):
			sheets = append(sheets, sheet{attribute(e, "name"), parts[prefixed(e, "r", "id")]})
		case ok && e.Name.Local == "workbookPr":
			r.from1904 = attribute(e, "date1904") == "1" || attribute(e, "date1904") == "true"
		}
		return nil
	})
	if err != nil {
		return err
	}
	b := &builder{pulse: a.p, w: textWriter{isSource: true}}
	if r.strings, err = sharedStrings(a, b); err != nil {
		return err
	}
	if r.dates, r.percents, err = cellStyles(a); err != nil {
		return err
	}
	for _, s := range sheets {
		b.heading(1, s.name, "sheet="+s.name, 0, 0)
		r.t = table{b: b}
		if err := a.elements(s.part, r.token); err != nil {
			return err
		}
		r.t.end()
	}
	b.finish(d, nil)
	a.said(d, coreProperties)
	return nil
}

// sharedStrings are the texts that cells refer to by number.
func sharedStrings(a *archive, b *builder) (all []string, err error) {
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
				b.w.take(stringBytes + text.Len())
				all = append(all, text.String())
				text.Reset()
			}
		case xml.CharData:
			if in {
				hold(&text, string(t))
			}
		}
		return nil
	})
	if errors.Is(err, errNoPart) {
		err = nil
	}
	return all, err
}

// stringBytes is what a string takes beside its bytes.
const stringBytes = 16

// cellStyles tells of each cell style whether it shows a number as a date or a time, or in percent.
func cellStyles(a *archive) (dates, percents []bool, err error) {
	custom, percent, inCells := map[string]bool{}, map[string]bool{"9": true, "10": true}, false
	err = a.list("xl/styles.xml", func(t xml.Token) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "numFmt":
				code := attribute(t, "formatCode")
				custom[attribute(t, "numFmtId")] = isDateFormat(code)
				percent[attribute(t, "numFmtId")] = strings.HasSuffix(code, "%") && !strings.ContainsAny(code, `"\\`)
			case "cellXfs":
				inCells = true
			case "xf":
				if inCells {
					id := attribute(t, "numFmtId")
					n, _ := strconv.Atoi(id)
					percents = append(percents, percent[id])
					dates = append(dates, custom[id] || n >= 14 && n <= 22 || n >= 45 && n <= 47)
				}
			}
		case xml.EndElement:
			if t.Name.Local == "cellXfs" {
				inCells = false
			}
		}
		return nil
	})
	if errors.Is(err, errNoPart) {
		err = nil
	}
	return dates, percents, err
}

// isDateFormat tells whether a number format has a day, month, year or time in it: letters outside of quotes and
// brackets.
func isDateFormat(code string) bool {
	quoted, bracket := false, false
	for i, c := range strings.ToLower(code) {
		switch {
		case i > 0 && code[i-1] == '\\':
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			bracket = true
		case c == ']':
			bracket = false
		case !bracket && strings.ContainsRune("ymdhs", c):
			return true
		}
	}
	return false
}

// sheetReader turns a sheet into rows.
type sheetReader struct {
	a        *archive
	strings  []string
	dates    []bool // by the styles of cells
	percents []bool
	from1904 bool

	t      table
	cells  []string
	column int
	kind   string // of the cell: "s", "inlineStr", "b", "e", "str", "d", or a number
	style  int
	value  strings.Builder
	in     bool
}

// maxColumns is Excel's own limit.
const maxColumns = 16384

func (r *sheetReader) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		switch t.Name.Local {
		case "row":
			r.cells, r.column = nil, 0
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
				r.t.row(r.cells, 0, 0)
			}
		}
	case xml.CharData:
		if r.in {
			hold(&r.value, string(t))
		}
	}
	return nil
}

func (r *sheetReader) endCell() error {
	text := r.shown(r.value.String())
	if r.kind == "s" { // any number of cells may refer to a long string
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
	r.t.b.w.take(max(r.column-len(r.cells), 0)) // each row with a cell far to the right has as many
	for len(r.cells) < r.column {
		r.cells = append(r.cells, "")
	}
	r.cells[r.column-1] = text
	return nil
}

// shown is a cell's value as a person reads it.
func (r *sheetReader) shown(value string) string {
	switch r.kind {
	case "s":
		if n, err := strconv.Atoi(value); err == nil && n >= 0 && n < len(r.strings) {
			return r.strings[n]
		}
		return ""
	case "b":
		return map[string]string{"1": "true", "0": "false"}[value]
	case "inlineStr", "str", "d", "e":
		return value
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	if r.style >= 0 && r.style < len(r.dates) && r.dates[r.style] && x >= 0 && x < 2958466 { // 9999-12-31
		return dateOf(x, r.from1904)
	}
	sign := ""
	if r.style >= 0 && r.style < len(r.percents) && r.percents[r.style] {
		x, sign = 100*x, "%"
	}
	return strconv.FormatFloat(x, 'g', 15, 64) + sign // as Excel keeps it: 0.30000000000000004 is 0.3
}

// dateOf is Excel's serial number as a date, a time, or both.
func dateOf(x float64, from1904 bool) string {
	day := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC) // so that its 29 February 1900, which never was, does no harm
	if from1904 {
		day = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	days, part := math.Modf(x)
	seconds := int(math.Round(part * 86400))
	at := day.AddDate(0, 0, int(days)).Add(time.Duration(seconds) * time.Second)
	switch {
	case days == 0 && !from1904:
		return at.Format("15:04:05")
	case seconds == 0:
		return at.Format("2006-01-02")
	}
	return at.Format("2006-01-02 15:04:05")
}

// columnOf is the number of a reference's column, "B7" is 2, or 0.
func columnOf(ref string) (n int) {
	for i := 0; i < len(ref) && ref[i] >= 'A' && ref[i] <= 'Z' && n <= maxColumns; i++ {
		n = n*26 + int(ref[i]-'A') + 1
	}
	return n
}

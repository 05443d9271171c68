package doc

import "strings"

// CellBorder separates the cells of a row. A row whose first cell is empty begins with EmptyFirst, as in Markdown.
const (
	CellBorder = " | "
	EmptyFirst = "|"
)

// RowCells returns the texts of a row's cells.
func RowCells(row string) []string {
	if rest, ok := strings.CutPrefix(row, EmptyFirst+CellBorder); ok {
		row = CellBorder + rest
	}
	return strings.Split(row, CellBorder)
}

// Cells returns the ranges of the cells of a row, each with the border behind it.
func Cells(text string, row Span) []Span {
	var out []Span
	for at := row.Start; at < row.End; {
		n := row.End - at
		if i := strings.IndexAny(text[at:row.End], "|\n"); i >= 0 {
			n = i + 1
			for j := i; j >= 0; { // the next border; "|" within a word is not a border
				if text[at+j] == '\n' || j > 0 && text[at+j-1] == ' ' && at+j+1 < row.End && text[at+j+1] == ' ' {
					n = j + 1
					break
				}
				k := strings.IndexAny(text[at+j+1:row.End], "|\n")
				if n = row.End - at; k < 0 {
					break
				}
				j += k + 1
			}
		}
		if s := (Span{at, at + n}).Trim(text); s.Start < s.End {
			out = append(out, s)
		}
		at += n
	}
	return out
}

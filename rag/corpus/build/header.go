package build

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// HeaderRows returns how many of the first rows of a table name its columns: none, one, or two if cells of the first
// row stand above several of the second one, as years do above quarters.
func HeaderRows(rows [][]string) int {
	switch {
	case len(rows) > 2 && GroupNames(rows[0], rows[1], rows[2]) != nil:
		return 2
	case len(rows) > 1 && isHeader(rows[0], rows[1]):
		return 1
	}
	return 0
}

// GroupNames returns the names of columns that two rows give together, "2023 Q1", or nil if they do not: a cell of the
// top row stands above several cells of the second one if it is repeated, or if the cells beside it are empty. There
// are at least two cells in the top row (a title is one), and below such groups the first row of data has values, where
// the second row has names.
func GroupNames(top, second, data []string) []string {
	labels, wide := groups(top, second)
	if wide == 0 {
		return nil
	}
	names, values := make([]string, len(labels)), 0
	for i, label := range labels {
		name := cellOf(second, i)
		if len(label)+len(name) > doc.MaxHeading {
			return nil
		}
		names[i] = strings.TrimSpace(label + " " + name)
		beside := i > 0 && labels[i-1] == label || i+1 < len(labels) && labels[i+1] == label
		value := cellOf(data, i)
		switch {
		case name == "" || name == label: // one cell covers both rows
			names[i] = label
		case isNumber(name) && (!isYear(name) || isYear(value)):
			return nil
		case label == "" || !beside:
		case isValue(value):
			values++
		case len(value) > len("n/a") || isWordy(value):
			return nil
		}
	}
	if values == 0 {
		return nil
	}
	return ColumnNames(names)
}

// groups returns the cell of the top row above each column, and how many columns share theirs with the one before. No
// column does if the names of two columns below a cell are the same, or if the top row has one cell only.
func groups(top, second []string) (labels []string, wide int) {
	labels = make([]string, max(len(top), len(second)))
	label, cells := "", 0
	var below []string // names below the label
	for i := range labels {
		own, name := cellOf(top, i), cellOf(second, i)
		if own != "" {
			cells++
		}
		switch {
		case own != "" && own != label:
			label, below = own, nil
		case name == "": // a gap between groups
			label, below = own, nil
		}
		if labels[i] = label; name == label {
			label = ""
			continue
		}
		if slices.Contains(below[:min(len(below), MostColumns)], name) {
			return nil, 0
		}
		if below = append(below, name); label != "" && len(below) > 1 {
			wide++
		}
	}
	if cells < 2 {
		return nil, 0
	}
	return labels, wide
}

// HeadsNumbers reports whether the first row is one of names, above a row with a number.
func HeadsNumbers(rows [][]string) bool {
	return len(rows) > 1 && !slices.ContainsFunc(rows[0], isNumber) && slices.ContainsFunc(rows[1], isNumber)
}

// Filled returns how many cells of a row are not empty.
func Filled(row []string) (n int) {
	for _, c := range row {
		if strings.TrimSpace(c) != "" {
			n++
		}
	}
	return n
}

// cellOf returns a cell of a row, with each run of white space as one, or "".
func cellOf(row []string, i int) string {
	if i >= len(row) {
		return ""
	}
	return strings.Join(strings.Fields(row[i]), " ")
}

func isYear(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1500 && n < 2200
}

// isValue reports whether a cell holds a number, maybe with a unit.
func isValue(s string) bool {
	digits, letters := 0, 0
	for _, r := range s {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		}
	}
	return digits > 0 && letters <= max(digits, 3)
}

// isWordy reports whether a cell is letters alone, other than "n/a".
func isWordy(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

// ColumnNames returns the names that a row gives to columns; the second of two equal ones gets a number.
func ColumnNames(row []string) []string {
	names, seen := make([]string, len(row)), map[string]int{}
	for i := range row {
		names[i] = cellOf(row, i)
		if seen[names[i]]++; names[i] != "" && seen[names[i]] > 1 {
			names[i] = fmt.Sprintf("%s (%d)", names[i], seen[names[i]])
		}
	}
	return names
}

// isHeader reports whether the first row of a table names its columns: most of its cells are filled, and there is more
// than one column, or the second row has a number. Numbers are names if they count columns (countColumns), and a name
// may occur twice if the second row has none of the names.
func isHeader(first, second []string) bool {
	seen, filled, twice := map[string]bool{}, 0, false
	var numbers []int // columns that are named by numbers
	for i, c := range first {
		c = strings.TrimSpace(c)
		if c == "" {
			continue
		}
		if len(c) > doc.MaxHeading {
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
		years = years && isYear(strings.TrimSpace(row[i]))
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

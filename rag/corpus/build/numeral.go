package build

import (
	"strconv"
	"strings"
)

// Numeral returns the number of a list item in a format of Office documents (ECMA-376, ST_NumberFormat) or in CSS's
// alphabetic ones. Other formats, and numbers that a format cannot write, are decimal.
func Numeral(format string, n int) string {
	switch format {
	case "lowerLetter", "upperLetter": // a to z, aa, bb
		if n >= 1 && n <= 26*10 {
			return inCase(format, strings.Repeat(string(rune('a'+(n-1)%26)), (n-1)/26+1))
		}
	case "lower-alpha", "upper-alpha": // a to z, aa, ab
		text := ""
		for x := n; x > 0; x = (x - 1) / 26 {
			text = string(rune('a'+(x-1)%26)) + text
		}
		if text != "" {
			return inCase(format, text)
		}
	case "lowerRoman", "upperRoman":
		if n >= 1 && n <= 3999 {
			return inCase(format, roman(n))
		}
	case "decimalZero":
		if n >= 0 && n < 10 {
			return "0" + strconv.Itoa(n)
		}
	case "ordinal":
		return strconv.Itoa(n) + ordinalEnding(n)
	case "none":
		return ""
	}
	return strconv.Itoa(n)
}

// inCase returns a lower-case text in the case of a format.
func inCase(format, text string) string {
	if strings.HasPrefix(format, "upper") {
		return strings.ToUpper(text)
	}
	return text
}

func roman(n int) string {
	var b strings.Builder
	for _, x := range [...]struct {
		value int
		text  string
	}{{1000, "m"}, {900, "cm"}, {500, "d"}, {400, "cd"}, {100, "c"}, {90, "xc"}, {50, "l"}, {40, "xl"}, {10, "x"},
		{9, "ix"}, {5, "v"}, {4, "iv"}, {1, "i"}} {
		b.WriteString(strings.Repeat(x.text, n/x.value))
		n %= x.value
	}
	return b.String()
}

func ordinalEnding(n int) string {
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			return "st"
		case 2:
			return "nd"
		case 3:
			return "rd"
		}
	}
	return "th"
}

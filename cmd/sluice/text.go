package main

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/internal/printable"
)

// short returns the text on one line, cut after n runes.
func short(text string, n int) string {
	text = printable.Line(strings.Join(strings.Fields(text), " "))
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

// indent puts spaces before every line.
func indent(text string) string {
	return "    " + strings.ReplaceAll(printable.Text(text), "\n", "\n    ")
}

// count returns a number with its noun: "1 passage", "2 passages".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// byNumber returns the verb of a subject: for one, or for more.
func byNumber(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

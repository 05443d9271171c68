package main

import (
	"fmt"
	"maps"
	"slices"
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

// sortedKeys returns a map's keys in order, so that output does not change from run to run.
func sortedKeys(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) }

// count returns a number with its noun: "1 passage", "2 passages".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

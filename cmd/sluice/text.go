package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/prompt"
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

// position returns a passage's place: its source, with lines if they are known, else with bytes; for formats whose text
// is extracted, with the anchor ("slide=3").
func position(source, anchor string, start, end int, text string) string {
	shown := printable.Line(source)
	if corpus.Converted(source) {
		if anchor != "" {
			shown += "#" + printable.Line(anchor)
		}
		return shown
	}
	if from, to := corpus.Lines(context.Background(), source, start, end, text); from > 0 {
		if from == to {
			return fmt.Sprintf("%s:%d", shown, from)
		}
		return fmt.Sprintf("%s:%d-%d", shown, from, to)
	}
	if lineOfJSON(source) {
		return shown
	}
	return fmt.Sprintf("%s, bytes %d-%d", shown, start, end)
}

// lineOfJSON reports whether a source is "FILE:LINE", as for documents from JSON lines.
func lineOfJSON(source string) bool {
	i := strings.LastIndexByte(source, ':')
	return i >= 0 && i+1 < len(source) && strings.Trim(source[i+1:], "0123456789") == ""
}

// passageLines returns the lines that name a passage: title and heading, then its place; or only the place if there is
// neither.
func passageLines(title, source, heading, place string) (name, below string) {
	title, heading = printable.Line(title), printable.Line(heading)
	switch {
	case title == "" && heading == "":
		return place, ""
	case title == "":
		title = printable.Line(filepath.Base(source))
	}
	switch {
	case heading == "":
		return title, place
	case heading == title || strings.HasPrefix(heading, title+" › "): // the first heading is the title
		return heading, place
	}
	return title + " › " + heading, place
}

// pageLines returns the lines that name a passage of a web page: its title, then its URL and when it was fetched.
func pageLines(w prompt.Web) (name, below string) {
	address := fmt.Sprintf("%s, fetched %s", printable.Line(w.URL), w.Fetched.UTC().Format("2006-01-02 15:04 UTC"))
	if title := printable.Line(w.Title); title != "" {
		return title, address
	}
	return address, ""
}

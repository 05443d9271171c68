package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/internal/printable"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// longestLook is how far into a file line numbers are counted.
const longestLook = 64 << 20

// position is where a passage stands: its source, with lines if they are known, else with bytes; of a format whose text
// is made of it, with the anchor ("slide=3").
func position(source, anchor string, start, end int, text string) string {
	shown := printable.Line(source)
	if corpus.Converted(source) {
		if anchor != "" {
			shown += "#" + printable.Line(anchor)
		}
		return shown
	}
	if from, to := lineRange(source, start, end, text); from > 0 {
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

// lineOfJSON tells whether a source is "FILE:LINE", as documents of JSON lines have it.
func lineOfJSON(source string) bool {
	i := strings.LastIndexByte(source, ':')
	return i >= 0 && i+1 < len(source) && strings.Trim(source[i+1:], "0123456789") == ""
}

// lineRange returns the first and the last line of a passage, counted from 1, and 0 where the file is not there or does
// not hold the passage's first and last words at that place: it has changed since it was read.
func lineRange(source string, start, end int, text string) (from, to int) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 || start < 0 || end <= start || end > longestLook {
		return 0, 0
	}
	st, err := os.Stat(source)
	if err != nil || !st.Mode().IsRegular() || st.Size() < int64(end) { // opening a pipe would wait
		return 0, 0
	}
	f, err := os.Open(source)
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	lines := 0
	if lines, err = newlines(r, start); err != nil {
		return 0, 0
	}
	passage := make([]byte, end-start)
	if _, err := io.ReadFull(r, passage); err != nil || !bytes.Contains(passage, []byte(words[0])) ||
		!bytes.Contains(passage, []byte(words[len(words)-1])) {
		return 0, 0
	}
	from = lines + 1
	return from, from + bytes.Count(bytes.TrimRight(passage, "\n"), []byte("\n"))
}

// newlines reads n bytes and counts the lines that end in them.
func newlines(r io.Reader, n int) (lines int, err error) {
	buffer := make([]byte, 1<<16)
	for n > 0 {
		k, err := io.ReadFull(r, buffer[:min(n, len(buffer))])
		if err != nil {
			return 0, err
		}
		lines += bytes.Count(buffer[:k], []byte("\n"))
		n -= k
	}
	return lines, nil
}

// passageLines are the lines that name a passage: title and heading, then its place; where there is neither title nor
// heading, the place alone.
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

// pageLines are the lines that name a passage of the web: its title, then its address and when it was fetched.
func pageLines(w prompt.Web) (name, below string) {
	address := fmt.Sprintf("%s, fetched %s", printable.Line(w.URL), w.Fetched.UTC().Format("2006-01-02 15:04 UTC"))
	if title := printable.Line(w.Title); title != "" {
		return title, address
	}
	return address, ""
}

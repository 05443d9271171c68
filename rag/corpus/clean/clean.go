// Package clean takes out of documents what answers no question: tables of contents, indexes, boilerplate.
package clean

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
)

// The cleaners, in the order in which they work.
const (
	Contents    doc.Cleaner = "contents"    // tables of contents, lists of figures and tables
	Index       doc.Cleaner = "index"       // indexes: words with the numbers of pages
	Boilerplate doc.Cleaner = "boilerplate" // lines that come three times or more, page numbers, copyright lines
	Bullets     doc.Cleaner = "bullets"     // marks before items of lists
	Dashes      doc.Cleaner = "dashes"      // rules and leaders; all dashes become "-", soft hyphens go
	Space       doc.Cleaner = "space"       // runs of white space become one, invisible characters go
)

// ErrUnknown is the name of no cleaner.
var ErrUnknown = errors.New("corpus: unknown way of cleaning")

func cleaners() []doc.Cleaner {
	return []doc.Cleaner{Contents, Index, Boilerplate, Bullets, Dashes, Space}
}

// Parse reads "none" (or ""), "all", or names with commas between. What is returned is in the order of the
// work, each once. An unknown name is ErrCleaner.
func Parse(s string) (list []doc.Cleaner, err error) {
	switch strings.TrimSpace(s) {
	case "", "none":
		return nil, nil
	case "all":
		return cleaners(), nil
	}
	asked := map[doc.Cleaner]bool{}
	for name := range strings.SplitSeq(s, ",") {
		c := doc.Cleaner(strings.TrimSpace(name))
		if !slices.Contains(cleaners(), c) {
			return nil, fmt.Errorf("%w: %q (known: none, all, and with commas between: %s)", ErrUnknown, c,
				strings.Trim(fmt.Sprint(cleaners()), "[]"))
		}
		asked[c] = true
	}
	return slices.DeleteFunc(cleaners(), func(c doc.Cleaner) bool { return !asked[c] }), nil
}

// clean lets cleaners work on the document.
func Document(d *doc.Document, list []doc.Cleaner, p *doc.Pulse) {
	for _, c := range list {
		var edits []doc.Edit
		switch c {
		case Contents:
			edits = d.Removed(contentLines(proseLines(d, p)))
		case Index:
			edits = d.Removed(indexLines(proseLines(d, p)))
		case Boilerplate:
			edits = d.Removed(repeatedLines(proseLines(d, p)))
		case Bullets:
			edits = replaced(d, bulletMark, "", p)
		case Dashes:
			apply(d, c, replaced(d, ruleOrLeader, " ", p))
			apply(d, c, replaced(d, softHyphen, "", p))
			edits = replaced(d, anyDash, "-", p)
		case Space:
			edits = spaces(d, p)
		}
		apply(d, c, edits)
	}
}

// maxCleaned bounds what is kept of one document for those who want to see what was taken out.
const maxCleaned = 10_000

// apply takes out what edits say, and keeps it.
func apply(d *doc.Document, by doc.Cleaner, edits []doc.Edit) {
	for _, e := range edits[:min(len(edits), max(maxCleaned-len(d.Cleaned), 0))] {
		text := strings.Clone(doc.CutRunes(d.Text[e.Start:e.End], doc.MaxHeading))
		d.Cleaned = append(d.Cleaned, doc.Cleaned{By: by, Text: text})
	}
	d.Edit(edits)
}

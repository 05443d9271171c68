package corpus

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/plain"
)

// TestPlainHeadings: headings of plain texts are underlined, or stand at the margin of indented text. They are
// sections, and nothing else is taken for one.
func TestPlainHeadings(t *testing.T) {
	const more = "   And more.\n   And more.\n   And more.\n   And more.\n   And more.\n   The end."
	for _, c := range []struct{ name, text, want, title string }{
		{"underlined", "Tides\n=====\n\nWater rises.\n\nHigh water\n----------\nTwice a day.\n\nLow\n---\nTwice, too.\n",
			"Tides: Water rises.|Tides/High water: Twice a day.|Tides/Low: Twice, too.", "Tides"},
		{"a manual page", "GREP(1)     User Commands     GREP(1)\n\nNAME\n   grep - print lines\n\nEXIT STATUS\n" + more +
			"\n\nGNU grep 3.8     2023     GREP(1)\n",
			": GREP(1)     User Commands     GREP(1)|NAME: grep - print lines|EXIT STATUS: " + more[3:] +
				"\n\nGNU grep 3.8     2023     GREP(1)", "a"},
		{"an RFC", "Network Group     A. Author\n\n   A Protocol\n\n1.  Introduction\n\n1.1.  Purpose\n\n   It is small.\n\n" +
			"Author     Standards     [Page 1]\n\f\nRFC 1     A Protocol     2001\n\n   It ends.\n\n2.  Terms\n\n" + more + "\n",
			": Network Group     A. Author\n\n   A Protocol|1.  Introduction/1.1.  Purpose: It is small.\n\n" +
				"Author     Standards     [Page 1]\n\f\nRFC 1     A Protocol     2001\n\n   It ends.|" +
				"2.  Terms: " + more[3:], "a"},
		{"nothing below", "Tides\n=====\n\nRivers\n======\nThey run.\n",
			"Tides: Tides\n=====|Rivers: They run.", "Tides"},
		{"prose", "Some words\n\n  an example\n\nMore words\nof prose\n\n  another\n\nand on it goes\nto its end.", "", "a"},
		{"a list", "Things:\n\n- one\n  and more\n  and more\n- two\n  and more\n  and more", "", "a"},
		{"fields and code", "Files: a.c\n  One.\n  Two.\n\nLicense: MIT\n  Three.\n\nfunc main() {\n\tFour\n\tFive", "", "a"},
		{"a table", "Name   Depth\n-----  -----\nBergen    11", "", "a"},
	} {
		if c.want == "" {
			c.want = ": " + c.text
		}
		docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), "a.txt", c.text))
		if len(docs) != 1 {
			t.Errorf("%s: %v", c.name, skips)
			continue
		}
		var got []string
		for _, s := range docs[0].Sectioned() {
			got = append(got, strings.Join(s.Heading, "/")+": "+strings.TrimSpace(docs[0].Text[s.Start:s.End]))
		}
		if strings.Join(got, "|") != c.want || docs[0].Title != c.title {
			t.Errorf("%s, title %q:\n%q\nwant %q\n%q", c.name, docs[0].Title, strings.Join(got, "|"), c.title, c.want)
		}
		checkDocument(t, docs[0], len(c.text))
	}
}

// TestPlainHeadingsAreLinear: the work grows with the text, and headings do not become many times their text.
func TestPlainHeadingsAreLinear(t *testing.T) {
	for _, unit := range []string{"a\n  b\n\n", "a\n===\n\n", "1.1.1.1.1.1.1.1 a\n\n", "\n", "  a\n"} {
		doubling.Linear(t, doubling.Input{Unit: unit}, func(text string) int {
			d, p := &Document{}, &doc.Pulse{Ctx: context.Background()}
			plain.Parse(d, charset.Text{Text: text}, p)
			return int(p.N) + len(fmt.Sprint(d.Sections))
		})
	}
}

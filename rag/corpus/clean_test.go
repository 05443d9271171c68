package corpus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/clean"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
)

func TestParseCleaners(t *testing.T) {
	for s, want := range map[string]string{"": "[]", "none": "[]", "all": fmt.Sprint(allCleaners),
		"space, bullets,space": "[bullets space]", "index": "[index]"} {
		if list, err := ParseCleaners(s); err != nil || fmt.Sprint(list) != want {
			t.Errorf("%q: %v, %v", s, list, err)
		}
	}
	for _, s := range []string{"bulets", "all,space", "bullets,,space"} {
		if _, err := ParseCleaners(s); !errors.Is(err, ErrCleaner) || !strings.Contains(err.Error(), "boilerplate") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

var allCleaners = must(ParseCleaners("all"))

// TestClean: what each cleaner takes out, what it leaves, and that places still lead to the source.
func TestClean(t *testing.T) {
	letter := ""
	for i, line := range []string{"The tide comes in.", "It goes out.", "It comes again."} {
		letter += fmt.Sprintf("%s\n\nNorth Sea Pilot, page %d\n\n", line, i+7)
	}
	for _, x := range []struct {
		what, name, text, clean string
		want                    string
	}{
		{"bullets", "a.txt", "Bring:\n\n• rope\n  ▪ ten metres\n- 5 knots, -3 degrees\n\n2 - 1 is one.", "bullets",
			"Bring:\n\nrope\nten metres\n5 knots, -3 degrees\n\n2 - 1 is one."},
		{"bullets of Markdown, not of code", "a.md", "List:\n\n* one\n* two\n\n```\n- kept\n```\n", "bullets",
			"List:\n\none\ntwo\n\n- kept"},
		{"dashes", "a.txt", "Tide — high\n-------\nlow–water … harb\u00ador ...... 3, 1.2.3 and a...", "dashes",
			"Tide - high\nlow-water … harbor 3, 1.2.3 and a..."},
		{"space", "a.txt", "A\u00a0 tide\u200b comes   in  \n   and out.\n\n\nThe\tend.", "space",
			"A tide comes in\nand out.\n\n\nThe end."},
		{"boilerplate", "a.txt", letter + "Page 4 of 9\n\n© 2019 The Pilot\n\nA last word.\nYes.\nYes.\n" +
			"Yes.", "boilerplate", "The tide comes in.\n\nIt goes out.\n\nIt comes again.\n\n" +
			"A last word.\nYes.\nYes.\nYes."},
		{"contents", "a.txt", "Pilot book\n\nContents\n1 Tides ........ 3\n2 Winds . . . . . 14\n3 Harbours    21\n" +
			"\n1 Tides\nAt 3.30 there are 4 ships.", "contents", "Pilot book\n\n1 Tides\nAt 3.30 there are 4 ships."},
		{"contents below a heading", "a.md", "# Contents\n\n" +
			"- Tides\n- Winds\n- Ports\n\n" +
			"# Tides\n\nThey come in.\n", "contents", "They come in."},
		{"contents in one paragraph", "a.txt", "Contents 1 Tides ..... 3 2 Winds ..... 14 3 Harbours ..... 21\n\nText.",
			"contents", "Text."},
		{"index", "a.txt", "The last chapter.\n\nIndex\nA\nanchor, 3, 14-16\narc, 7\nB\nbuoy, red, 12\nbuoy, green, 12, 19\n" +
			"C\ncable, 4\ncargo, 9\nchart, 5, 77–79\ncrew, 2\n\nColophon in 1999.", "index",
			"The last chapter.\n\nColophon in 1999."},
		{"no contents", "a.txt", "In 1999 ships came.\nIn all, there were 12\nand then 14\nand 15", "contents,index",
			"In 1999 ships came.\nIn all, there were 12\nand then 14\nand 15"},
		{"tables stay", "a.md",
			"| a — b | • c |\n|---|---|\n| ....... | 2   3 |\n", "all", "a — b | • c\n....... | 2 3"},
	} {
		dir := t.TempDir()
		path := write(t, dir, x.name, x.text)
		docs, _ := load(t, LoadOptions{Clean: must(ParseCleaners(x.clean))}, path)
		if len(docs) != 1 {
			t.Errorf("%s: %d documents", x.what, len(docs))
			continue
		}
		d := docs[0]
		lines := func(s string) string { // blank lines and white space at the ends of lines tell nothing
			var out []string
			for line := range strings.Lines(s) {
				if line = strings.TrimSpace(line); line != "" {
					out = append(out, line)
				}
			}
			return strings.Join(out, "\n")
		}
		if x.what == "space" {
			lines = func(s string) string { return s }
		}
		if got := strings.TrimSpace(d.Text); lines(got) != lines(x.want) {
			t.Errorf("%s: %q, not %q", x.what, got, x.want)
		}
		if (len(d.Cleaned) > 0) == (strings.HasPrefix(x.what, "no ")) && x.what != "tables stay" {
			t.Errorf("%s: %v", x.what, d.Cleaned)
		}
		for _, c := range must(chunk.Split(d, ChunkOptions{Size: 20, Count: countTokens})) {
			for word := range strings.FieldsSeq(c.Text) {
				from := strings.ReplaceAll(x.text[c.Start:c.End], "\u00ad", "")
				if plain := strings.Trim(word, "-|"); !strings.Contains(from, plain) && !strings.Contains(plain, "-") {
					t.Errorf("%s: %q is not in %q", x.what, word, x.text[c.Start:c.End])
				}
			}
		}
	}
}

// A document of which nothing is left is skipped and said.
func TestCleanedToNothing(t *testing.T) {
	path := write(t, t.TempDir(), "a.txt", "Contents\n1 Tides ........ 3\n2 Winds ....... 14\n3 Ports ....... 15\n")
	var skips []Skipped
	for _, err := range Load(t.Context(), []string{path}, LoadOptions{Clean: allCleaners,
		OnSkip: func(s Skipped) { skips = append(skips, s) }}) {
		if !errors.Is(err, ErrNoDocument) {
			t.Error(err)
		}
	}
	if len(skips) != 1 || !errors.Is(skips[0].Err, ErrNoWords) {
		t.Error(skips)
	}
}

// Whatever the text, cleaning leaves sections, blocks and tables in order and within it, places within the source, and
// a second time changes nothing that the first did not uncover.
func FuzzClean(f *testing.F) {
	for i, s := range []string{"", "• a\n• b\n\n1 T ..... 3\n2 U ..... 4\n3 V ..... 5\n",
		"a — b\u200b \u00a0c\n\n\n----\n\nx", "# Contents\n\n- a\n- b\n- c\n\n# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\ntext text\n", "é\u0301 — \u00ad\n\n<p>x  y</p>"} {
		f.Add(uint8(i), uint8(i), s)
	}
	f.Fuzz(func(t *testing.T, kind, which uint8, text string) {
		if len(text) > 1<<16 {
			t.Skip()
		}
		d := &Document{ID: "d"}
		in := charset.DecodeUTF8(text, nil)
		switch kind % 3 {
		case 0:
			d.Text, d.Offsets = in.Text, in.Map
		case 1:
			if !markdown.Parse(d, in, nil) {
				t.Skip()
			}
		case 2:
			html.Parse(d, in, false, nil)
		}
		list := allCleaners
		if which%7 < 6 {
			list = list[which%7:][:1]
		}
		before := utf8.RuneCountInString(d.Text)
		clean.Document(d, list, nil)
		if !utf8.ValidString(d.Text) || utf8.RuneCountInString(d.Text) > before {
			t.Fatalf("%q", d.Text)
		}
		last := 0
		for _, s := range d.Sections {
			if s.Start < last || s.End < s.Start || s.End > len(d.Text) {
				t.Fatalf("sections %+v of %d bytes", d.Sections, len(d.Text))
			}
			last = s.End
		}
		if !slices.IsSortedFunc(d.Blocks, func(a, b doc.Block) int { return a.Start - b.Start }) {
			t.Fatalf("blocks %+v", d.Blocks)
		}
		for _, b := range d.Blocks {
			if b.End < b.Start || b.End > len(d.Text) {
				t.Fatalf("blocks %+v of %d bytes", d.Blocks, len(d.Text))
			}
		}
		for _, c := range must(chunk.Split(d, ChunkOptions{Size: 16, Overlap: 2, Count: countTokens})) {
			if c.Start < 0 || c.End < c.Start || c.End > len(text) {
				t.Fatalf("%q at %d to %d of %d", c.Text, c.Start, c.End, len(text))
			}
		}
	})
}

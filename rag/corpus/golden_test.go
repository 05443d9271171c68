package corpus

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// TestGolden shows the text, sections and chunks of small files of each kind, with the source bytes
// that each chunk points to.
func TestGolden(t *testing.T) {
	for _, name := range []string{"guide.md", "page.html", "lines.jsonl", "letter.txt", "guests.csv", "harbour.docx",
		"winds.pptx", "prices.xlsx", "lights.odt", "tides.ods", "sea.epub", "greetings.eml", "letters.mbox",
		"tides.pdf"} {
		t.Run(name, func(t *testing.T) {
			path := "testdata/" + name
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			docs, skips := load(t, LoadOptions{}, path)
			var out strings.Builder
			changed := must(os.Stat(path)).ModTime().UTC().Format(time.RFC3339)
			for _, d := range docs {
				if d.Meta[doc.ModifiedKey] == changed { // which a checkout says
					delete(d.Meta, doc.ModifiedKey)
				}
				fmt.Fprintf(&out, "== document %s from %s: title %q topic %q meta %v repaired %d\n", d.ID, d.Source,
					d.Title, d.Topic, d.Meta, d.Repaired)
				fmt.Fprintf(&out, "%s\n", d.Text)
				for _, s := range d.Sections {
					fmt.Fprintf(&out, "-- section %s #%s: %.25q\n", strings.Join(s.Heading, " / "), s.Anchor,
						d.Text[s.Start:s.End])
				}
				o := ChunkOptions{Size: 48, Overlap: 4, MaxTokens: 64, Count: countTokens}
				var dropped []Skipped
				o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
				chunks, err := chunk.Split(d, o)
				if err != nil {
					t.Fatal(err)
				}
				checkChunks(t, d, o, chunks, dropped)
				source := string(source)
				if Converted(path) || d.Line > 0 && strings.HasSuffix(path, ".mbox") {
					source = d.Text
				}
				for _, c := range chunks {
					fmt.Fprintf(&out, "-- chunk %s [%s] #%s, %d tokens, bytes %d to %d\n%s\n.. source: %q\n", c.ID,
						c.Heading, c.Anchor, c.Tokens, c.Start, c.End, c.Text, source[c.Start:c.End])
				}
				for _, s := range dropped {
					fmt.Fprintf(&out, "-- dropped %s: %v\n", s.Source, s.Err)
				}
			}
			for _, s := range skips {
				fmt.Fprintf(&out, "-- skipped %s: %v\n", s.Source, s.Err)
			}
			golden(t, name+".golden", out.String())
		})
	}
}

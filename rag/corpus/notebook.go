package corpus

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
	"github.com/sluice-rag/sluice/rag/corpus/plain"
)

// notebook is the part of a Jupyter notebook that is read.
type notebook struct {
	Cells []struct {
		Kind   string          `json:"cell_type"`
		Source json.RawMessage `json:"source"`
	} `json:"cells"`
}

// parseNotebook reads a Jupyter notebook (.ipynb, nbformat 4) as Markdown, with the code of its cells; the output of
// cells is not read.
func parseNotebook(d *Document, in charset.Text, p *doc.Pulse) error {
	var n notebook
	if err := json.Unmarshal([]byte(in.Text), &n); err != nil {
		return fmt.Errorf("%w: no notebook: %w", ErrFormat, err)
	}
	var text strings.Builder
	for _, c := range n.Cells {
		var lines []string
		if json.Unmarshal(c.Source, &lines) != nil {
			lines = []string{""}
			_ = json.Unmarshal(c.Source, &lines[0]) // any other value is ignored
		}
		source := strings.Join(lines, "")
		if c.Kind == "code" && strings.TrimSpace(source) != "" {
			fence := strings.Repeat("`", max(3, 1+longestRun(source, '`')))
			source = fence + "\n" + source + "\n" + fence
		}
		text.WriteString(source + "\n\n")
	}
	made := charset.Text{Text: text.String()}
	if !markdown.Parse(d, made, p) {
		plain.Parse(d, made, p)
	}
	d.Offsets = nil
	for i := range d.Sections {
		d.Sections[i].Source = d.Sections[i].Start
	}
	return nil
}

// longestRun returns the length of the longest run of a byte in a text.
func longestRun(text string, of byte) (longest int) {
	n := 0
	for i := range len(text) {
		if n++; text[i] != of {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

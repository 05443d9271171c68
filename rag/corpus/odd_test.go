package corpus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// oddCase is the expected content of a file of testdata/odd (odd.py).
type oddCase struct {
	File  string
	What  string
	Text  []string          // pieces in their order
	Never []string          // what must not be there
	Heads map[string]string // headings above a piece
	At    map[string]string // an anchor, or the line of the file
}

// TestOddFiles: the figures of docs/documents.md. Known errors are in its table; a change of any result fails until the
// table is updated (-update).
func TestOddFiles(t *testing.T) {
	var cases []oddCase
	if err := json.Unmarshal(must(os.ReadFile("testdata/odd/expected.json")), &cases); err != nil {
		t.Fatal(err)
	}
	table, total := "| format | file | text | structure | place |\n|---|---|---|---|---|\n", map[string]int{}
	for _, c := range cases {
		path := filepath.Join("testdata/odd", c.File)
		docs, _ := load(t, LoadOptions{}, path)
		text, chunks := "", []Chunk(nil)
		for _, d := range docs {
			text += d.Text + "\n\n"
			chunks = append(chunks, must(chunk.Split(d, ChunkOptions{Size: 64, Count: countTokens}))...)
		}
		row := fmt.Sprintf("| %s | %s |", strings.TrimPrefix(filepath.Ext(c.File), "."), c.What)
		for i, wrong := range []string{c.wrongText(text), c.wrongHeads(docs), c.wrongPlace(t, path, chunks)} {
			total[strconv.Itoa(i)]++
			if wrong == "" {
				total[strconv.Itoa(i)+" right"]++
				row += " right |"
				continue
			}
			row += " wrong |"
			t.Logf("%s: %s", c.File, wrong)
		}
		table += row + "\n"
	}
	table += fmt.Sprintf("| all | %d files | %d right | %d right | %d right |\n", len(cases), total["0 right"],
		total["1 right"], total["2 right"])
	golden(t, "odd/table.md", table)
	t.Log("\n" + table)
}

func (c oddCase) wrongText(text string) string {
	rest := text
	for _, piece := range c.Text {
		i := strings.Index(rest, piece)
		if i < 0 {
			return fmt.Sprintf("%q is not there, or not at its place, in %.300q", piece, text)
		}
		rest = rest[i+len(piece):]
	}
	for _, piece := range c.Never {
		if strings.Contains(text, piece) {
			return fmt.Sprintf("%q is there", piece)
		}
	}
	return ""
}

func (c oddCase) wrongHeads(docs []*Document) string {
	for piece, want := range c.Heads {
		found := false
		for _, d := range docs {
			for _, s := range d.Sections {
				if !strings.Contains(d.Text[s.Start:s.End], piece) {
					continue
				}
				found = true
				if heads := strings.Join(s.Heading, " › "); heads != want {
					return fmt.Sprintf("%q is below %q, not %q", piece, heads, want)
				}
			}
		}
		if !found {
			return fmt.Sprintf("%q is in no section", piece)
		}
	}
	return ""
}

// wrongPlace returns what does not lead to its place: the piece's chunk must have the anchor, or the line among its
// own.
func (c oddCase) wrongPlace(t *testing.T, path string, chunks []Chunk) string {
	for piece, want := range c.At {
		found := false
		for _, x := range chunks {
			if found = strings.Contains(x.Text, piece); !found {
				continue
			}
			line, err := strconv.Atoi(want)
			if err != nil {
				if x.Anchor != want {
					return fmt.Sprintf("%q is at #%s, not %s", piece, x.Anchor, want)
				}
				break
			}
			from, to := Lines(t.Context(), path, x.Start, x.End, x.Text)
			if strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".mbox") {
				from, _ = strconv.Atoi(x.Source[strings.LastIndexByte(x.Source, ':')+1:])
				to = from
			}
			if line < from || line > to {
				return fmt.Sprintf("%q is in lines %d to %d, not %d", piece, from, to, line)
			}
			break
		}
		if !found {
			return fmt.Sprintf("%q is in no chunk", piece)
		}
	}
	return ""
}

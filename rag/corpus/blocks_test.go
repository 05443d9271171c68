package corpus

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/markdown"
)

// cut parses content by the file's name, splits it, and checks what chunk.Split guarantees.
func cut(t *testing.T, name, content string, o ChunkOptions) (*Document, []Chunk) {
	t.Helper()
	docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
	if len(docs) != 1 {
		t.Fatalf("%d documents, %v", len(docs), skips)
	}
	var dropped []Skipped
	o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
	if o.Count == nil {
		o.Count = countTokens
	}
	chunks, err := chunk.Split(docs[0], o)
	if err != nil {
		t.Fatal(err)
	}
	checkChunks(t, docs[0], o, chunks, dropped)
	return docs[0], chunks
}

// fees returns a table of Markdown with so many rows.
func fees(rows int) string {
	var b strings.Builder
	b.WriteString("| Berth | Fee | Note |\n|---|---|---|\n")
	for i := range rows {
		fmt.Fprintf(&b, "| B%d | %d | beside pier %d |\n", i, 10*i, i)
	}
	return b.String()
}

// A table that does not fit a chunk is cut between rows, and each chunk says what its columns are.
func TestLargeTablesRepeatTheirHeader(t *testing.T) {
	source := "# Fees\n\nTable 1: what a berth costs\n\n" + fees(40) + "\nThe fees of last year were lower.\n"
	for _, semantic := range []bool{false, true} {
		o := ChunkOptions{Size: 80, Overlap: 6}
		if semantic {
			o.Semantic = &Semantic{Percentile: 5, Similar: byTopic(nil)}
		}
		_, chunks := cut(t, "fees.md", source, o)
		if len(chunks) < 4 {
			t.Fatalf("%d chunks", len(chunks))
		}
		for i, c := range chunks {
			if !strings.HasPrefix(c.Text, "Table 1: what a berth costs\n") &&
				c.Text != "The fees of last year were lower." ||
				!strings.Contains(c.Text, "\nBerth | Fee | Note\n") && i < len(chunks)-1 {
				t.Errorf("semantic %t: chunk %d begins without the caption and the header:\n%s", semantic, i, c.Text)
			}
			place := source[c.Start:c.End]
			if i > 0 && strings.Contains(place, "Berth") {
				t.Errorf("the place of chunk %d has the header: %q", i, place)
			}
			for line := range strings.Lines(c.Text) {
				if n := strings.Count(line, " | "); strings.HasPrefix(line, "B") && n != 2 {
					t.Errorf("half a row: %q", line)
				}
			}
		}
	}
}

// A table that fits a chunk is in one, with its caption, wherever it stands.
func TestSmallTablesStayWhole(t *testing.T) {
	var rows []string
	for line := range strings.Lines(fees(5)) {
		if !strings.HasPrefix(line, "|-") {
			rows = append(rows, strings.Trim(line, "| \n"))
		}
	}
	table := strings.Join(rows, "\n")
	for words := range 60 {
		before := strings.Repeat("Ships wait outside. ", words/3) + strings.Repeat("Go ", words%3) + "on."
		for _, semantic := range []bool{false, true} {
			o := ChunkOptions{Size: 80, Overlap: 6}
			if semantic {
				o.Semantic = &Semantic{Percentile: 5, Similar: byTopic(nil)}
			}
			_, chunks := cut(t, "a.md", before+"\n\nWhat a berth costs:\n\n"+fees(5)+"\nAll fees are in euros.\n", o)
			found := false
			for _, c := range chunks {
				found = found || strings.Contains(c.Text, "What a berth costs:\n\n"+table)
			}
			if !found {
				t.Fatalf("semantic %t, %d words before: no chunk has the whole table %q:\n%q", semantic, words, table,
					texts(chunks))
			}
		}
	}
}

// A row that is too long for a chunk is cut by cells; each chunk names the columns of the cells that it has.
func TestLongRowsAreCutByCells(t *testing.T) {
	long := strings.Repeat("as far as the pier goes ", 8)
	source := "| Berth | Depth | Remark | Owner |\n|---|---|---|---|\n| A | 3 | short | Ada |\n| B | 4 | " + long +
		" | Bea |\n" +
		"| C | 5 | short | Cora |\n"
	_, chunks := cut(t, "a.md", source, ChunkOptions{Size: 40})
	for _, c := range chunks {
		has := func(s string) bool { return strings.Contains(c.Text, s) }
		if has("as far") && !strings.HasPrefix(c.Text, "Berth | Depth | Remark") &&
			!strings.HasPrefix(c.Text, "Remark") ||
			has("Bea") && !has("Owner") || has("Cora") &&
			!strings.HasPrefix(c.Text, "Berth | Depth | Remark | Owner\n") {
			t.Errorf("cells without the names of their columns:\n%s", c.Text)
		}
	}
	// A row whose cells carry names gets no others.
	_, chunks = cut(t, "a.csv", "Berth,Depth,Remark,Owner\nA,3,short,Ada\nB,4,"+long+",Bea\n", ChunkOptions{Size: 40})
	if last := chunks[len(chunks)-1]; !strings.HasSuffix(last.Text, "Owner: Bea") {
		t.Errorf("%q", last.Text)
	}
}

// Tables of HTML: caption, rows of <th>, cells of several paragraphs. Tables that lay out a page are not tables of
// data.
func TestTablesOfHTML(t *testing.T) {
	var rows strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rows, "<tr><th>B%d<td><p>%d<p>euros</tr>\n", i, i)
	}
	_, chunks := cut(t, "a.html", "<h1>Fees</h1><p>First.<table><caption>By berth</caption><thead><tr><th>Berth<th>Fee"+
		"</thead>"+rows.String()+"</table>", ChunkOptions{Size: 48})
	for i, c := range chunks[1:] {
		if !strings.HasPrefix(c.Text, "By berth\nBerth | Fee\nB") || !strings.HasSuffix(c.Text, "euros") {
			t.Errorf("chunk %d: %q", i+1, c.Text)
		}
	}
	d, _ := cut(t, "b.html", "<table><tr><td><h2>Menu</h2><a>One</a><td>"+strings.Repeat("Prose is here. ", 200)+
		"<table><tr><td>x<td>y<tr><td>1<td>2</table></table>", ChunkOptions{Size: 48})
	if len(d.Tables) != 1 || d.Text[d.Tables[0].Start:d.Tables[0].End] != "x | y\n1 | 2" {
		t.Errorf("tables %+v", d.Tables)
	}
}

// A list of lines without sentences, as Go's api files are, is cut between lines, and little more than counted once.
func TestListsOfLinesAreCutBetweenLines(t *testing.T) {
	source := strings.Repeat("pkg strings, method (*Builder) Grow(int)\n", 2000)
	counted := 0
	_, chunks := cut(t, "api.txt", source, ChunkOptions{Size: 256, Overlap: 2,
		Count: func(s string) (int, error) { counted += len(s); return countTokens(s) }})
	for _, c := range chunks[1:] {
		if !strings.HasSuffix(c.Text, "Grow(int)") {
			t.Fatalf("%q ends within a line", c.Text)
		}
	}
	if most := 4 * len(source); counted > most+len(source) {
		t.Errorf("%d bytes were counted of %d", counted, len(source))
	}
}

const program = `// Package x is short.
package x

// Next returns the next token of the text that is left, or an error.
// It never returns both.
func (p *Parser) Next() (Token, error) {
	if p.at == len(p.text) {
		return Token{}, io.EOF
	}

	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
	if p.text[p.at] == '"' {
		return p.quoted()
	}

	start := p.at
	for p.at < len(p.text) && p.text[p.at] != ' ' {
		p.at++
	}
	return Token{p.text[start:p.at]}, nil
}

// Reset begins again.
func (p *Parser) Reset() {
	p.at = 0
	p.err = nil
}
`

// A block of code is cut at functions and blank lines, and chunks within a function say which one it is.
func TestBlocksOfCodeAreCutAtBlankLines(t *testing.T) {
	_, chunks := cut(t, "a.md", "# Parsing\n\n```go\n"+program+"```\n", ChunkOptions{Size: 96, Overlap: 6})
	if len(chunks) < 2 {
		t.Fatalf("%q", texts(chunks))
	}
	lines := strings.Split(program, "\n")
	for i, c := range chunks {
		first, _, _ := strings.Cut(c.Text, "\n")
		at := -1
		for k, line := range lines {
			if line == first {
				at = k
			}
		}
		if at < 0 || at > 0 && lines[at-1] != "" {
			t.Errorf("chunk %d begins within a line or between lines that belong together: %q", i, first)
		}
		if inside := strings.HasPrefix(first, "\t"); inside != strings.HasPrefix(c.Heading,
			"Parsing › func (p *Parser) Next() (Token, error)") {
			t.Errorf("chunk %d: heading %q above %q", i, c.Heading, first)
		}
	}
}

// checkChunks holds for documents of prose, tables and code in any order and at any size.
func TestStructuredProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"# Heading\n\n", "Some words of prose. And more of them.\n\n",
			fees(3) + "\n",
			fees(25) + "\n", "Table 3: fees\n\n", "```go\n" + program + "```\n\n", "```\nx\n```\n\n",
			"- a list\n- of items\n\n",
			"| a | b |\n|---|---|\n| " + strings.Repeat("long cell | ", 20) + " |\n| c | d |\n\n",
			"| | |\n|---|---|\n| 1 | " + strings.Repeat("xxxxx ", 100) + " |\n| c | d |\n\n",
			"|" + strings.Repeat(" column |", 40) + "\n|" + strings.Repeat("---|", 40) + "\n|" +
				strings.Repeat(" 1 |", 40) +
				"\n|" + strings.Repeat(" 2 |", 40) + "\n\n",
			"<table><tr><td>x<td>y<tr><td><p>1<p>2<td>3</table>\n\n", "e\u0301t\u00e9: ```é```\n\n"})
		d := &Document{ID: "d"}
		text := strings.Join(rapid.SliceOfN(piece, 1, 12).Draw(t, "pieces"), "")
		markdown.Parse(d, charset.DecodeUTF8(text, nil), nil)
		o := ChunkOptions{Size: rapid.IntRange(16, 120).Draw(t, "size"), Count: countTokens}
		o.Overlap = rapid.IntRange(0, o.Size/2).Draw(t, "overlap")
		if rapid.Bool().Draw(t, "greedy") {
			o.Count = greedyCount
		}
		if rapid.Bool().Draw(t, "semantic") {
			o.Semantic = &Semantic{Percentile: 30, Similar: byTopic(nil)}
		}
		var dropped []Skipped
		o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatalf("%v", err)
		}
		checkChunks(t, d, o, chunks, dropped)
	})
}

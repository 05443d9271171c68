package markup

import (
	"strings"

	"github.com/sluice-rag/sluice/rag/corpus/internal/build"
	"github.com/sluice-rag/sluice/rag/corpus/internal/doc"
	"github.com/sluice-rag/sluice/rag/corpus/internal/drawn"
)

// table writes a table that is drawn in the source.
func (r *lightReader) table(t drawn.Table) {
	r.b.BeginTable(build.OpenTable{})
	for i, row := range t.Rows {
		r.b.EndBlock("\n")
		for column, parts := range row {
			if column > 0 {
				r.b.Borders++
			}
			for _, s := range parts {
				r.text(r.src[s.Start:s.End], s.Start)
			}
		}
		r.b.EndBlock("\n")
		r.b.Borders = 0
		r.b.EndRow(i < t.Header)
	}
	r.b.EndTable()
}

// linesTo returns how many lines from one on begin before a byte of the source.
func (r *lightReader) linesTo(i, end int) (n int) {
	for i+n < len(r.lines) && r.starts[i+n] < end {
		n++
	}
	return n
}

// pipeTable reads the lines of a table of Org that begin with "|"; those above the first rule are the header.
func (r *lightReader) pipeTable(i int) (n int) {
	var t drawn.Table
	for ; i+n < len(r.lines); n++ {
		body := strings.TrimSpace(r.lines[i+n])
		if !strings.HasPrefix(body, "|") {
			break
		}
		if strings.HasPrefix(body, "|-") {
			if t.Header == 0 {
				t.Header = len(t.Rows)
			}
			continue
		}
		var row drawn.Row
		at := r.starts[i+n] + strings.Index(r.lines[i+n], body)
		for from := 1; from < len(body); {
			to := len(body)
			if bar := strings.IndexByte(body[from:], '|'); bar >= 0 {
				to = from + bar
			}
			var cell []doc.Span
			if s := (doc.Span{Start: from, End: to}).Trim(body); s.Start < s.End {
				cell = []doc.Span{{Start: at + s.Start, End: at + s.End}}
			}
			row = append(row, cell)
			from = to + 1
		}
		t.Rows = append(t.Rows, row)
	}
	r.table(t)
	return n
}

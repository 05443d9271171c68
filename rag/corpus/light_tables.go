package corpus

import "strings"

// table writes a table that is drawn in the source.
func (r *lightReader) table(t textTable) {
	r.b.beginTable(openTable{})
	for i, row := range t.rows {
		r.b.endBlock("\n")
		for column, parts := range row {
			if column > 0 {
				r.b.borders++
			}
			for _, s := range parts {
				r.text(r.src[s.start:s.end], s.start)
			}
		}
		r.b.endBlock("\n")
		r.b.borders = 0
		r.b.endRow(i < t.header)
	}
	r.b.endTable()
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
	var t textTable
	for ; i+n < len(r.lines); n++ {
		body := strings.TrimSpace(r.lines[i+n])
		if !strings.HasPrefix(body, "|") {
			break
		}
		if strings.HasPrefix(body, "|-") {
			if t.header == 0 {
				t.header = len(t.rows)
			}
			continue
		}
		var row textRow
		at := r.starts[i+n] + strings.Index(r.lines[i+n], body)
		for from := 1; from < len(body); {
			to := len(body)
			if bar := strings.IndexByte(body[from:], '|'); bar >= 0 {
				to = from + bar
			}
			var cell []span
			if s := (span{from, to}).trim(body); s.start < s.end {
				cell = []span{{at + s.start, at + s.end}}
			}
			row = append(row, cell)
			from = to + 1
		}
		t.rows = append(t.rows, row)
	}
	r.table(t)
	return n
}

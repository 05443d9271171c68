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

// barTable reads a table of AsciiDoc, whose cells begin with "|", up to the line that ends it: as many columns as the
// first line has cells. Below an empty line behind the first one, it is the header.
func (r *lightReader) barTable(i int, end string) (n int) {
	var t textTable
	var cells textRow
	columns := 0
	for ; i+n < len(r.lines) && strings.TrimSpace(r.lines[i+n]) != end; n++ {
		line, at := r.lines[i+n], r.starts[i+n]
		if len(line) > longestTabled {
			continue
		}
		for from := 0; from < len(line); {
			to := len(line)
			if bar := strings.IndexByte(line[from:], '|'); bar >= 0 {
				to = from + bar
			}
			s := (span{from, to}).trim(line)
			if to < len(line) { // what stands before a bar may be how the cell is aligned
				if spec := strings.TrimRight(line[s.start:s.end], "<>^.+*0123456789adehlmsv"); spec == "" ||
					strings.HasSuffix(spec, " ") {
					s.end = s.start + len(strings.TrimRight(spec, " "))
				}
			}
			if k := len(cells); k > 0 && s.start < s.end {
				cells[k-1] = append(cells[k-1], span{at + s.start, at + s.end})
			}
			if to < len(line) {
				cells = append(cells, nil)
			}
			from = to + 1
		}
		if columns == 0 && len(cells) > 0 {
			columns = len(cells)
			if i+n+1 < len(r.lines) && r.lines[i+n+1] == "" {
				t.header = 1
			}
		}
	}
	for columns > 0 && len(cells) > 0 {
		k := min(columns, len(cells))
		t.rows, cells = append(t.rows, cells[:k]), cells[k:]
	}
	if t.header = min(t.header, len(t.rows)-1); len(t.rows) > 0 {
		r.table(t)
	}
	return min(n+1, len(r.lines)-i)
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

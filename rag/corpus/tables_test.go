package corpus

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// textOf returns the text of the document that a file of a name and a content becomes, with its headings on lines of
// their own.
func textOf(t *testing.T, name, content string) string {
	t.Helper()
	docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
	if len(docs) != 1 || len(skips) > 0 {
		t.Fatalf("%s: %d documents, skipped %v", name, len(docs), skips)
	}
	return docs[0].Text
}

// TestNamesOfColumns: years and other numbers that count columns are names, and so are names that occur twice; a row of
// data is not.
func TestNamesOfColumns(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"corner", ",2019,2020\nNorth,5,7\nSouth,,9\n", "North | 2019: 5 | 2020: 7\nSouth | 2020: 9"},
		{"gap", "Region,2019,2020,2021\nNorth,5,,7\nSouth,,,9\n",
			"Region: North | 2019: 5 | 2021: 7\nRegion: South | 2021: 9"},
		{"falling", "Land,2021,2015,2010\nChad,1,2,3\n", "Land: Chad | 2021: 1 | 2015: 2 | 2010: 3"},
		{"sizes", "Shoe,36,37,38\nStock,4,,2\n", "Shoe: Stock | 36: 4 | 38: 2"},
		{"only years", "2019,2020\n5,7\n", "2019: 5 | 2020: 7"},
		{"twice", "id,phone,phone\n1,0301,0302\n2,,0402\n",
			"id: 1 | phone: 0301 | phone (2): 0302\nid: 2 | phone (2): 0402"},
		{"lives", "Ada,1815,1852\nCarl,1777,1855\n", "Ada | 1815 | 1852\nCarl | 1777 | 1855"},
		{"counts", "Ada,1,2,3\nCarl,4,5,6\n", "Ada | 1 | 2 | 3\nCarl | 4 | 5 | 6"},
		{"numbers", "1,2,3\n4,,6\n", "1 | 2 | 3\n4 |  | 6"},
		{"answers", "yes,yes,no\nno,,yes\n", "yes | yes | no\nno |  | yes"},
		{"first is empty", "1,2,x\n,,6\n", "1 | 2 | x\n| |  | 6"},
		{"separator", "sep=;\nid;town;price\n1;Arles;3,50\n", "id: 1 | town: Arles | price: 3,50"},
		{"separator in quotes", "\"sep=^\"\r\nid^town\r\n1^Arles\r\n", "id: 1 | town: Arles"},
		{"separators", "sep=size\n4\n", "sep=size: 4"},
		{"carriage returns", "id,name\r1,alpha\r2,beta\r", "id: 1 | name: alpha\nid: 2 | name: beta"},
	} {
		if got := textOf(t, c.name+".csv", c.content); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPlacesOfRows: the lines of a row are found although most words of its text are the names of its columns, and
// where lines end in CR alone; not in a file that has changed.
func TestPlacesOfRows(t *testing.T) {
	for name, content := range map[string]string{
		"wind.csv": "precipitation,temperature,wind\n0.1,12.8,4\n10.9,10.6,5\n0.8,11.7,2\n",
		"cr.csv":   "precipitation,temperature,wind\r0.1,12.8,4\r10.9,10.6,5\r0.8,11.7,2\r",
	} {
		path := write(t, t.TempDir(), name, content)
		docs, _ := load(t, LoadOptions{}, path)
		chunks, err := chunk.Split(docs[0], ChunkOptions{Size: 26, Count: countTokens})
		if err != nil || len(chunks) != 3 {
			t.Fatalf("%d chunks, %v", len(chunks), err)
		}
		for i, c := range chunks {
			if from, to := Lines(context.Background(), path, c.Start, c.End, c.Text); from != i+2 || to != i+2 {
				t.Errorf("%s: row %d is said to be at lines %d to %d", name, i, from, to)
			}
			if !strings.HasPrefix(c.EmbedText(), strings.TrimSuffix(name, ".csv")+"\n") {
				t.Errorf("%q lacks the name of its file", c.EmbedText())
			}
		}
		write(t, "", path, strings.Replace(content, "10.9,10.6,5", "33.3,44.4,7", 1))
		if from, _ := Lines(context.Background(), path, chunks[1].Start, chunks[1].End, chunks[1].Text); from != 0 {
			t.Errorf("%s: a row that has changed is found at line %d", name, from)
		}
	}
}

// TestMergedCells: a cell that covers rows is said in each of them, one that covers columns leaves them empty, and an
// empty cell keeps its place, in each format.
func TestMergedCells(t *testing.T) {
	const want = "Area | Year | Tons\nNorth | 2020 | 11\nNorth | 2021 | 12\nTotal |  | 23\n| | 2022 | 5"
	named := "Area: North | Year: 2020 | Tons: 11\nArea: North | Year: 2021 | Tons: 12\nArea: Total | Tons: 23\n" +
		"Year: 2022 | Tons: 5"
	cell := func(cell, text, p string) string { return "<" + cell + ">" + fmt.Sprintf(p, text) + "</" + cell + ">" }
	word := func(cells ...string) string {
		var row strings.Builder
		for _, c := range cells {
			properties, text, _ := strings.Cut(c, "/")
			if text == "" && properties != "-" && !strings.HasPrefix(properties, "v") {
				properties, text = "-", c
			}
			properties = map[string]string{"-": "", "v": `<w:tcPr><w:vMerge w:val="restart"/></w:tcPr>`,
				"vv": `<w:tcPr><w:vMerge/></w:tcPr>`, "2": `<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>`}[properties]
			row.WriteString("<w:tc>" + properties + "<w:p><w:r><w:t>" + text + "</w:t></w:r></w:p></w:tc>")
		}
		return "<w:tr>" + row.String() + "</w:tr>"
	}
	open := func(name string) string {
		var rows strings.Builder
		for _, row := range [][]string{{"Area", "Year", "Tons"}, {"+North", "2020", "11"}, {"-", "2021", "12"},
			{">Total", "-", "23"}, {"", "2022", "5"}} {
			rows.WriteString("<table:table-row>")
			for _, c := range row {
				element := "table:table-cell"
				switch {
				case c == "-":
					element, c = "table:covered-table-cell", ""
				case strings.HasPrefix(c, "+"):
					c = c[1:]
					rows.WriteString(`<table:table-cell table:number-rows-spanned="2"><text:p>` + c +
						"</text:p></table:table-cell>")
					continue
				case strings.HasPrefix(c, ">"):
					c = c[1:]
					rows.WriteString(`<table:table-cell table:number-columns-spanned="2"><text:p>` + c +
						"</text:p></table:table-cell>")
					continue
				}
				rows.WriteString(cell(element, c, "<text:p>%s</text:p>"))
			}
			rows.WriteString("</table:table-row>")
		}
		return zipped(t, "content.xml", "<office:document-content>"+fmt.Sprintf(name,
			`<table:table table:name="S">`+rows.String()+"</table:table>")+"</office:document-content>")
	}
	slide := func(rows ...[]string) string {
		var b strings.Builder
		for _, row := range rows {
			b.WriteString("<a:tr>")
			for _, c := range row {
				merged := map[string]string{"^": ` vMerge="1"`, "<": ` hMerge="1"`}[c]
				fmt.Fprintf(&b, "<a:tc%s><a:p><a:t>%s</a:t></a:p></a:tc>", merged, strings.Trim(c, "^<"))
			}
			b.WriteString("</a:tr>")
		}
		return zipped(t, "ppt/presentation.xml", `<sldId r:id="a"/>`, "ppt/_rels/presentation.xml.rels",
			`<Relationship Id="a" Target="s.xml"/>`, "ppt/s.xml", "<a:tbl>"+b.String()+"</a:tbl>")
	}
	rows := ""
	for i, row := range [][]string{{"Area", "Year", "Tons"}, {"North", "2020", "11"}, {"", "2021", "12"},
		{"Total", "", "23"}, {"", "2022", "5"}} {
		rows += fmt.Sprintf(`<row r="%d">`, i+1)
		for j, c := range row {
			if c != "" {
				rows += fmt.Sprintf(`<c r="%c%d" t="str"><v>%s</v></c>`, 'A'+j, i+1, c)
			}
		}
		rows += "</row>"
	}
	for name, c := range map[string]struct{ content, want string }{
		"a.html": {"<table><tr><th>Area<th>Year<th>Tons<tr><td rowspan=2>North<td>2020<td>11<tr><td>2021<td>12" +
			"<tr><td colspan=2>Total<td>23<tr><td><td>2022<td>5</table>", want},
		"a.docx": {zipped(t, "word/document.xml", "<w:tbl>"+word("Area", "Year", "Tons")+word("v/North", "2020", "11")+
			word("vv/", "2021", "12")+word("2/Total", "23")+word("-/", "2022", "5")+"</w:tbl>"), want},
		"a.odt": {open("<office:text>%s</office:text>"), want},
		"a.ods": {open("<office:spreadsheet>%s</office:spreadsheet>"), named},
		"a.pptx": {slide([]string{"Area", "Year", "Tons"}, []string{"North", "2020", "11"}, []string{"^", "2021", "12"},
			[]string{"Total", "<", "23"}, []string{"", "2022", "5"}), want},
		"a.xlsx": {sheet(t, rows+`</sheetData><mergeCells><mergeCell ref="A2:A3"/><mergeCell ref="A4:B4"/></mergeCells>`),
			named},
		"a.md": {"|Area|Year|Tons|\n|-|-|-|\n|North|2020|11|\n|North|2021|12|\n|Total||23|\n||2022|5|\n", want},
	} {
		if got := textOf(t, name, c.content); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	// A block that covers rows and columns, at the end of rows, and a first column that goes on.
	got := textOf(t, "b.html", "<table><tr><td rowspan=3>a<td>b<td rowspan=2 colspan=2>c<td>d<tr><td>e<td>f<tr><td>g<td>h<td>i"+
		"<td rowspan=0>j<tr><td>k<td>l<td>m<td>n</table>")
	if want := "a | b | c |  | d\na | e | c |  | f\na | g | h | i | j\nk | l | m | n | j"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRepeatedCells: a cell and a row of an OpenDocument sheet that are there several times.
func TestRepeatedCells(t *testing.T) {
	content := func(rows string) string {
		return zipped(t, "content.xml", `<office:spreadsheet><table:table table:name="Goals">`+rows+`</table:table>`+
			`</office:spreadsheet>`)
	}
	text := func(text, more string) string {
		return "<table:table-cell " + more + "><text:p>" + text + "</text:p></table:table-cell>"
	}
	got := textOf(t, "a.ods", content("<table:table-row>"+text("Team", "")+text("Home", "")+text("Away", "")+
		text("Cup", "")+`</table:table-row><table:table-row table:number-rows-repeated="2">`+text("Reds", "")+
		text("3", `table:number-columns-repeated="3"`)+`</table:table-row>`+
		`<table:table-row table:number-rows-repeated="1048576">`+
		`<table:table-cell table:number-columns-repeated="16384"/></table:table-row>`))
	if want := strings.TrimSpace(strings.Repeat("Team: Reds | Home: 3 | Away: 3 | Cup: 3\n", 2)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	many := textOf(t, "b.ods", content(`<table:table-row table:number-rows-repeated="1048576">`+
		text("words", `table:number-columns-repeated="16384"`)+"</table:table-row>"))
	if len(many) < 1000 || len(many) > 100_000 {
		t.Errorf("%d bytes are made of a cell", len(many))
	}
}

// TestRepeatsAreLinear: the text that small cells cover stays in proportion to the input.
func TestRepeatsAreLinear(t *testing.T) {
	long := strings.Repeat("word ", 100)
	wide := `<table:table-row><table:table-cell table:number-rows-spanned="9999"><text:p>` + long +
		"</text:p></table:table-cell></table:table-row>"
	for _, c := range []struct {
		name string
		in   doubling.Input
		pack func(string) string
	}{
		{"a.html", doubling.Input{Head: "<table><tr>", Unit: "<td rowspan=0>a", Second: "<tr><td>b"}, nil},
		{"b.html", doubling.Input{Head: "<table><tr><td rowspan=9999>" + long, Unit: "<tr><td>b"}, nil},
		{"c.html", doubling.Repeat("<table><tr><td colspan=9999 rowspan=9999>a<td>b"), nil},
		{"a.docx", doubling.Input{Head: `<w:tbl><w:tr><w:tc><w:vMerge w:val="restart"/><w:p><w:t>` + long +
			"</w:t></w:p></w:tc></w:tr>", Unit: `<w:tr><w:tc><w:vMerge/></w:tc></w:tr>`}, func(s string) string {
			return zipped(t, "word/document.xml", s)
		}},
		{"a.ods", doubling.Input{Head: "<office:spreadsheet><table:table>" + wide,
			Unit: "<table:table-row><table:covered-table-cell/></table:table-row>"}, func(s string) string {
			return zipped(t, "content.xml", s)
		}},
		{"a.odt", doubling.Input{Head: "<office:text><table:table>" + wide,
			Unit: "<table:table-row><table:covered-table-cell/></table:table-row>"}, func(s string) string {
			return zipped(t, "content.xml", s)
		}},
		{"a.xlsx", doubling.Input{Unit: `<row><c t="str"><v>a</v></c></row>`,
			Middle: "</sheetData><mergeCells>", Second: `<mergeCell ref="A1:A9999"/>`}, func(s string) string {
			return sheet(t, s)
		}},
		{"a.pptx", doubling.Input{Head: "<a:tbl><a:tr><a:tc><a:p><a:t>" + long + "</a:t></a:p></a:tc></a:tr>",
			Unit: `<a:tr><a:tc vMerge="1"/></a:tr>`}, func(s string) string {
			return zipped(t, "ppt/presentation.xml", `<sldId r:id="a"/>`, "ppt/_rels/presentation.xml.rels",
				`<Relationship Id="a" Target="s.xml"/>`, "ppt/s.xml", s)
		}},
		{"a.csv", doubling.Input{Head: "a,a\n", Unit: ",", Second: "b\n"}, nil},
	} {
		doubling.Linear(t, c.in, func(text string) int {
			if c.pack != nil {
				text = c.pack(text)
			}
			docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), c.name, text))
			return len(docs[0].Text)
		})
	}
}

// TestHeadersOfTwoRows: cells of a first row that stand above several columns of a second one are part of their names.
// A title above a header is not, and rows of data below one header are no second one.
func TestHeadersOfTwoRows(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"2023,2023,2024\nQ1,Q2,Q1\n1,2,3\n", "2023 Q1: 1 | 2023 Q2: 2 | 2024 Q1: 3"},
		{",2023,,2024,\nRegion,Q1,Q2,Q1,Q2\nNorth,1,2,,4\n",
			"Region: North | 2023 Q1: 1 | 2023 Q2: 2 | 2024 Q2: 4"},
		{"Region,2023,,2024\n,Q1,Q2,Q1\nNorth,1 t,-,3 %\n",
			"Region: North | 2023 Q1: 1 t | 2023 Q2: - | 2024 Q1: 3 %"},
		{"Area,Sales,,Cost,\nArea,2022,2023,2022,2023\nN,5,6,7,8",
			"Area: N | Sales 2022: 5 | Sales 2023: 6 | Cost 2022: 7 | Cost 2023: 8"},
		{"Sales,,,\nof ships,,,\nPort,2022,2023,Sum\nOslo,1,2,3",
			"Sales\nof ships\nPort: Oslo | 2022: 1 | 2023: 2 | Sum: 3"},
		{"Fees\nBerth,Fee\nA,30\nB,40\n", "Fees\nBerth: A | Fee: 30\nBerth: B | Fee: 40"},
		{"Fees,\nBerth,Fee\nA,30\n", "Fees\nBerth: A | Fee: 30"},
		{"Fees\n,,\n \nBerth,Fee,Sum\n,,\nA,30,40\n", "Fees\nBerth: A | Fee: 30 | Sum: 40"},
		{"Staff,,\nName,Town,Role\nAnna,Rome,Cook\n", "Staff\nName: Anna | Town: Rome | Role: Cook"},
		{"Sum,,\n,2022,,2023,\nPort,Q1,Q2,Q1,Q2\nOslo,1,2,3,4",
			"Sum\nPort: Oslo | 2022 Q1: 1 | 2022 Q2: 2 | 2023 Q1: 3 | 2023 Q2: 4"},
		// one header row
		{"Name,City,\nAnna,Berlin,late\nBen,Paris,12\n",
			"Name: Anna | City: Berlin | late\nName: Ben | City: Paris | 12"},
		{"Name,\nAnna,x\nBen,y\n", "Name: Anna | x\nName: Ben | y"},
		{"id,phone,phone\n1,0301,0302\n2,0401,0402\n",
			"id: 1 | phone: 0301 | phone (2): 0302\nid: 2 | phone: 0401 | phone (2): 0402"},
		{"Town,from,from\nRome,2001,2002\nOslo,2003,2004",
			"Town: Rome | from: 2001 | from (2): 2002\nTown: Oslo | from: 2003 | from (2): 2004"},
		{"a\nb\nc\nd\n5\n6\n7\n8\n", "a\nb\nc\nd\n5\n6\n7\n8"},
	} {
		if got := strings.TrimSpace(textOf(t, "a.csv", c.content)); got != c.want {
			t.Errorf("%q is read as %q, want %q", c.content, got, c.want)
		}
	}
	ods := `<office:document-content><office:body><office:spreadsheet><table:table table:name="S"><table:table-row>` +
		`<table:table-cell/><table:table-cell table:number-columns-spanned="2"><text:p>2023</text:p></table:table-cell>` +
		`<table:covered-table-cell/><table:table-cell><text:p>2024</text:p></table:table-cell></table:table-row>` +
		`<table:table-row>`
	for _, c := range []string{"Port", "Q1", "Q2", "Q1"} {
		ods += `<table:table-cell><text:p>` + c + `</text:p></table:table-cell>`
	}
	ods += `</table:table-row><table:table-row>`
	for _, c := range []string{"Oslo", "1", "2", "3"} {
		ods += `<table:table-cell><text:p>` + c + `</text:p></table:table-cell>`
	}
	ods += `</table:table-row></table:table></office:spreadsheet></office:body></office:document-content>`
	if got, want := strings.TrimSpace(textOf(t, "a.ods", zipped(t, "content.xml", ods))),
		"Port: Oslo | 2023 Q1: 1 | 2023 Q2: 2 | 2024 Q1: 3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// Other formats repeat both rows in each chunk, which a quote shows above its row.
	html := "<table><tr><td rowspan=2>Port<td colspan=2>2023<td colspan=2>2024<tr><td>Q1<td>Q2<td>Q1<td>Q2" +
		strings.Repeat("<tr><td>Oslo<td>1<td>2<td>3<td>4", 30) + "</table>"
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.html", html))
	chunks, err := chunk.Split(docs[0], ChunkOptions{Size: 100, Overlap: 1, Count: countTokens})
	if err != nil || len(chunks) < 3 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	for _, c := range chunks {
		if !strings.HasPrefix(c.EmbedText(), "Port | 2023 |  | 2024\nPort | Q1 | Q2 | Q1 | Q2\nOslo") {
			t.Errorf("%q", c.EmbedText())
		}
	}
}

// TestCellsSideBySide: chunks of a drawn table, whose cells have several lines side by side, lie in the source.
func TestCellsSideBySide(t *testing.T) {
	var b strings.Builder
	b.WriteString("+----------------+----------------+\n")
	for i := range 40 {
		fmt.Fprintf(&b, "| Ship %02d came.  | Boat %02d left.  |\n", i, i)
	}
	b.WriteString("+----------------+----------------+\n")
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.rst", b.String()))
	for _, size := range []int{24, 64, 128} {
		chunks, err := chunk.Split(docs[0], ChunkOptions{Size: size, Overlap: 3, Count: countTokens})
		if err != nil || len(chunks) < 2 {
			t.Fatal(len(chunks), err)
		}
		checkRanges(t, chunks, b.Len())
		for _, c := range chunks {
			for word := range strings.FieldsSeq(c.Text) {
				if !strings.Contains(b.String()[c.Start:c.End], word) {
					t.Errorf("%q is not in the source from %d to %d", word, c.Start, c.End)
				}
			}
		}
	}
}

// TestSheetValues: numbers by the styles of their cells, built-in formats too; escaped characters of texts; the file's
// name is the title.
func TestSheetValues(t *testing.T) {
	styles := `<styleSheet><numFmts><numFmt numFmtId="165" formatCode="[h]:mm"/><numFmt numFmtId="166" formatCode="00000"/>` +
		`</numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="165"/>` +
		`<xf numFmtId="166"/><xf numFmtId="10"/><xf numFmtId="14"/></cellXfs></styleSheet>`
	rows := `<row><c t="inlineStr"><is><t>Task</t></is></c><c t="inlineStr"><is><t>Hours</t></is></c><c t="inlineStr"><is>` +
		`<t>Zip</t></is></c><c t="inlineStr"><is><t>Rate</t></is></c><c t="inlineStr"><is><t>Day</t></is></c></row>` +
		`<row><c t="inlineStr"><is><t>a_x000D_b _x0041_ _x005F_x0041_ _xD83D__xDE00_</t></is></c><c s="1"><v>1.510416666666667</v></c>` +
		`<c s="2"><v>501</v></c><c s="3"><v>0.075</v></c><c s="4"><v>59</v></c></row>`
	path := write(t, t.TempDir(), "log.xlsx", zipped(t, "xl/workbook.xml", workbook,
		"xl/_rels/workbook.xml.rels", workRels,
		"xl/styles.xml", styles, "xl/worksheets/s.xml", fmt.Sprintf(sheetText, rows)))
	docs, skips := load(t, LoadOptions{}, path)
	if len(docs) != 1 {
		t.Fatal(skips)
	}
	want := "Task: a b A _x0041_ \U0001F600 | Hours: 36:15 | Zip: 00501 | Rate: 7.50% | Day: 1900-02-28"
	if docs[0].Text != want || docs[0].Title != "log" {
		t.Errorf("%q: %q, want %q", docs[0].Title, docs[0].Text, want)
	}
	h := docs[0].Sections[len(docs[0].Sections)-1]
	if strings.Join(h.Heading, "/") != "log/One" || h.Anchor != "sheet=One" {
		t.Errorf("%+v", h)
	}
}

package corpus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// TestReadAsShown: tables, sheets and messages that other readers misread, with the right result (testdata/cases).
func TestReadAsShown(t *testing.T) {
	for name, want := range map[string]string{
		"corner_years.csv": "North | 2019: 5 | 2020: 7\nSouth | 2020: 9",
		"cr.csv":           "id: 1 | name: alpha\nid: 2 | name: beta",
		"dupcols.csv": "id: 1 | phone: 0301 | phone (2): 0302 | phone (3): 0303\n" +
			"id: 2 | phone: 0401 | phone (3): 0403",
		"sepline.csv":   "id: 1 | town: Arles | price: 3,50\nid: 2 | town: Nice | price: 4,25",
		"years_gap.csv": "Region: North | 2019: 5 | 2021: 7\nRegion: South | 2021: 9",
		"goals.ods": "Team: Reds | Home: 3 | Away: 3 | Cup: 3\nTeam: Blues | Home: 1 | Away: 4 | Cup: 4\n" +
			"Team: Greens | Home: 2 | Away: 2 | Cup: 7",
		"merged.ods": "Area: North | Year: 2020 | Tons: 11\nArea: North | Year: 2021 | Tons: 12\n" +
			"Area: Share | Year: 25% | Tons: 9,50 €",
		"merged.xlsx": "Area: North | Year: 2020 | Tons: 11\nArea: North | Year: 2021 | Tons: 12\n" +
			"Area: North | Year: 2022 | Tons: 13\nArea: South | Year: 2020\nTons: 9",
		"years_gap.xlsx": "Region: North | 2019: 5 | 2021: 7\nRegion: South | 2021: 9",
		"opx.xlsx": "Task: Painting | Hours: 36:15 | Zip: 00501 | Card: 4006381333931 | Price: 1,250.50 EUR | Rate: 7.5%\n" +
			"Task: Fixing | Hours: 7:30 | Zip: 02134 | Card: 1234567890123456 | Price: 99.00 EUR | Rate: 50.0%",
		"phonetic.xlsx": "名前: 東京 | 値: a b A _x0041_",
		"pydocx_merge.docx": "Sales by region\n\nRegion | Product | Units\nEU | Cable | 12\n" +
			"EU | Hub | 7\nUS | Cable | 3",
		"rowspan.html": "Area | Q1 | Q2\nNorth | 1 | 2\nNorth | 3 | 4\nSouth total |  | 9",
		"flowed.eml":   "The harbour master is awake.Next.\n\nFixed line\nother line",
		"two.mbox": "First body\nFrom here on it goes.\n>>From deeper\n---\nSecond body\n\n" +
			"From the harbour we saw boats. This line is text.\n\nMore text of two.\n---\nthird",
	} {
		docs, skips := load(t, LoadOptions{}, filepath.Join("testdata/cases", name))
		var texts []string
		for _, d := range docs {
			texts = append(texts, strings.TrimSpace(d.Text))
		}
		if got := strings.Join(texts, "\n---\n"); got != want || len(skips) > 0 {
			t.Errorf("%s: %q, want %q; skipped %v", name, got, want, skips)
		}
	}
}

// TestEachChunkHasTheHeader: every row of every chunk of a long table has the names of its columns (years_big.csv).
func TestEachChunkHasTheHeader(t *testing.T) {
	docs, _ := load(t, LoadOptions{}, "testdata/cases/years_big.csv")
	chunks, err := chunk.Split(docs[0], ChunkOptions{Size: 100, Overlap: 1, Count: countTokens})
	if err != nil || len(chunks) < 5 {
		t.Fatalf("%d chunks, %v", len(chunks), err)
	}
	content := string(must(os.ReadFile("testdata/cases/years_big.csv")))
	names, rest, _ := strings.Cut(content, "\n")
	var found []string
	for _, c := range chunks {
		for line := range strings.Lines(c.Text) {
			if line = strings.TrimSpace(line); len(found) == 0 || found[len(found)-1] != line {
				found = append(found, line)
			}
		}
	}
	for i, row := range strings.Split(strings.TrimSpace(rest), "\n") {
		var want []string
		for k, cell := range strings.Split(strings.TrimSpace(row), ",") {
			want = append(want, strings.Split(strings.TrimSpace(names), ",")[k]+": "+cell)
		}
		if i >= len(found) || found[i] != strings.Join(want, " | ") {
			t.Fatalf("row %d of %d: %q", i, len(found), want)
		}
	}
}

// TestReadAsShownElsewhere: the same faults in other shapes.
func TestReadAsShownElsewhere(t *testing.T) {
	cell := func(properties, text string) string {
		return `<w:tc><w:tcPr>` + properties + `</w:tcPr><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:tc>`
	}
	word := `<w:document><w:body><w:tbl><w:tr>` + cell("", "Ship") + cell(`<w:gridSpan w:val="2"/>`, "Fees") +
		cell("", "Berth") + `</w:tr><w:tr>` + cell(`<w:vMerge w:val="restart"/>`, "Aurora") + cell("", "3") +
		cell("", "4") + cell("", "A") + `</w:tr><w:tr>` +
		cell(`<w:vMerge/>`, "") + cell("", "") + cell("", "5") + cell("", "B") +
		`</w:tr></w:tbl></w:body></w:document>`
	for _, c := range []struct{ name, content, want string }{
		{"a.tsv", "Month\t2\t4\t6\nRain\t1\t\t3\nSnow\t\t\t9\n", "Month: Rain | 2: 1 | 6: 3\nMonth: Snow | 6: 9"},
		{"b.csv", "sep=|\r\nid|a,b\r\n1|x,y\r\n", "id: 1 | a,b: x,y"},
		{"a.docx", zipped(t, "word/document.xml", word),
			"Ship | Fees |  | Berth\nAurora | 3 | 4 | A\nAurora |  | 5 | B"},
		{"a.html", "<table><thead><tr><th>Port<th colspan=2>Depth<tbody><tr><td rowspan=0>Oslo<td>4<td>5<tr><td><td>7" +
			"<tbody><tr><td>Bergen<td>8<td>9</table>",
			"Port | Depth\nOslo | 4 | 5\nOslo |  | 7\nBergen | 8 | 9"},
		{"b.eml", "Subject: a\nContent-Type: text/plain; format=flowed; delsp=yes\n\n>> Fog in the har \n>> bour\n> Since \n" +
			"> when?\n -- \n From here on.\n", ">> Fog in the harbour\n> Sincewhen?\n--\nFrom here on."},
		{"b.ipynb", `{"cells":[{"cell_type":"raw","source":"---"},{"cell_type":"markdown","source":["## Wind\n","\n","It turns."]},` +
			`{"cell_type":"code","source":["x = 1\n","x"],"outputs":[{"text":["not this"]}]}]}`, "It turns.\n\nx = 1\nx"},
	} {
		got := strings.TrimSpace(textOf(t, c.name, c.content))
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

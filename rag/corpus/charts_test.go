package corpus

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// barChart is a chart as PowerPoint 2013 writes it, but for what does not concern its text: rates of two series over
// three quarters, of which one lacks a number.
const barChart = `<c:chartSpace><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>%s of </a:t></a:r><a:r><a:t>boats</a:t>` +
	`</a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart>` +
	`<c:ser><c:idx val="0"/><c:tx><c:strRef><c:f>Sheet1!$B$1</c:f><c:strCache><c:ptCount val="1"/><c:pt idx="0"><c:v>North</c:v>` +
	`</c:pt></c:strCache></c:strRef></c:tx><c:dLbls><c:dLbl><c:tx><c:rich><a:p><a:t>a label</a:t></a:p></c:rich></c:tx></c:dLbl>` +
	`</c:dLbls><c:cat>` + quarters + `</c:cat><c:val><c:numRef><c:f>Sheet1!$B$2:$B$4</c:f><c:numCache>` +
	`<c:formatCode>0%%</c:formatCode><c:ptCount val="3"/><c:pt idx="0"><c:v>0.25</c:v></c:pt>` +
	`<c:pt idx="2" formatCode="General"><c:v>4.4000000000000004</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>` +
	`<c:ser><c:tx><c:v>South</c:v></c:tx><c:cat>` + quarters + `</c:cat><c:val><c:numLit><c:pt idx="1"><c:v>7</c:v>` +
	`</c:pt></c:numLit></c:val></c:ser></c:barChart>` +
	`<c:catAx><c:title><c:tx><c:rich><a:p><a:t>Quarter</a:t></a:p></c:rich></c:tx></c:title></c:catAx>` +
	`<c:valAx><c:title><c:tx><c:rich><a:p><a:t>per cent</a:t></a:p></c:rich></c:tx></c:title></c:valAx>` +
	`</c:plotArea></c:chart></c:chartSpace>`

const quarters = `<c:strRef><c:f>Sheet1!$A$2:$A$4</c:f><c:strCache><c:ptCount val="3"/><c:pt idx="0"><c:v>Q1</c:v></c:pt>` +
	`<c:pt idx="1"><c:v>Q2</c:v></c:pt><c:pt idx="2"><c:v>Q3</c:v></c:pt></c:strCache></c:strRef>`

const (
	chartFrame = `<p:graphicFrame><a:graphic><a:graphicData><c:chart r:id="c"/></a:graphicData></a:graphic></p:graphicFrame>`
	chartRels  = `<Relationships><Relationship Id="c" Target="charts/c.xml"/><Relationship Id="d" Target="d.xml"/></Relationships>`
)

// withSlide returns a presentation of one slide, and further parts.
func withSlide(t testing.TB, slide string, parts ...string) string {
	return zipped(t, append([]string{"ppt/presentation.xml", `<sldId r:id="a"/>`, "ppt/_rels/presentation.xml.rels",
		`<Relationship Id="a" Target="slides/s.xml"/>`, "ppt/slides/s.xml", slide,
		"ppt/slides/_rels/s.xml.rels", chartRels}, parts...)...)
}

func withChart(t testing.TB, chart string) string {
	return withSlide(t, chartFrame, "ppt/slides/charts/c.xml", chart)
}

// TestCharts: charts are tables of the numbers that they show, under their titles; two in a row stay apart.
func TestCharts(t *testing.T) {
	const table = "(per cent)\n\nQuarter | North | South\nQ1 | 25%\nQ2 |  | 7\nQ3 | 4.4"
	bars := fmt.Sprintf(barChart, "Rates")
	scatter := `<c:scatterChart><c:ser><c:tx><c:v>A</c:v></c:tx><c:xVal><c:numLit><c:pt idx="0"><c:v>1.5</c:v></c:pt></c:numLit>` +
		`</c:xVal><c:yVal><c:numLit><c:pt idx="0"><c:v>2</c:v></c:pt></c:numLit></c:yVal></c:ser>` +
		`<c:ser><c:tx><c:v>B</c:v></c:tx><c:xVal><c:numLit><c:pt idx="0"><c:v>9</c:v></c:pt></c:numLit></c:xVal>` +
		`<c:yVal><c:numLit><c:pt idx="0"><c:v>3</c:v></c:pt></c:numLit></c:yVal></c:ser></c:scatterChart>` +
		`<c:valAx><c:title><a:t>Depth</a:t></c:title></c:valAx><c:valAx><c:title><a:t>Speed</a:t></c:title></c:valAx>`
	dates := `<c:date1904 val="0"/><c:ser><c:cat><c:numRef><c:numCache><c:formatCode>m/d/yyyy</c:formatCode><c:pt idx="0">` +
		`<c:v>37261</c:v></c:pt></c:numCache></c:numRef></c:cat><c:val><c:numLit><c:pt idx="0"><c:v>32</c:v></c:pt>` +
		`<c:pt idx="1"><c:v>#N/A</c:v></c:pt></c:numLit></c:val></c:ser>`
	levels := `<c:ser><c:tx><c:v>Area</c:v></c:tx><c:cat><c:multiLvlStrRef><c:multiLvlStrCache><c:lvl><c:pt idx="0"><c:v>Lund</c:v>` +
		`</c:pt><c:pt idx="1"><c:v>Ystad</c:v></c:pt></c:lvl><c:lvl><c:pt idx="0"><c:v>Skåne</c:v></c:pt></c:lvl>` +
		`</c:multiLvlStrCache></c:multiLvlStrRef></c:cat><c:val><c:numLit><c:pt idx="0"><c:v>26</c:v></c:pt>` +
		`<c:pt idx="1"><c:v>9</c:v></c:pt></c:numLit></c:val></c:ser>`
	diagram := `<dgm:dataModel><dgm:pt><dgm:t><a:p><a:r><a:t>Mow</a:t></a:r></a:p><a:p><a:r><a:t>Rake</a:t></a:r></a:p></dgm:t>` +
		`</dgm:pt><dgm:pt type="pres"/></dgm:dataModel>`
	word := func(body string) string {
		return zipped(t, "word/document.xml", "<w:body>"+body+"</w:body>", "word/_rels/document.xml.rels", chartRels,
			"word/charts/c.xml", bars, "word/d.xml", diagram)
	}
	const drawing = `<w:r><w:drawing><a:graphicData><c:chart r:id="c"/></a:graphicData></w:drawing></w:r>`
	openChart := `<office:chart><chart:chart><chart:title><text:p>Rates</text:p></chart:title><chart:plot-area>` +
		`<chart:label-separator><text:p>; </text:p></chart:label-separator></chart:plot-area><table:table><table:table-row>` +
		`<table:table-cell><text:p/></table:table-cell><table:table-cell><text:p>North</text:p></table:table-cell>` +
		`</table:table-row><table:table-row><table:table-cell><text:p>Q1</text:p><text:list><text:list-item><text:p>Q1</text:p>` +
		`</text:list-item></text:list></table:table-cell><table:table-cell><text:p>0.25</text:p></table:table-cell>` +
		`</table:table-row></table:table></chart:chart></office:chart>`
	const object = `<draw:frame><draw:object xlink:href="./Object 1"/><draw:image/></draw:frame>`
	for _, c := range []struct{ name, content, want string }{
		{"bars.pptx", withChart(t, bars), "Rates of boats " + table},
		{"two.pptx", withSlide(t, chartFrame+chartFrame, "ppt/slides/charts/c.xml", levels),
			"| | Area\nSkåne Lund | 26\nSkåne Ystad | 9\n\n| | Area\nSkåne Lund | 26\nSkåne Ystad | 9"},
		{"scatter.pptx", withChart(t, scatter), "Speed\n\nDepth | A\n1.5 | 2\n\nDepth | B\n9 | 3"},
		{"dates.pptx", withChart(t, dates), "2002-01-05 | 32\n2 | #N/A"},
		{"diagram.pptx", withSlide(t, `<dgm:relIds r:dm="d"/>`, "ppt/slides/d.xml", diagram), "Mow\n\nRake"},
		{"a.docx", word("<w:p><w:t>See</w:t>" + drawing + "<w:t>here.</w:t></w:p><w:p><w:t>End.</w:t></w:p>"),
			"Seehere.\n\nRates of boats " + table + "\n\nEnd."},
		{"cell.docx", word("<w:tbl><w:tr><w:tc><w:p><w:t>See</w:t></w:p></w:tc><w:tc><w:p>" + drawing +
			"</w:p></w:tc></w:tr></w:tbl>"), "See | " + strings.Join(strings.Fields("Rates of boats "+table), " ")},
		{"a.odt", zipped(t, "content.xml",
			"<office:text><text:p>See"+object+" here.</text:p><text:p>End.</text:p></office:text>",
			"Object 1/content.xml", openChart), "See here.\n\nRates\n\n| | North\nQ1 | 0.25\n\nEnd."},
		{"a.odp", zipped(t, "content.xml", "<office:presentation><draw:page>"+object+
			`<draw:frame presentation:class="title"><text:p>Harbour</text:p></draw:frame></draw:page></office:presentation>`,
			"Object 1/content.xml", openChart), "Rates\n\n| | North\nQ1 | 0.25"},
	} {
		if got := textOf(t, c.name, c.content); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
	docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), "broken.pptx", withSlide(t,
		`<a:p><a:t>words</a:t></a:p>`+chartFrame, "ppt/slides/charts/c.xml", "<c:ser><")))
	if len(docs) != 1 || docs[0].Text != "words" || len(skips) != 1 || !errors.Is(skips[0].Err, ErrFormat) {
		t.Errorf("beside a broken chart: %v, %v", docs, skips)
	}
}

// TestHostileCharts: a small chart of many series, each with a label of its own, is refused before it makes a large
// table; not all charts of any number that are missing are noted; a document that contains itself is read once.
func TestHostileCharts(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, `<c:ser><c:val><c:pt idx="%d"><c:v>1</c:v></c:pt></c:val></c:ser>`, i)
	}
	dir := t.TempDir()
	path := write(t, dir, "a.pptx", withChart(t, b.String()))
	for d, err := range Load(t.Context(), []string{path}, LoadOptions{}) {
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v, %v", d, err)
		}
	}
	_, skips := load(t, LoadOptions{}, write(t, dir, "b.pptx",
		withSlide(t, "<a:p><a:t>words</a:t></a:p>"+strings.Repeat(chartFrame, 2000))))
	if len(skips) != 1000 {
		t.Errorf("%d of %d missing charts are said to be", len(skips), 2000)
	}
	got := textOf(t, "a.odt", zipped(t, "content.xml", `<office:text><text:p>words`+
		`<draw:object xlink:href="."/><draw:object xlink:href="../a"/><draw:object xlink:href="b"/></text:p></office:text>`,
		"b/content.xml", `<office:text><text:p>more<draw:object xlink:href="b"/></text:p></office:text>`))
	if got != "words\n\nmore" {
		t.Errorf("%q", got)
	}
}

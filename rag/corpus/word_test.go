package corpus

import (
	"strings"
	"testing"
)

// body returns a Word document with a text and further parts.
func body(t *testing.T, text string, parts ...string) string {
	return zipped(t, append([]string{"word/document.xml", `<w:document><w:body>` + text}, parts...)...)
}

// wordParagraph returns a paragraph with a text and properties.
func wordParagraph(text, properties string) string {
	return `<w:p><w:pPr>` + properties + `</w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
}

// listItem returns a paragraph of a list.
func listItem(text, num, level string) string {
	return wordParagraph(text, `<w:numPr><w:ilvl w:val="`+level+`"/><w:numId w:val="`+num+`"/></w:numPr>`)
}

// TestShownTextOfWord: what a reader of the document sees, as Word shows it.
func TestShownTextOfWord(t *testing.T) {
	for content, want := range map[string]string{
		`<w:p><w:r><w:t>Keep </w:t></w:r><w:moveFrom><w:r><w:t>from </w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t>to </w:t>` +
			`</w:r></w:moveTo><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:t>end</w:t></w:r></w:p>`: "Keep to end",
		`<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr><w:r><w:t>shown</w:t></w:r><w:r><w:rPr><w:vanish/></w:rPr><w:t>a</w:t>` +
			`<w:tab/></w:r><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t> too</w:t></w:r></w:p>`: "shown too",
		wordParagraph("a", `<w:pStyle w:val="Secret"/>`) + wordParagraph("b", ""): "b",
		`<w:p><w:r><w:ruby><w:rt><w:r><w:t>とう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東</w:t></w:r></w:rubyBase></w:ruby>` +
			`</w:r><w:r><w:t>京</w:t></w:r></w:p>`: "東京",
		`<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>d</w:t><w:ptab/><w:t>e</w:t><w:sym w:font="Symbol" w:char="F061"/>` +
			`<w:t>, f</w:t><w:sym w:font="Wingdings" w:char="F0FC"/><w:sym w:font="Arial" w:char="00E9"/></w:r></w:p>`: "d eα, f✓é",
		"<w:p><w:r><w:rPr><w:rFonts w:ascii=\"Symbol\"/></w:rPr><w:t>\uf044x\uf0a3y</w:t></w:r></w:p>":                    "Δx≤y",
		wordParagraph("a", `<w:pStyle w:val="x"/><w:pPrChange><w:pPr><w:pStyle w:val="Heading1"/></w:pPr></w:pPrChange>`): "a",
		`<w:p><w:r><w:t>Body.</w:t></w:r></w:p><w:altChunk r:id="a"/><w:altChunk r:id="b"/><w:altChunk r:id="c"/><w:p><w:r><w:t>Tail.`: "Body.\n\n" +
			"From HTML.\n\nFrom text.\n\nFrom Word.\n\nTail.",
	} {
		got := readAs(t, "a.docx", body(t, content, "word/styles.xml",
			`<w:style w:styleId="Base"><w:rPr><w:vanish/></w:rPr>`+
				`</w:style><w:style w:styleId="Secret"><w:basedOn w:val="Base"/></w:style>`,
			"word/_rels/document.xml.rels",
			`<Relationship Id="a" Target="a.html"/><Relationship Id="b" Target="/b.txt"/><Relationship Id="c" Target="c.docx"/>`,
			"word/a.html", "<p>From HTML.</p>", "b.txt", "From text.",
			"word/c.docx", body(t, wordParagraph("From Word.", ""))))
		if got != want {
			t.Errorf("%s\nis read as %q, want %q", content, got, want)
		}
	}
}

// TestMainPartOfWord: the relations of the package name it, and it names its parts.
func TestMainPartOfWord(t *testing.T) {
	got := readAs(t, "a.docx", zipped(t, "_rels/.rels", `<Relationship Id="a" Type="http://x/officeDocument" `+
		`Target="/doc/b.xml"/>`, "doc/b.xml", `<w:document>`+listItem("Words.", "1", "0"), "doc/_rels/b.xml.rels",
		`<Relationship Id="n" Type="http://x/numbering" Target="n.xml"/>`, "doc/n.xml",
		`<w:abstractNum w:abstractNumId="7">`+
			`<w:lvl w:ilvl="0"><w:start w:val="2"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="§ %1"/></w:lvl></w:abstractNum>`+
			`<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>`))
	if got != "§ II Words." {
		t.Errorf("%q", got)
	}
	docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), "a.docx",
		body(t, wordParagraph("Words.", "")+`<w:altChunk r:id="x"/>`)))
	if len(docs) != 1 || docs[0].Text != "Words." || len(skips) != 1 {
		t.Errorf("%d documents, skipped %v", len(docs), skips)
	}
}

// TestNumbersOfWord: as Word counts; what it shows under a number that is not repeated in it is said with that.
func TestNumbersOfWord(t *testing.T) {
	level := func(n, start, format, text, more string) string {
		return `<w:lvl w:ilvl="` + n + `"><w:start w:val="` + start + `"/>` +
			`<w:numFmt w:val="` + format + `"/><w:lvlText w:val="` +
			text + `"/>` + more + `</w:lvl>`
	}
	numbering := `<w:abstractNum w:abstractNumId="0">` + level("0", "3", "decimal", "%1.", "") +
		level("1", "1", "lowerLetter", "(%2)", "") + level("2", "1", "lowerRoman", "%3.", `<w:lvlRestart w:val="0"/>`) +
		`</w:abstractNum><w:abstractNum w:abstractNumId="1">` + level("0", "1", "upperRoman", "%1", "") +
		level("1", "1", "decimal", "%1.%2", `<w:isLgl/>`) + `</w:abstractNum>` + `<w:abstractNum w:abstractNumId="2">` +
		level("0", "1", "bullet", "•", "") + level("1", "1", "decimal", "%2)", "") + `</w:abstractNum>` +
		`<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>` +
		`<w:num w:numId="3"><w:abstractNumId w:val="2"/></w:num><w:num w:numId="4"><w:abstractNumId w:val="0"/>` +
		`<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>`
	content := listItem("The tenant pays", "1", "0") + listItem("by the first day", "1", "1") +
		listItem("by cheque", "1", "1") +
		listItem("deep", "1", "2") + listItem("The owner repairs", "1", "0") + listItem("at once", "1", "1") +
		listItem("goes on", "1", "2") +
		wordParagraph("none", `<w:numPr><w:numId w:val="0"/></w:numPr>`) + listItem("anew", "4", "0") +
		listItem("more", "4", "0") +
		listItem("dot", "3", "0") + listItem("below", "3", "1") + listItem("unknown", "9", "0") +
		wordParagraph("Scope", `<w:pStyle w:val="H2"/>`) + "<w:tbl><w:tr><w:tc>" +
		listItem("cell", "2", "1") + "</w:tc></w:tr></w:tbl>"
	styles := `<w:style w:styleId="H2"><w:pPr><w:outlineLvl w:val="1"/><w:numPr><w:ilvl w:val="1"/><w:numId w:val="2"/></w:numPr>` +
		`</w:pPr></w:style>`
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.docx", body(t, content, "word/numbering.xml", numbering,
		"word/styles.xml", styles)))
	want := "3. The tenant pays\n3(a) by the first day\n3(b) by cheque\n3(b)i. deep\n4. The owner repairs\n4(a) at once\n" +
		"4(a)ii. goes on\nnone\n\n1. anew\n2. more\n- dot\n1) below\n- unknown\n\n1.2 cell"
	if got := docs[0].Text; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := strings.Join(docs[0].Sections[len(docs[0].Sections)-1].Heading, "/"); got != "1.1 Scope" {
		t.Errorf("the heading is %q", got)
	}
}

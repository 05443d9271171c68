package corpus

import (
	"strings"
	"testing"
)

// TestStylesOfOfficeText: of Word and OpenDocument, styles and fonts of equal widths make code, with its spaces; terms
// come with their definitions, and tables of contents are not read.
func TestStylesOfOfficeText(t *testing.T) {
	const want = "It ebbs.\n\nif x:\n    y()\n\n    z()\n\nEbb: It goes out.\nNeap: Weak.\nTwice.\n\nEnd."
	style := func(id, name, more string) string {
		return `<w:style w:type="paragraph" w:styleId="` + id + `"><w:name w:val="` + name + `"/>` + more + `</w:style>`
	}
	in := func(style, text string) string { return wordParagraph(text, `<w:pStyle w:val="`+style+`"/>`) }
	word := in("toc", "Tides 3") + in("", "It ebbs.") + in("Code", "if x:") + in("Own", "    y()") + in("Code", "") +
		`<w:p><w:r><w:rPr><w:rFonts w:ascii="Courier New"/></w:rPr><w:t>    z()</w:t></w:r></w:p>` +
		in("Term", "Ebb") + in("", "It goes out.") + in("Term", "Neap") + in("", "Weak.") + in("", "Twice.") +
		"<w:p/>" + in("", "End.")
	styles := style("toc", "toc 1", "") + style("Code", "HTML Preformatted", "") +
		style("Own", "Listing", `<w:rPr><w:rFonts w:ascii="Consolas"/></w:rPr>`) + style("Term", "Definition Term", "")
	if got := readAs(t, "a.docx", body(t, word, "word/styles.xml", styles)); lines(got) != lines(want) {
		t.Errorf("Word: %q\nwant %q", got, want)
	}
	p := func(style, text string) string {
		return `<text:p text:style-name="` + style + `">` + text + `</text:p>`
	}
	const indent = `<text:s text:c="4"/>`
	open := `<office:automatic-styles><style:style style:name="P1" style:parent-style-name="Preformatted_20_Text"/>` +
		`</office:automatic-styles><office:text><text:alphabetical-index>` + p("", "ebb, 3") +
		`</text:alphabetical-index>` + p("Contents_20_1", "Tides 3") + p("", "It ebbs.") + p("P1", "if x:") +
		p("P1", indent+"y()") + p("P1", "") + p("Preformatted_20_Text", indent+"z()") + p("List_20_Heading", "Ebb") +
		p("List_20_Contents", "It goes out.") + p("List_20_Heading", "Neap") + p("", "Weak.") + p("", "Twice.") +
		p("", "End.")
	got := readAs(t, "a.odt", zipped(t, "content.xml", "<office:document-content>"+open))
	if lines(got) != lines(want) {
		t.Errorf("OpenDocument: %q\nwant %q", got, want)
	}
}

// TestTypescript: of a document that is in a font of equal widths as a whole, sentences are sentences.
func TestTypescript(t *testing.T) {
	line := `<w:p><w:r><w:rPr><w:rFonts w:ascii="Courier New"/></w:rPr><w:t>The tide goes out. It comes in.</w:t></w:r></w:p>`
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.docx", body(t, line+line)))
	if len(docs) != 1 || len(docs[0].Blocks) == 0 || docs[0].Blocks[0].Code {
		t.Errorf("%+v", docs)
	}
}

// lines returns a text without blank lines.
func lines(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c == '\n' }), "\n")
}

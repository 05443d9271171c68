package corpus

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/office"
)

// syntaxes are the fragments from which inputs of each format are drawn.
var syntaxes = map[string][]string{
	".md": {"*", "_", "**", "~~", "`", "``", "[", "]", "(", ")", "![", "](", "]: ", "][", "[a]: b", "<", ">", "<!--",
		"-->", "<a ", "<?", "<b>", "</b>", "<div>", "\n", "\n\n", "\n\n\n", " ", "  ", "    ", "\t", "a", "b ",
		"&amp;",
		"&", "\\", "|", "|-", "-|-\n", "- ", "* ", "1. ", "> ", "# ", "a\n===\n", "---\n", "```\n", "~~~", "\"", "'",
		"http://a", "@", ".", "{#a}", "{", "}", "=", "ä", "e\u0301", "!", "x\n", "  \n", "\\\n", "- a\n", "> a\n",
		"  - a\n", "[^", "[ ] ", "www.", "\\|", "{a=", "|a|\n|-|\n", ": ", ":::", "!!! a\n", "    a", "{{< ", "]{.a}",
		"[[", "]]", "+-+-+\n", "--- ---\n", "```{note}\n", "[^a]: "},
	".html": {"<", ">", "<p>", "</p>", "<div>", "</div>", "<table>", "<tr>", "<td>", "<th>", "</td>", "</tr>",
		"</table>", "<caption>", "</caption>", "<h1>", "</h1>", "<h2 id=a>", "<nav>", "</nav>", "<svg>", "<svg/>",
		"<template>", "<rt>", "<rp>", "<script>", "</script>", "<style>", "<title>", "</title>", "<textarea>",
		"<pre>",
		"</pre>", "<!--", "-->", "<![CDATA[", "<!", "<?", "&amp;", "&", "&#", "a", " ", "\n", "<a ", "a=b ", "\"",
		"'",
		"=", "/", "<li>", "<ul>", "</ul>", "<br>", "<b>", "<meta name=author content=x>", "<html lang=a>", "é",
		"<plaintext>", "<iframe>", "<noscript>", "<!doctype ", "x", "<a name=b>", "<math>", "</math>", "<mrow>",
		"<msup>",
		"<annotation encoding=tex>", "<p hidden>", "<ruby>", "</ruby>", "<ol start=3>", "</ol>", "<desc>"},
	".xhtml": {"<p>", "</p>", "<x:p>", "<script/>", "<title/>", "<![CDATA[", "]]>", "<!DOCTYPE a [", "]>",
		"<div hidden=\"a\">",
		"</div>", "<math>", "<mi>", "</mi>", "</math>", "&amp;", "&", "a ", "<ol>", "<li/>", "<?a?>", "<!--", "-->",
		"<svg>"},
	".txt": {"a", "b ", "word ", ". ", "! ", "\n", "\n\n", "  ", "1. ", "- ", "e\u0301", "\u0301", "ä", "\"", "'",
		"(", ")", "…",
		"Dr. ", "A. ", "...", "漢", "。", "1,", "3.", "\r\n", "\t", "\u00a0", "\u200b", "-\n", "A", ":", ";",
		"http://a.b/", "\f", "\ufffd",
		"\xff", "\x1b$B", "|", " | ", "*", "\U0001F600", "\u200d", "가", "ᄀ", "ᅡ"},
	".csv": {",", ";", "\"", "\"\"", "\n", "\r\n", "a", "b ", "1", "\t", "|", "\n\n", "'", " ", "a,b\n", "\"a\"",
		"é"},
	".jsonl": {"{", "}", "[", "]", "\"", ":", ",", "\"text\":", "\"a\"", "1", "\n", "\\u00e9", "\\ud83d", "\\n", "\\",
		"{\"text\":\"a b\"}\n",
		"null", " ", "-", "e9", "\"id\":\"x\",", "\"meta\":{", "{\"a\":"},
	".eml": {"Content-Type: multipart/mixed; boundary=a\n", "--a\n", "--a--\n", "\n", "\n\n", "Subject: ",
		"=?utf-8?q?a=C3=A9?=",
		"=?utf-8?b?w6k=?= ", "a", " ", "From: a@b.c\n", "To: ", "a@b.c, ", "<", ">", "(", ")", ",", ";", ":", "\"",
		"Content-Type: message/rfc822\n",
		"Content-Type: text/html\n", "<p>", "Content-Transfer-Encoding: base64\n",
		"Content-Transfer-Encoding: quoted-printable\n", "=\n", "=41",
		"YQ==", "; a*0=b", "; name=c", "> ", "X: y\n", "\t", "Date: ", "1 Jan 2020 ", "From ", "-- \n",
		"Content-Disposition: attachment; filename=x\n"},
	".mbox": {"From a\n", "From a@b Thu Jan  1 00:00:00 1970\n", "\n", "Subject: a\n", "a\n", ">From ", "X: y\n", " ",
		"a"},
	".docx": {"<w:p>", "</w:p>", "<w:r>", "</w:r>", "<w:t>", "</w:t>", "a", "b ", "<w:tbl>", "<w:tr>", "<w:tc>",
		"</w:tc>", "</w:tr>",
		"</w:tbl>", "<w:pStyle w:val=\"Heading1\"/>", "<w:br/>", "<w:tab/>", "&amp;", "&", "<", "<!--", "-->",
		"<![CDATA[", "]]>", "<a>", "</a>",
		" x=\"y\"", "<w:hyperlink>", "<mc:AlternateContent>", "<mc:Fallback>", "<w:del>", "<w:numPr/>", "<?a ?>",
		"<w:numId w:val=\"1\"/>", "<w:ilvl w:val=\"2\"/>", "<w:vanish/>", "<w:sym w:char=\"F061\"/>",
		"<w:altChunk/>", "<w:rt>",
		"<!DOCTYPE a [",
		" xmlns:w=\"w\"", "<w:p w:a=\"b\">", "\n"},
	".pptx": {"<p:sp>", "</p:sp>", "<p:ph type=\"title\"/>", "<a:p>", "</a:p>", "<a:t>", "</a:t>", "a", "<a:tbl>",
		"<a:tr>", "<a:tc>",
		"</a:tc>", "</a:tr>", "</a:tbl>", "<a:br/>", "<p:grpSp>", "</p:grpSp>", "<x>", "</x>", "&amp;",
		"<a:pPr lvl=\"3\"/>"},
	".chart": {"<c:ser>", "</c:ser>", "<c:tx>", "</c:tx>", "<c:cat>", "</c:cat>", "<c:val>", "</c:val>", "<c:lvl>",
		"<c:numCache>", "<c:formatCode>0%</c:formatCode>", "<c:pt idx=\"1\">", "<c:pt idx=\"99\">", "<c:v>", "</c:v>",
		"1", "a", "<c:v>7</c:v>", "<c:title>", "</c:title>", "<a:t>", "</a:t>", "<c:valAx>", "</c:valAx>", "<c:dLbls>"},
	".xlsx": {"<row>", "</row>", "<c>", "</c>", "<c t=\"str\">", "<c r=\"ZZ1\" t=\"str\">", "<v>", "</v>", "a", "1",
		"45383.5",
		"<c t=\"s\">", "<is>", "<t>", "</t>", "</is>", "<row r=\"9\">", "<mergeCell ref=\"A1:B2\"/>", "<x>", "</x>",
		"<c t=\"inlineStr\">",
		"<c r=\"A1\"><v>1</v></c>", "<row><c t=\"str\"><v>ab</v></c></row>"},
	".ods": {"<table:table>", "</table:table>", "<table:table-row>",
		"<table:table-row table:number-rows-repeated=\"9\">",
		"</table:table-row>", "<table:table-cell>", "<table:table-cell table:number-columns-repeated=\"9\">",
		"<table:table-cell table:number-columns-spanned=\"3\">", "</table:table-cell>", "<table:covered-table-cell/>",
		"<text:p>a</text:p>", "<text:p>2023</text:p>", "<x>", "</x>"},
	".odt": {"<text:h text:outline-level=\"2\">", "</text:h>", "<text:p>", "</text:p>", "a", "<text:s/>",
		"<text:s text:c=\"9\"/>",
		"<table:table>", "<table:table-row>", "<table:table-cell>", "</table:table-cell>", "</table:table-row>",
		"</table:table>",
		"<table:table-cell table:number-columns-repeated=\"9\">", "<text:list>", "<text:list-item>",
		"</text:list-item>", "</text:list>",
		"<text:span>", "</text:span>", "<office:annotation>", "<text:note>", "<text:tab/>", "<text:line-break/>",
		"<x>", "</x>",
		"<table:covered-table-cell/>", "<text:p>a</text:p>", "<draw:frame>", "</draw:frame>"},
	".opf": {"<item id=\"a\" href=\"a.xhtml\"/>", "<itemref idref=\"a\"/>", "<package>", "<spine>", "</spine>",
		"<manifest>", "</manifest>", "<dc:title>",
		"a", "</dc:title>", "<x>", "</x>", "&amp;"},
	".rst": {"+-+-+\n", "| a |\n", "==  ==\n", "a   b\n", ".. list-table:: a\n", "   * - a\n", "     - b\n", "|a| ",
		"=", "-", "a\n===\n", "a\n---\n", "===\na\n===\n", ".. ", "code-block:: c\n", "note:: ", "a::\n", "   b\n",
		"\n", "\n\n", "`", "``", "*", "**", "`_", "<", ">", ":a:", ": ", ":ref:`", "* a\n", "a", " ", "|", "  "},
	".adoc": {"a:: ", "b::\n", "name\n----\n", "<<a,", ">>", "{lt}", "= a\n", "== b\n", "----\n",
		"....\n", "|===\n", "|a |b\n", "`", "*", "http://a", "[", "]", ":a: b\n",
		"// c\n", ".a\n", "* a\n", "\n", "\n\n", "a", " ", "+\n", "include::a[]\n"},
	".org": {"- a :: b\n", "| a | b |\n", "|-+-|\n", "[fn:1]", "* a\n", "** b\n", "[[", "]]", "][",
		"=", "~", "=a=", "#+begin_src\n", "#+end_src\n", "#+TITLE: a\n",
		":a:\n", "|a|b|\n", "|-+-|\n", "- a\n", "\n", "\n\n", "a", " ", "#"},
	".tex": {"\\begin{tabular}\n", " & ", "\\\\\n", "\\item[", "\\\"o", "\\verb|", "\\hline ", "\\",
		"{", "}", "[", "]", "\\section{a}\n", "\\cite{", "\\a", "\\emph{", "%", "\\%", "~", "--", "``", "''",
		"\\begin{verbatim}\n", "\\end{verbatim}\n", "\\begin{document}\n", "\\item a\n", "\n", "\n\n", "a", " ", "$"},
	".man": {".SH a\n", ".SS b\n", ".TP\n", ".PP\n", ".nf\n", ".fi\n", ".B a b\n", ".BR a , b\n", "\\fB", "\\fR", "\\(",
		"em", "\\[", "]", "\\*", "\\-", "\\s+2", "\\", ".\\\" a\n", "\n", "a", " ", "\"", ".It a\n", ".", "'"},
	".yaml": {"a: ", "b\n", "  ", "- ", "\n", "\n\n", "{", "}", "[", "]", "\"", "'", "|\n", "#", "&a ",
		"*a", "é", "\t"},
	".ipynb": {"\"# a\\n\",", "\"*a_ \",", "\"a\\n\",", "\"```\\n\",", "\"> \",", "\"\\n\",",
		"\"|a|\\n|-|\\n\",", "\"[\",",
		"\"]},{\"cell_type\":\"code\",\"source\":[\"a\",",
		"\"]},{\"cell_type\":\"markdown\",\"source\":[\"b\",", "[", "{"},
	".go": {"package a\n", "func f() {", "}", "(", ")", "[", "]", "{", "\n", "\"", "`", "//", "/*", "*/", "type a ",
		"struct {", "chan ",
		"a", " ", ";", ",", "var x = ", "'", "if a ", "else ", "const (\n", "import \"a\"\n", "func ", "go ", "<-",
		"*", "f(", "func()", ":= "},
	".py": {"def a():\n", "class a:\n", "  ", "    ", "\n", "(", ")", "[", "'''", "\"\"\"", "\"", "'", "#", "\\\n",
		"a", "@a\n", "if a:\n", "{", "}",
		"\t", " ", ":", "f'", "r'", "async def "},
	".ts": {"{", "}", "(", ")", "`", "${", "/", "//", "/*", "*/", "\"", "'", "\n", "a", "=>", "function f", "class A",
		"=", ";", " ", "<", ">", "[", "]",
		"async ", "export ", "return ", "\\", "import a\n", "x?.", "get a() ", ":", ","},
	".cpp": {"#if a\n", "#else\n", "#endif\n", "#define a \\\n", "{", "}", "(", ")", "\"", "'", "R\"(", ")\"",
		"R\"x(", "//", "/*", "*/", "\\\n",
		"a::b", "<", ">", "template<", "class A ", "\n", " ", ";", "a", "::", "operator", "namespace a ", "~",
		"int f", "=", ":"},
	".rs": {"r#\"", "\"#", "r##\"", "'a", "'", "\"", "{", "}", "fn f", "(", ")", "impl A ", "\n", " ", "/*", "*/",
		"//", "///", "#[a]\n", "a", "::", "<", ">", "mod a ",
		"struct A", ";", "b'", "|a|", "!"},
	".php": {"<?php ", "?>", "<<<a\n", "<<<'a'\n", "a\n", "a;\n", "{", "}", "(", ")", "\"", "'", "#", "//", "/*",
		"*/", "function f", "class A ", "$a", "\n", " ", "<", ">", "->"},
	".rb": {"def a\n", "class A\n", "module A\n", "end\n", "if a\n", "do\n", "\"", "'", "#{", "}", "/", "<<a\n",
		"<<-a\n", "<<~a\n", "a\n", "%w[", "]", "=begin\n", "=end\n", "\n", " ", "#", "?", "{", "(",
		")", ":a", "while "},
	".sh": {"f() {\n", "}\n", "<<a\n", "<<-a\n", "a\n", "\"", "'", "`", "$(", ")", "${", "}", "#", "\n", " ",
		"case a in\n", "esac\n", "if a\n", "fi\n", "\\\n", "function f {\n", "a", ";;"},
	".cs": {"@\"", "$\"", "\"\"", "\"", "'", "{", "}", "(", ")", "#if a\n", "#endif\n", "#region\n", "class A ",
		"void f", "\n", " ", "//", "/*", "*/", "<", ">", "namespace a ", ";", "[A]\n", "=>", "\"\"\"", "a", "="},
	".pdf": {"1 0 obj<<", ">>endobj ", "/Type/Catalog", "/Pages 2 0 R", "2 0 obj<<", "/Kids[", "3 0 R ", "]",
		"/Count 1", "stream\n", "\nendstream", "xref\n", "trailer<<", "/Root 1 0 R", "startxref\n0\n",
		"%%EOF\n", "[", "<<", ">>", "(", ")", "\\", "<", ">", "/A", " ", "\n", "0000000000 00000 n \n", "1",
		"/Length 9", "/Parent 2 0 R", "BT ", "(a)Tj ", "ET ", "q ", "Q "},
}

// heads are the text that a format needs before and behind the drawn input.
var heads = map[string][2]string{".eml": {"Subject: a\n", "\n\nwords\n"}, ".mbox": {"From a\n", "\n\nwords\n"},
	".man": {".TH a 1\n", "\nwords\n"}, ".ipynb": {`{"cells":[{"cell_type":"markdown","source":[`, `"words"]}]}`},
	".pdf": {"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj " +
		"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>endobj ", "trailer<</Root 1 0 R>>"}}

// asFile returns a text as the content of a file of a format, packed where that is a ZIP file of XML.
func asFile(t testing.TB, ending, text string) string {
	switch ending {
	case ".docx":
		return zipped(t, "word/document.xml", `<w:document xmlns:w="w"><w:body>`+text)
	case ".pptx":
		return withSlide(t, text)
	case ".chart":
		return withChart(t, text)
	case ".xlsx":
		return sheet(t, text)
	case ".odt":
		return zipped(t, "content.xml", "<office:document-content><office:text>"+text)
	case ".ods":
		return zipped(t, "content.xml", "<office:document-content><office:spreadsheet>"+text)
	case ".opf":
		return zipped(t, "META-INF/container.xml", container, "OPS/c.opf", text, "OPS/a.xhtml", "<p>words")
	}
	return heads[ending][0] + text + heads[ending][1]
}

// fileEnding returns the ending of the files that asFile makes.
func fileEnding(ending string) string {
	return strings.NewReplacer(".opf", ".epub", ".chart", ".pptx").Replace(ending)
}

// TestDoubling draws inputs for each format.
func TestDoubling(t *testing.T) {
	var endings []string
	for ending := range syntaxes {
		endings = append(endings, ending)
	}
	slices.Sort(endings)
	for _, ending := range endings {
		t.Run(ending[1:], func(t *testing.T) {
			l := newLoader(context.Background(), LoadOptions{CacheDir: compiled}, func(d *Document, err error) bool {
				if err != nil {
					return false
				}
				o := ChunkOptions{Size: 256, Overlap: 2, Count: countTokens}
				for _, err := range Chunks(context.Background(), d, o) {
					if err != nil {
						return false
					}
				}
				return true
			})
			defer l.close()
			dir := t.TempDir()
			doubling.Search(t, syntaxes[ending], func(text string) {
				path := write(t, dir, "x"+fileEnding(ending), asFile(t, ending, text))
				l.walk = newWalker(l.ctx, l.o.FileOptions)
				l.walk.file, l.walk.skip = l.file, l.skip
				_ = l.walk.path(path)
			})
		})
	}
}

// TestAllocationsAreLinear: inputs that can cause growth by copying, in formats whose steps are not counted. Steps are
// bytes allocated.
func TestAllocationsAreLinear(t *testing.T) {
	for _, in := range map[string]doubling.Input{
		".ods": {Head: `<office:spreadsheet><table:table><table:table-row><table:table-cell>`,
			Unit: "<text:p>a</text:p>"},
		".odt": {Head: "<text:p>" + strings.Repeat("a ", 8<<10), Unit: "<text:p>b</text:p>"},
	} {
		doubling.Linear(t, in, func(text string) int {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := must(office.Open(zipped(t, "content.xml", text), 1<<30, nil))
			if err := office.OpenDocument(&Document{}, a); err != nil {
				t.Error(err)
			}
			runtime.ReadMemStats(&after)
			return int(after.TotalAlloc - before.TotalAlloc)
		})
	}
}

// TestSharedStringsAreCounted: any number of cells may refer to one long text.
func TestSharedStringsAreCounted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.txt", "Words.")
	write(t, dir, "x.xlsx", zipped(t, "xl/workbook.xml", workbook, "xl/_rels/workbook.xml.rels", workRels,
		"xl/sharedStrings.xml", "<si><t>"+strings.Repeat("word ", 1<<18)+"</t></si>", "xl/worksheets/s.xml",
		fmt.Sprintf(sheetText, strings.Repeat(`<row><c t="s"><v>0</v></c></row>`, 1<<10))))
	docs, skips := load(t, LoadOptions{MaxFileBytes: 4 << 20}, dir)
	if len(docs) != 1 || len(skips) != 1 || !errors.Is(skips[0].Err, ErrTooLarge) {
		t.Errorf("%d documents, skipped %v", len(docs), skips)
	}
}

// looking is a context that counts how often it is asked whether it has ended.
type looking struct {
	context.Context
	looks int
}

func (l *looking) Err() error {
	l.looks++
	return l.Context.Err()
}

// TestParsersLookAtTheContext: each parser asks its context at least once for each mebibyte that it reads. Plain text,
// JSON lines and source code, which take some milliseconds for that, ask at their words or lines; PDFs are read in a
// sandbox that ends with the context.
func TestParsersLookAtTheContext(t *testing.T) {
	const size = 2 << 20
	l := newLoader(context.Background(), LoadOptions{}, nil)
	for _, ending := range []string{".md", ".html", ".csv", ".eml", ".docx", ".pptx", ".xlsx", ".odt", ".opf"} {
		words := strings.Repeat("Words and words. ", size/17)
		if ending == ".eml" {
			words = "\n" + words
		}
		for _, text := range []string{words, doubling.Repeat(syntaxes[ending][0] + " a ").Text(size)} {
			ctx := &looking{Context: context.Background()}
			read := l.formats(&timeLimit{Pulse: &doc.Pulse{Ctx: ctx}})[fileEnding(ending)]
			if err := read.parse(&Document{}, asFile(t, ending, text)); err == nil && ctx.looks < size>>20 {
				t.Errorf("%s, %.20q…: %d looks at the context", ending, text, ctx.looks)
			}
		}
	}
}

// ending is a context that ends when it is asked for the third time.
type ending struct{ looking }

func (e *ending) Err() error {
	if e.looking.Err(); e.looks >= 3 {
		return context.Canceled
	}
	return nil
}

// TestReadEndsWithItsContext: reading a web page ends when its context does.
func TestReadEndsWithItsContext(t *testing.T) {
	for kind, unit := range map[Kind]string{Markdown: "*a_ ", HTML: "<b>a</b> ", Plain: "e\u0301 "} {
		ctx := &ending{looking{Context: context.Background()}}
		if _, err := Read(ctx, kind, strings.Repeat(unit, 1<<20), 0); !errors.Is(err,
			context.Canceled) || ctx.looks > 4 {
			t.Errorf("%s: %v after %d looks", kind, err, ctx.looks)
		}
	}
}

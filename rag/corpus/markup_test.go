package corpus

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
	"github.com/sluice-rag/sluice/rag/corpus/html"
)

// readAs returns the text of a source by its name.
func readAs(t *testing.T, name, content string) string {
	t.Helper()
	var docs []*Document
	var skips []Skipped
	for d, err := range Load(t.Context(), []string{write(t, t.TempDir(), name, content)},
		LoadOptions{OnSkip: func(s Skipped) { skips = append(skips, s) }}) {
		if err == nil {
			docs = append(docs, d)
		}
	}
	if len(docs) != 1 {
		t.Errorf("%s: %d documents, skipped %v", content, len(docs), skips)
		return ""
	}
	return docs[0].Text
}

// TestShownText: of HTML, the text that a browser shows is read once.
func TestShownText(t *testing.T) {
	const katex = `<span class="katex"><span class="katex-mathml"><math><semantics><mrow><msup><mi>e</mi><mi>x</mi>` +
		`</msup></mrow><annotation encoding="application/x-tex">e^x</annotation></semantics></math></span>` +
		`<span class="katex-html" aria-hidden="true"><span class="mord">e</span><span class="vlist">x</span></span></span>`
	for _, x := range [][2]string{
		{`<p>Euler: ` + katex + ` grows.</p>`,
			"Euler: e^x grows."},
		{`<p>Euler: <span class="katex"><span class="katex-html" aria-hidden="true">ex</span></span>.`,
			"Euler: ex."},
		// as MediaWiki writes it: MathML that is not shown, and a picture
		{`<p>So <span><span class="mwe-math-mathml-inline" style="display: none;"><math alttext="{\displaystyle a_{1}}">` +
			`<msub><mi>a</mi><mn>1</mn></msub></math></span><img src="x.svg" class="mwe-math-fallback-image-inline" ` +
			`aria-hidden="true" alt="{\displaystyle a_{1}}"></span> holds.`,
			"So a_{1} holds."},
		// as MathJax 3 writes it
		{`<p>If <mjx-container><mjx-math aria-hidden="true">x</mjx-math><mjx-assistive-mml><math><mfrac><mi>a</mi><mrow>` +
			`<mi>b</mi><mo>+</mo><mn>12</mn></mrow></mfrac></math></mjx-assistive-mml></mjx-container> is.`,
			"If a/(b+12) is."},
		// what MediaWiki adds to a text: links "edit", sources, wishes for them
		{`<p>History<span class="mw-editsection">[<a>edit</a>]</span><p>Old.<sup id="cite_ref-1" class="reference">` +
			`<a href="#cite_note-1">[1]</a></sup> 5 km<sup>2</sup><sup class="noprint Inline-Template ">[<i>when?</i>]</sup> it is.`,
			"History\n\nOld. 5 km2 it is."},
		{`<p><math><mi>sin</mi><mi>x</mi><mo>=</mo><msqrt><mn>1</mn><mo>-</mo><msup><mi>y</mi><mn>2</mn></msup></msqrt>` +
			`</math> and <math><mi>z</mi><p>a paragraph ends it</p>`,
			"sin x=√(1-y^2) and z\n\na paragraph ends it"},
		{`<table><tr><td>n</td><td><math><mi>n</mi></math></td></tr></table><h2>On <math><mi>k</mi></math></h2>`,
			"n | n\n\nOn k"},

		{`<p>shown<p hidden>a<p style="display:none">b<p aria-hidden=true>c<p>too`,
			"shown\n\ntoo"},
		{`<main>shown <div hidden><b>a</i></div>b</main>`,
			"shown b"},
		{`<p>x<p>shown<div hidden></p>a</b></span>b<br></div>`,
			"x\n\nshown"},
		{`<div>shown <span style="color:red; visibility : Hidden !important">a<div></span>b</div></span>c</div>`,
			"shown c"},
		{`<ul><li hidden>a<li>shown<li style="opacity:0.0">b</ul>c`,
			"- shown\n\nc"},
		{`<body style="display:none"><p>shown<span style="font-size:0px">a</span> <i style="font-size:10px">too</i>`,
			"shown too"},
		{`<p>shown <input hidden><img aria-hidden=true>too<dialog>a</dialog><dialog open>and this</dialog>`,
			"shown too\n\nand this"},
		{`<p hidden="until-found">found<div hidden>never closed`,
			"found"},
		{`<table><tr><td hidden>a<td>shown<tr hidden><td>b<tr><td>too</table>c`,
			"shown\ntoo\n\nc"},
		{`<svg><title>a</title><style/><text>b</text></svg><p>shown<svg><circle><p>too`,
			"shown\n\ntoo"},

		{`<ruby>漢<rt>かん</ruby><p>words`,
			"漢\n\nwords"},
		{`<ruby>漢<rp>(<rt>かん<rp>)<rb>字<rt>じ</ruby>を<p>words`,
			"漢字を\n\nwords"},
		{`<div><ruby>漢<rt>かん</div>words`,
			"漢\n\nwords"},
		{`<ol start=5><li>five<li>six<ol type=a><li>inner</ol><li>seven</ol>`,
			"5. five\n6. six\n\na. inner\n\n7. seven"},
		{`<ol type=I><li value=4>four<li>five</ol><ul><li>dot</ul>`,
			"IV. four\nV. five\n\n- dot"},
		{`<ol reversed start=2><li>two<li>one</ol><ol reversed><li>x</ol>`,
			"2. two\n1. one\n\n- x"},
		{`<ol style="list-style-type: upper-alpha" start=27><li>x</ol><ol style="list-style:none"><li>y</ol>`,
			"AA. x\n\n- y"},

		// contents, links to the pages beside it, and notes
		{`<ul><li><a href="#a">A</a><ol><li><a href="#b">B</a></ol><li><a href="#c">C</a></ul><p>shown`,
			"shown"},
		{`<ul><li><a href="#">A</a><li><a href="#">B</a><li><a href="#">C</a></ul><p>See <a href="#x">x</a>.`,
			"- A\n- B\n- C\n\nSee x."},
		{`<p>Next: <a href="b.html" rel="next">B</a>, Up: <a href="#" rel="up">T</a> [<a href="c" rel="contents">Contents</a>]<p>shown`,
			"shown"},
		{`<p>See the <a href="b.html" rel="next">next one</a>.`,
			"See the next one."},
		{`<p>It ebbs<a href="#n"><sup>1</sup></a>, 5 m<sup>2</sup><sup><a href="#m">[2]</a></sup>.<p><a href="#r">(1)</a> Twice. <a href="#r">↩</a>`,
			"It ebbs, 5 m2.\n\nTwice."},
	} {
		content, want := x[0], x[1]
		if got := readAs(t, "a.html", "<!DOCTYPE html><meta charset=utf-8>"+content); got != want {
			t.Errorf("%s\nis read as %q, want %q", content, got, want)
		}
	}
}

// TestTerms: a term and its definition are one block, which begins with the term.
func TestTerms(t *testing.T) {
	for _, x := range [][2]string{
		{`<dl><dt>ebb</dt><dd>The tide goes out. Boats wait.</dd><dt>flood<dd><p>It comes in.<p>Boats sail.</dl>End`,
			"ebb: The tide goes out. Boats wait.\nflood: It comes in.\n\nBoats sail.\n\nEnd"},
		{`<dl><dt><code>-a</code><br><dt> --all </dt>` + "\n" + `<dd><div><p>Shows all.</div><dd>Twice.</dl>`,
			"-a, --all: Shows all.\n\nTwice."},
		{`<dl><dt>Which?</dt><dd>This.<dt>Note:</dt><dd>That.</dl>`, "Which? This.\nNote: That."},
		{`<dl><dt>sizes<dd><ul><li>one<li>two</ul><dt>code<dd><pre>a b</pre><dt>none<dd></dl>end`,
			"sizes:\n\n- one\n- two\n\ncode:\n\na b\n\nnone:\n\nend"},
		{`<dl><dt>1. Tides<dd><dl><dt>1.1. Ebb<dt>1.2. Flood</dl><dt>2. Winds</dl>`,
			"1. Tides:\n\n1.1. Ebb, 1.2. Flood\n\n2. Winds"},
		{`<dl><dt><h3>Ebb</h3></dt><dd>Out.<dt><p>flood</p></dt><dd>In.</dl>`, "Out.\n\nflood\n\nIn."},
		{`<dl><dt>Old pages<p>One.<p>Two.<dd>Three.</dl>`, "Old pages\n\nOne.\n\nTwo.\nThree."},
		{`<dd>Alone.<dt></dt><dd>Unnamed.`, "Alone.\nUnnamed."},
		{`<p>Above<dd>below`, "Above\nbelow"},
	} {
		if got := readAs(t, "a.html", "<!DOCTYPE html><meta charset=utf-8>"+x[0]); got != x[1] {
			t.Errorf("%s\nis read as %q, want %q", x[0], got, x[1])
		}
	}
}

// TestNavigation: links to other pages, to a search and to the place where they stand are not read.
func TestNavigation(t *testing.T) {
	const words = `<div role="main"><h1>Tides<a class="headerlink" href="#tides" title="Permalink">¶</a></h1><p>High.`
	for _, x := range [][2]string{
		{`<div class="related" role="navigation"><h3>Navigation</h3><ul><li>next</ul></div>` + words, "Tides: High."},
		{`<div class="navheader"><table><tr><td>Prev<td>Up</table></div>` + words, "Tides: High."},
		{`<form role="search">Find</form><div role="navigation">never closed` + words,
			": Find\n\nnever closed|Tides: High."},
		{words + ` <a href="#a">&#182;</a><a href="#b"> # </a><a href="#c">C#</a> <a href="b.html">#</a> ¶ <a href="#d">§ 5</a>`,
			"Tides: High. C# # ¶ § 5"},
	} {
		docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.html", "<!DOCTYPE html><meta charset=utf-8>"+x[0]))
		var got []string
		for _, s := range docs[0].Sectioned() {
			got = append(got, strings.Join(s.Heading, "/")+": "+strings.TrimSpace(docs[0].Text[s.Start:s.End]))
		}
		if strings.Join(got, "|") != x[1] {
			t.Errorf("%s\nis read as %q, want %q", x[0], strings.Join(got, "|"), x[1])
		}
	}
}

// TestHeadingsAboveMain: what stands above the main part of a page, and in its title, is no heading of the part.
func TestHeadingsAboveMain(t *testing.T) {
	const book, tides = `<h1>The Book</h1>`, `<main><h2>Tides</h2><p>High.`
	for _, x := range []struct{ content, want string }{
		{`<title>Tides - The Book</title>` + book + tides + `<h3>Low</h3><p>Low.</main><p>End`,
			"Tides: High.|Tides/Low: Low.\n\nEnd"},
		{`<title>Tides - The Book</title>` + book + `By us.<main><p>High.</main>`,
			"The Book: By us.|Tides - The Book: High."},
		{`<title>Tides</title>` + book + tides, "The Book/Tides: High."},
		{book + tides, "The Book/Tides: High."},
		{`<title>Tides</title><h1>Tides</h1><main><main><p>High.</main></main>`, "Tides: High."},
	} {
		content := "<!DOCTYPE html><meta charset=utf-8>" + x.content
		docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.html", content))
		var got []string
		for _, s := range docs[0].Sectioned() {
			if text := strings.TrimSpace(docs[0].Text[s.Start:s.End]); text != "" {
				got = append(got, strings.Join(s.Heading, "/")+": "+text)
			}
		}
		if strings.Join(got, "|") != x.want {
			t.Errorf("%s\nhas %q, want %q", content, strings.Join(got, "|"), x.want)
		}
		checkDocument(t, docs[0], len(content))
	}
}

// TestXHTML: it is XML, unless it is not well-formed.
func TestXHTML(t *testing.T) {
	const words = `<body><h1>Top</h1><p>It leaves.</p></body></html>`
	for _, x := range [][2]string{
		{`<html><head><title/><script src="x"/><style/></head>` + words,
			"It leaves."},
		{`<html><head><title>T</title><style><![CDATA[p{}]]></style></head><body><p><![CDATA[Raw & <words>]]></p>`,
			"Raw & <words>"},
		{`<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:body><h:p>One.</h:p><h:p>Two.</h:p></h:body></h:html>`,
			"One.\n\nTwo."},
		{`<html><body><iframe src="x"/><textarea/><p>One&nbsp;&eacute;&notit;</p><nav/><svg/><p>Two.</p>`,
			"One é&notit;\n\nTwo."},
		{`<!DOCTYPE html [ <!ENTITY a "b>c"> ]><html><body><p>One.</p><ruby>漢<rt/>字</ruby>`,
			"One.\n\n漢字"},
		{`<html><body><pre>` + "\n" + `a</pre><div hidden="hidden"><p>b</p></div><ul><li/><li>c</li></ul>`,
			"a\n\n- c"},
		// not XML: a script ends as in HTML
		{`<html><script>if (a<b) f("<p>")</script>` + words,
			"It leaves."},
		{`<html><head><script src="x"></script><meta charset=utf-8>` + words,
			"It leaves."},
	} {
		content, want := x[0], x[1]
		got := readAs(t, "a.xhtml", `<?xml version="1.0" encoding="utf-8"?>`+"\n"+content)
		if strings.TrimSpace(got) != want {
			t.Errorf("%s\nis read as %q, want %q", content, got, want)
		}
	}
	source := `<html><body><p>One &amp; <![CDATA[two]]> three.</p></body></html>`
	_, chunks := cut(t, "b.xhtml", source, ChunkOptions{Size: 40})
	if got := source[chunks[0].Start:chunks[0].End]; got != "One &amp; <![CDATA[two]]> three." {
		t.Errorf("the place is %q", got)
	}
}

// TestBooksWithMistakes: the existing parts of a book are read.
func TestBooksWithMistakes(t *testing.T) {
	chapter := func(text string) string { return `<html><head><title/></head><body><p>` + text + `</p></body></html>` }
	const rootfile = `<container><rootfile full-path="OPS/book.opf"/></container>`
	const kind = `media-type="application/xhtml+xml"`
	for name, c := range map[string]struct {
		parts      []string
		want, says string
	}{
		"a chapter is missing": {[]string{"META-INF/container.xml", rootfile, "OPS/book.opf",
			`<item id="a" href="gone.xhtml" ` + kind + `/><item id="b" href="b.xhtml" ` + kind + `/>` +
				`<itemref idref="a"/><itemref idref="b"/>`, "OPS/b.xhtml", chapter("Second.")},
			"Second.", "OPS/gone.xhtml"},
		"in other letters": {[]string{"meta-inf/Container.xml", rootfile, "OPS/book.opf",
			`<item id="a" href="Text/Ch1.xhtml" ` + kind + `/><itemref idref="a"/>`, `OPS\text\ch1.XHTML`,
			chapter("First.")}, "First.", ""},
		"no list of packages": {[]string{"x/y.OPF",
			`<item id="a" href="a%20b.htm" media-type="text/x-oeb1-document"/>` +
				`<itemref idref="a"/>`, "x/a b.htm", "<p>An old book."}, "An old book.", ""},
	} {
		docs, skips := load(t, LoadOptions{}, write(t, t.TempDir(), "a.epub", zipped(t, c.parts...)))
		if len(docs) != 1 || docs[0].Text != c.want || (c.says == "") != (len(skips) == 0) ||
			c.says != "" && !strings.Contains(skips[0].Err.Error(), c.says) {
			t.Errorf("%s: %d documents, %v", name, len(docs), skips)
		}
	}
}

// TestMarkupStepsAreLinear counts the elements that the reader of HTML closes and looks for.
func TestMarkupStepsAreLinear(t *testing.T) {
	for _, in := range []doubling.Input{
		{Head: "<ul>" + strings.Repeat("<b>", 2000), Unit: "<li></li>"}, doubling.Repeat("<b><p>"),
		doubling.Repeat("<div hidden></p></b>"), doubling.Repeat("<math><mrow><mfrac>"),
		{Head: "<math>", Unit: "<mi>a</mi>"},
		{Head: "<p>", Unit: "<span><div>", Second: "</span></div>"}, doubling.Repeat("<ol><li>"),
		doubling.Repeat("<svg><desc>"),
		{Unit: "<ruby><rt>", Second: "</ruby>"}, doubling.Repeat("<!DOCTYPE a [>"), doubling.Repeat("<![CDATA[a]]>"),
	} {
		for _, xml := range []bool{false, true} {
			doubling.Linear(t, in, func(text string) int {
				p := &doc.Pulse{Ctx: t.Context()}
				html.Read(&build.Builder{Pulse: p}, text, 0, xml)
				return int(p.N) // words, and elements that were closed
			})
		}
	}
}

// TestMailboxSeparators: only a line with a date, behind an empty one, begins a message.
func TestMailboxSeparators(t *testing.T) {
	const first = "From a@mail.example Tue Mar  5 10:00:00 2024\nSubject: One\n\nFirst.\n\n"
	const second = "Subject: Two\n\nSecond.\n"
	for between, want := range map[string]int{
		"From the harbour we saw boats. This line is text.\n\n": 1,
		"From Tue to Thu Mar was sunny.\n\n":                    1,
		"From here: it goes\n\n":                                1,
		"From b@mail.example Tue Mar  5 11:00:00 2024\n":        2,
		"From - Tue, Mar 05 11:00:00 2024\r\n":                  2,
		"From b at mail.example  Wed Mar 15 11:00:00 2024\n":    2,
		"From 17@xxx Tue Mar 05 10:00:00 +0000 2024\n":          2,
	} {
		docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.mbox", first+between+second))
		if len(docs) != want || want == 1 && !strings.Contains(docs[0].Text, strings.TrimSpace(between)) {
			t.Errorf("%q: %d documents", between, len(docs))
		}
	}
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "b.mbox",
		"From a\nSubject: x\n\nwords\n\nFrom us\n\nFrom b\nSubject: y\n\nmore"))
	if len(docs) != 2 {
		t.Errorf("%d documents of a mailbox without dates", len(docs))
	}
}

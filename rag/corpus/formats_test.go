package corpus

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/rag/corpus/chunk"
	"github.com/sluice-rag/sluice/rag/corpus/pdf"
)

// zipped returns a ZIP file of parts, which follow their names.
func zipped(t testing.TB, parts ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i+1 < len(parts); i += 2 {
		w, err := z.Create(parts[i])
		if err == nil {
			_, err = w.Write([]byte(parts[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const (
	wordText  = `<w:document xmlns:w="w"><w:body><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:body></w:document>`
	openText  = `<office:document-content><office:text>%s</office:text></office:document-content>`
	workbook  = `<workbook><sheets><sheet name="One" r:id="a"/></sheets></workbook>`
	workRels  = `<Relationships><Relationship Id="a" Target="worksheets/s.xml"/></Relationships>`
	sheetText = `<worksheet><sheetData>%s</sheetData></worksheet>`
	container = `<container><rootfiles><rootfile full-path="OPS/c.opf"/></rootfiles></container>`
	opf       = `<package><manifest><item id="a" href="../../etc/a.xhtml" ` +
		`media-type="application/xhtml+xml"/></manifest>` +
		`<spine><itemref idref="a"/></spine></package>`
	wideSheet = `<office:spreadsheet><table:table table:name="t"><table:table-row>` +
		`<table:table-cell table:number-columns-repeated="2000000000"><text:p>words</text:p></table:table-cell>` +
		`</table:table-row></table:table></office:spreadsheet>`
)

// TestHostileFormats: files that do not match their names, that would exhaust memory, or whose paths lead outside are
// skipped with a reason, soon.
func TestHostileFormats(t *testing.T) {
	encrypted := []byte(zipped(t, "word/document.xml", fmt.Sprintf(wordText, "hidden words")))
	for i := range encrypted {
		if bytes.HasPrefix(encrypted[i:], []byte("PK\x03\x04")) {
			encrypted[i+6] |= 1
		}
		if bytes.HasPrefix(encrypted[i:], []byte("PK\x01\x02")) {
			encrypted[i+8] |= 1
		}
	}
	for name, c := range map[string]struct {
		file, content string
		says          string // "" for one that is read
		is            error
	}{
		"text by another name": {"a.docx", "just words", "no ZIP file", ErrFormat},
		"empty":                {"a.xlsx", "", "no ZIP file", ErrFormat},
		"Office before 2007": {"a.docx", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("x", 600),
			"encrypted, or of an Office before 2007", ErrFormat},
		"an encrypted part": {"a.docx", string(encrypted), "encrypted", ErrFormat},
		"an encrypted sheet": {"a.ods", zipped(t, "content.xml", "\x95&", "META-INF/manifest.xml",
			`<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>`), "encrypted", ErrFormat},
		"another kind of ZIP": {"a.docx", zipped(t, "a.txt", "words"), "word/document.xml", ErrFormat},
		"broken XML": {"a.docx", zipped(t, "word/document.xml", "<w:p><w:t>words<"), "word/document.xml",
			ErrFormat},
		"a bomb": {"a.docx",
			zipped(t, "word/document.xml", fmt.Sprintf(wordText, strings.Repeat("word ", 1<<20))),
			"larger than the limit", ErrTooLarge},
		"a bomb of a book": {"a.epub", zipped(t, "META-INF/container.xml", container+strings.Repeat(" ", 5<<20)),
			"larger than the limit", ErrTooLarge},
		"no words": {"a.odt", zipped(t, "content.xml", fmt.Sprintf(openText, "<text:p>…</text:p>")),
			"no words", ErrNoWords},
		"deep": {"a.docx",
			zipped(t, "word/document.xml", strings.Repeat("<w:p>", 1e5)+"<w:r><w:t>words"), "", nil},
		"spaces": {"a.odt",
			zipped(t, "content.xml", fmt.Sprintf(openText, `<text:p>a<text:s text:c="2000000000"/>word</text:p>`)), "",
			nil},
		"columns": {"a.xlsx", sheet(t, `<row><c r="ZZZZZZ1" t="str"><v>words</v></c></row>`), "column",
			ErrFormat},
		"empty columns": {"a.ods", zipped(t, "content.xml", wideSheet), "", nil},
		"a string that is none": {"a.xlsx",
			sheet(t, `<row><c t="s"><v>99</v></c><c t="s"><v>-1</v></c><c t="str"><v>words</v></c></row>`), "", nil},
		"a chapter elsewhere": {"a.epub", zipped(t, "META-INF/container.xml", container, "OPS/c.opf", opf),
			"etc/a.xhtml", ErrFormat},
		"parts in parts":      {"a.eml", nested(60), "parts", ErrFormat},
		"no message":          {"a.eml", "words\nwords", "no message", ErrFormat},
		"no mailbox":          {"a.mbox", "words\nwords", "begins with a line", ErrFormat},
		"a quote without end": {"a.csv", "a,b\n1,\"words\nand words", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, t.TempDir(), c.file, c.content)
			began := time.Now()
			var skips []Skipped
			read := 0
			for _, err := range Load(context.Background(), []string{path},
				LoadOptions{MaxFileBytes: 4 << 20, OnSkip: func(s Skipped) { skips = append(skips, s) }}) {
				if err == nil {
					read++
				}
			}
			if c.says == "" {
				if read != 1 || len(skips) > 0 {
					t.Errorf("%d documents, skipped %v", read, skips)
				}
			} else if read > 0 || len(skips) != 1 || !strings.Contains(skips[0].Err.Error(), c.says) ||
				!errors.Is(skips[0].Err, c.is) {
				t.Errorf("%d documents, skipped %v, want %q", read, skips, c.says)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// sheet returns a workbook with one sheet.
func sheet(t testing.TB, rows string) string {
	return zipped(t, "xl/workbook.xml", workbook, "xl/_rels/workbook.xml.rels", workRels, "xl/worksheets/s.xml",
		fmt.Sprintf(sheetText, rows))
}

// nested returns a message of parts in each other.
func nested(depth int) string {
	var b strings.Builder
	b.WriteString("Subject: words\n")
	for i := range depth {
		fmt.Fprintf(&b, "Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n", i, i)
	}
	b.WriteString("Content-Type: text/plain\n\nwords\n")
	return b.String()
}

// TestTables: delimiters and header rows.
func TestTables(t *testing.T) {
	for content, want := range map[string]string{
		"a,b\n1,2\n":                  "a: 1 | b: 2",
		"a;b\n1,5;2\n":                "a: 1,5 | b: 2",
		"a|b\n1|2\n":                  "a: 1 | b: 2",
		"1,2\n3,x\n":                  "1 | 2\n3 | x",
		"word\nother\n":               "word\nother",
		"price\n3\n":                  "price: 3",
		"only,one,row":                "only | one | row",
		"a,a\nx,y\n":                  "a | a\nx | y",
		"a,b\r\n\r\n\"x\"\"y\",z\r\n": `a: x"y | b: z`,
	} {
		docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.csv", content))
		if len(docs) != 1 || docs[0].Text != want {
			t.Errorf("%q becomes %q, want %q", content, docs[0].Text, want)
		}
	}
	docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), "a.tsv", "a,b\tc\nx,y\tz\n"))
	if docs[0].Text != "a,b: x,y | c: z" {
		t.Errorf("%q", docs[0].Text)
	}
}

// fuzzPart fuzzes a part of a packed format.
func fuzzPart(f *testing.F, ext string, pack func(testing.TB, string) string, seeds ...string) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, part string) {
		path := write(t, dir, "x"+ext, pack(t, part))
		defer soon(t)()
		for d, err := range Load(context.Background(), []string{path}, LoadOptions{MaxFileBytes: 1 << 20}) {
			if err != nil {
				return
			}
			checkDocument(t, d, len(d.Text))
			chunks, err := chunk.Split(d, ChunkOptions{Size: 24, Overlap: 3, Count: countTokens})
			if err != nil {
				t.Fatal(err)
			}
			checkRanges(t, chunks, len(d.Text))
		}
	})
}

func FuzzWord(f *testing.F) {
	fuzzPart(f, ".docx", func(t testing.TB, part string) string { return zipped(t, "word/document.xml", part) },
		fmt.Sprintf(wordText, "words"),
		`<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:t>a</w:t></w:p><w:tbl><w:tr><w:tc>`+
			`<w:p><w:t>b</w:t></w:p></w:tc><w:tc><w:p><w:t>c</w:t></w:p></w:tc></w:tr></w:tbl>`)
}

func FuzzSlides(f *testing.F) {
	fuzzPart(f, ".pptx", func(t testing.TB, part string) string { return withSlide(t, part) }, `<p:sp><p:ph type="title"/><a:p><a:t>a</a:t></a:p></p:sp><a:tr><a:tc><a:p><a:t>b</a:t></a:p></a:tc></a:tr>`)
}

func FuzzChart(f *testing.F) { fuzzPart(f, ".pptx", withChart, fmt.Sprintf(barChart, "Sales")) }

func FuzzSheets(f *testing.F) {
	fuzzPart(f, ".xlsx", sheet,
		`<row><c r="B1" t="str"><v>words</v></c><c><v>45383.5</v></c></row><row><c><v>1</v></c></row>`)
}

func FuzzOpenDocument(f *testing.F) {
	fuzzPart(f, ".odt", func(t testing.TB, part string) string { return zipped(t, "content.xml", part) },
		`<text:h text:outline-level="2">a</text:h><text:p>b<text:s/>c</text:p><table:table><table:table-row>`+
			`<table:table-cell><text:p>d</text:p></table:table-cell></table:table-row></table:table>`,
		`<office:spreadsheet><table:table `+
			`table:name="t"><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row>`)
}

func FuzzTable(f *testing.F) {
	fuzzKind(f, ".csv", "a,b\n1,2\n", "a;b\n\"x;\n\";2", "\"a\"\"b\",c\n\n1,2")
}
func FuzzMail(f *testing.F) {
	fuzzKind(f, ".eml", nested(3), "Subject: =?utf-8?q?a=C3=A9?=\n\nwords\n")
}

func FuzzMailbox(f *testing.F) {
	fuzzKind(f, ".mbox", "From a@b Thu Jan  1 00:00:00 1970\nSubject: c\n\nFrom the harbour\n\n"+
		"From d@e Fri Jan  2 00:00:00 1970\nContent-Type: text/plain; format=flowed; delsp=yes\n\nf \ng\n>From h\n")
}

func FuzzBook(f *testing.F) {
	fuzzPart(f, ".epub", func(t testing.TB, part string) string {
		return zipped(t, "META-INF/container.xml", container, "OPS/c.opf", part, "OPS/a.xhtml", "<p>words",
			"OPS/b.HTML", "<h1>more</h1>")
	}, `<package><metadata><dc:title>t</dc:title></metadata><manifest><item id="a" href="a.xhtml"/><item id="b" `+
		`href="B.html"/></manifest><spine><itemref idref="a"/><itemref idref="b" linear="no"/></spine></package>`)
}

// TestHostilePDF: a file that is not PDF, is truncated, encrypted, declares what it does not have or unpacks to
// gigabytes is skipped with a reason, and the file behind it is read.
func TestHostilePDF(t *testing.T) {
	good := string(must(os.ReadFile("testdata/tides.pdf")))
	page := func(stream string) string {
		return "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count " +
			"1>>endobj " +
			"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R>>endobj 4 0 obj<</Length " +
			fmt.Sprint(len(stream)) + "/Filter/FlateDecode>>stream\n" + stream +
			"\nendstream endobj trailer<</Root 1 0 R>>"
	}
	var bomb bytes.Buffer
	z, _ := zlib.NewWriterLevel(&bomb, zlib.BestSpeed)
	for range 1 << 10 {
		_, _ = z.Write(bytes.Repeat([]byte("q "), 1<<19)) // a buffer takes it
	}
	_ = z.Close()
	for name, c := range map[string]struct{ content, says string }{
		"text":      {"just words", "no readable PDF"},
		"empty":     {"", "no readable PDF"},
		"encrypted": {string(must(os.ReadFile("testdata/locked.pdf"))), "encrypted"},
		"half":      {good[:len(good)/2], ""},
		"no table":  {strings.ReplaceAll(good, "startxref", "startxxxx"), "read"},
		"a bomb":    {page(bomb.String()), ""},
		"pages in a circle": {"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[2 0 R " +
			"2 0 R]/Count " +
			"2000000000>>endobj trailer<</Root 1 0 R>>", ""},
		"deep": {"%PDF-1.4\n1 0 obj" + strings.Repeat("[", 1e6), "no readable PDF"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "a.pdf", c.content)
			write(t, dir, "b.pdf", good)
			began := time.Now()
			docs, skips := load(t, LoadOptions{FileOptions: FileOptions{MaxSeconds: 30}}, dir)
			switch {
			case c.says == "read":
				if len(docs) != 2 {
					t.Errorf("%d documents, skipped %v", len(docs), skips)
				}
			case len(docs) != 1 || docs[0].ID != filepath.Base(dir)+"/b.pdf" && docs[0].ID != "b.pdf" ||
				len(skips) != 1 ||
				!strings.Contains(skips[0].Err.Error(), c.says):
				t.Errorf("%d documents, skipped %v, want %q", len(docs), skips, c.says)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// FuzzPDF reads with one reader, as a folder of files is read: to start one takes longer than most inputs.
func FuzzPDF(f *testing.F) {
	r, err := pdf.Open(f.Context(), compiled)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := r.Close(); err != nil {
			f.Error(err)
		}
	})
	fuzzFiles(f, ".pdf", func(path string) iter.Seq2[*Document, error] {
		return func(yield func(*Document, error) bool) {
			l := newLoader(context.Background(), LoadOptions{MaxFileBytes: 1 << 20}, yield)
			l.pdf = r
			if err := l.walk.path(path); err != nil && !errors.Is(err, errStop) {
				yield(nil, err)
			}
		}
	})
}

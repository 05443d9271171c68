package corpus

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPDFFigures prints what reading a PDF file takes of the processor, with and without the reader's compilation: the
// figures of docs/adr/0013-files.md. SLUICE_PDF names the file; testdata/pages.py makes one of 500 pages.
func TestPDFFigures(t *testing.T) {
	file := os.Getenv("SLUICE_PDF")
	if file == "" {
		t.Skip("SKIP: SLUICE_PDF names no file")
	}
	cache := filepath.Join(t.TempDir(), "pdf")
	for _, what := range []string{"compiled and read", "read", "read again"} {
		began, before := time.Now(), processor(t)
		bytes := 0
		for d, err := range Load(t.Context(), []string{file}, LoadOptions{CacheDir: cache}) {
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(d.Text)
		}
		t.Logf("%s: %d bytes of text, %v, %v of the processor", what, bytes, time.Since(began), processor(t)-before)
	}
}

// pdfDocument reads a PDF file.
func pdfDocument(t *testing.T, file string) *Document {
	t.Helper()
	docs, skipped := load(t, LoadOptions{CacheDir: compiled}, file)
	if len(docs) != 1 || len(skipped) > 0 {
		t.Fatalf("%s: %d documents, %v", file, len(docs), skipped)
	}
	return docs[0]
}

// TestPDFText: letters placed one by one, scripts, tables, hyphens, forms, as a reader sees them.
func TestPDFText(t *testing.T) {
	for file, want := range map[string]string{
		"wkhtmltopdf.pdf": "At December 31, 2021 the harbour held 1,311 berths, of which 1,117 were let; fees came to " +
			"$1,695 and 11.1 % was unpaid.\n\nYear | 2019 | 2020 | 2021\nFees | 1,351 | 1,171 | 1,695\n" +
			"Repairs | (211) | (1,113) | (411)",
		"supersub_rl.pdf": "Water is H2O and the area is 12 km2; carbon dioxide is CO2.7 Next sentence about 10-3 m.",
		"sub_big.pdf":     "The gas CO2 rises from the sea in the second line of it.",
		"tablepdf.pdf":    "Port | 2019 | 2020\nArles | 10 | 11\nNice |  | 21\nLyon | 30 | 31",
		"hyphen.pdf": "The harbour regulation of 1911 is a well-known text about twenty-five ships and the co-operation " +
			"of towns.",
		"form.pdf": "Name of ship: Alma Filled",
	} {
		if d := pdfDocument(t, "testdata/pdf/"+file); d.Text != want {
			t.Errorf("%s: %q, not %q", file, d.Text, want)
		}
	}
}

// pdfOf makes a PDF file of pages' content streams; more are objects that begin with number 100.
func pdfOf(pages []string, more ...string) string {
	var b, kids strings.Builder
	b.WriteString("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R/AcroForm 100 0 R>>endobj\n" +
		"3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>endobj\n" +
		"4 0 obj<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>endobj\n")
	for i, page := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 1000+2*i)
		fmt.Fprintf(&b, "%d 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Annots[101 0 R 102 0 R 103 0 R]"+
			"/Resources<</Font<</F 3 0 R/G 4 0 R>>>>/Contents %d 0 R>>endobj\n%d 0 obj<</Length %d>>stream\n%s\nendstream "+
			"endobj\n", 1000+2*i, 1001+2*i, 1001+2*i, len(page), page)
	}
	fmt.Fprintf(&b, "2 0 obj<</Type/Pages/Kids[%s]/Count %d>>endobj\n", kids.String(), len(pages))
	for i, x := range more {
		fmt.Fprintf(&b, "%d 0 obj%s endobj\n", 100+i, x)
	}
	return b.String() + "trailer<</Root 1 0 R>>"
}

// at draws a text.
func at(x, y, size float64, text string) string {
	return fmt.Sprintf("BT /F %g Tf %g %g Td (%s) Tj ET\n", size, x, y, text)
}

// typed draws a text in a monospaced font.
func typed(x, y, size float64, text string) string {
	text = strings.NewReplacer("(", `\(`, ")", `\)`).Replace(text)
	return strings.Replace(at(x, y, size, text), "/F ", "/G ", 1)
}

// TestPDFCode: monospaced lines keep their spaces and are no part of a paragraph, unless the whole document is
// monospaced; numbers, whose digits have one width in every font, are no code.
func TestPDFCode(t *testing.T) {
	lines := []string{"for (each file) {", "  tie its rope   now", "", "}", "make all the knots"}
	code, prose := at(50, 720, 10, "Then run it:"), ""
	for i, line := range lines {
		y := 706 - 12*float64(i)
		trimmed := strings.TrimLeft(line, " ")
		code += typed(50+6*float64(len(line)-len(trimmed)), y, 10, trimmed)
		prose += typed(50, y, 10, fmt.Sprintf("ships come into the port of town %d and", i))
	}
	code += at(50, 646, 10, "It ends with the tide, in the port of") + at(50, 634, 10, "Arles, in 1911 and in 1912.")
	table := at(50, 600, 10, "1911") + at(150, 600, 10, "1912") + at(50, 588, 10, "3711") + at(150, 588, 10, "2111")
	long := strings.Repeat(at(50, 500, 10, "Ships came in and left the port before the tide turned, day by day."), 9)
	want := "Then run it:\n\nfor (each file) {\n  tie its rope   now\n\n}\nmake all the knots\n\n" +
		"It ends with the tide, in the port of Arles, in 1911 and in 1912.\n\n1911 | 1912\n3711 | 2111\n\n"
	d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf([]string{code + table, long})))
	if text, _, _ := strings.Cut(d.Text, "Ships"); text != want {
		t.Errorf("%q, not %q", text, want)
	}
	d = pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf([]string{prose})))
	if want := "ships come into the port of town 0 and ships come"; !strings.HasPrefix(d.Text, want) {
		t.Errorf("%q does not begin with %q", d.Text, want)
	}
}

// TestPDFLists: items and definitions are lists, and frames of letters are no headings.
func TestPDFLists(t *testing.T) {
	page := at(50, 760, 30, "* *") + at(50, 720, 10, "Take these steps:") +
		at(55, 708, 10, "1.") + at(75, 708, 10, "Take a rope that is long enough for") +
		at(75, 696, 10, "the ship.") +
		at(55, 684, 10, "2.") + at(75, 684, 10, "Tie it.") +
		at(50, 650, 10, "on") + at(120, 650, 10, "Lights a lamp on the mast of each") +
		at(120, 638, 10, "ship in the port.") +
		at(50, 626, 10, "off") + at(120, 626, 10, "Puts it out.") +
		at(50, 590, 10, "Depth") + at(75, 578, 10, "This says how far below the water the ground of") +
		at(75, 566, 10, "the port lies.") + typed(50, 554, 10, "--berths") + at(75, 542, 10, "Counts the berths.") +
		at(50, 510, 10, "A paragraph whose first line") + at(65, 498, 10, "is not the only one, and whose second") +
		at(50, 486, 10, "is further in.")
	d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf([]string{page})))
	want := "Take these steps:\n1. Take a rope that is long enough for the ship.\n2. Tie it.\n\n" +
		"on | Lights a lamp on the mast of each ship in the port.\noff | Puts it out.\n\n" +
		"Depth: This says how far below the water the ground of the port lies.\n\n--berths: Counts the berths.\n\n" +
		"A paragraph whose first line is not the only one, and whose second is further in."
	if d.Text != want || len(d.Sections) > 1 {
		t.Errorf("%q, not %q: %+v", d.Text, want, d.Sections)
	}
}

// TestPDFSentencesOverPages: a sentence that goes on on the next page stands where it begins; notes are not in
// between, and what a page begins with is otherwise left there.
func TestPDFSentencesOverPages(t *testing.T) {
	first := at(50, 700, 10, "Tides turn twice a day in the ports of this whole coast.") +
		at(50, 688, 10, "The ships that came in on the night before, and the boats") +
		at(50, 600, 7, "1 Boats are smaller.")
	const begins = "page=1 Tides turn twice a day in the ports of this whole coast. The ships that came in on the " +
		"night before, and the boats"
	for second, want := range map[string]string{
		at(50, 700, 10, "beside them, left again. Then the") + at(50, 688, 10, "port was empty."): begins +
			" beside them, left again.\n\n1 Boats are smaller.\npage=2 Then the port was empty.\n",
		at(50, 700, 10, "- the lamp is lit"): begins + "\n\n1 Boats are smaller.\npage=2 - the lamp is lit\n",
	} {
		d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf([]string{first, second})))
		var got strings.Builder
		for _, s := range d.Sections {
			fmt.Fprintln(&got, s.Anchor, strings.TrimSpace(d.Text[s.Start:s.End]))
		}
		if got.String() != want {
			t.Errorf("%q, not %q", got.String(), want)
		}
	}
}

// TestPDFShapes: the same kinds, drawn otherwise.
func TestPDFShapes(t *testing.T) {
	var letters strings.Builder // each letter alone, in a scaled matrix
	x := 50.0
	for _, r := range "In 1,119 of 2,111.1 cases," {
		width := map[rune]float64{' ': 278, ',': 278, '.': 278, 'I': 278, 's': 500, 'c': 500, 'f': 278}[r]
		width = cmp.Or(width, 556)
		if r != ' ' {
			fmt.Fprintf(&letters, "q .5 0 0 .5 0 0 cm BT /F 1 Tf 20 0 0 20 %g 1000 Tm (%c) Tj ET Q\n", 2*x, r)
		}
		x += width / 100
	}
	chapters, numbered := []string{}, []string{}
	for i := range 9 {
		body := ""
		for k := range 8 {
			body += at(50, 700-14*float64(k), 10, fmt.Sprintf(
				"Ship %c%c came in and left the port before the tide.", 'a'+i, 'a'+k))
		}
		chapters = append(chapters, at(50, 770, 10, fmt.Sprintf("Chapter %d: %s %d", 1+i/3,
			[]string{"Of tides", "Of ships", "Of winds"}[i/3], 80+i))+body)
		numbered = append(numbered, body+at(300, 30, 8, fmt.Sprint(i+1)))
	}
	contents := at(50, 700, 14, "Contents")
	for i := range 5 {
		contents += at(50, 680-14*float64(i), 10, fmt.Sprintf("%d The harbour . . . . . . . . . %d", i+1, 3*i+1))
	}
	index := at(50, 700, 14, "Index")
	for i := range 9 {
		index += at(50, 680-14*float64(i), 10, fmt.Sprintf("%cnchor, %d, 4-5", 'a'+i, i+1))
	}
	// Recognised text, whose letters are spread but for the last one: each is .556 em wide, a space .278.
	const spreadText = "go on and be an open peg up on pag"
	spaces := float64(strings.Count(spreadText, " "))
	advance := (float64(len(spreadText))-spaces)*(.556*12+3) + spaces*(.278*12+3)
	spread := "3 Tc " + at(50, 700, 12, spreadText) + "0 Tc "
	field := func(kind, value string, x float64) string {
		return fmt.Sprintf("<</Type/Annot/Subtype/Widget/FT%s/T(f%g)%s/Rect[%g 695 %g 715]>>", kind, x, value, x, x+80)
	}
	for _, c := range []struct {
		what, file, want string
	}{
		{"letters", pdfOf([]string{letters.String()}), "In 1,119 of 2,111.1 cases,"},
		{"scripts", pdfOf([]string{at(50, 700, 12, "E = mc") + at(87.8, 705, 7, "2") + at(95, 700, 12, "and x") +
			at(124.5, 697, 7, "i") + at(126.1, 700, 12, ".")}), "E = mc2 and xi."},
		{"table", pdfOf([]string{at(50, 700, 10, "Item") + at(150, 700, 10, "Debit") + at(250, 700, 10, "Credit") +
			at(50, 686, 10, "Rope") + at(250, 686, 10, "7") + at(50, 672, 10, "Tar") + at(150, 672, 10, "9") +
			at(50, 640, 10, "All in crowns.")}),
			"Item | Debit | Credit\nRope |  | 7\nTar | 9\n\nAll in crowns."},
		{"hyphens", pdfOf([]string{at(50, 700, 10, "The north-west wind and the over-") +
			at(50, 688, 10, "view of the north-") +
			at(50, 676, 10, "west, a branch of pre-") + at(50, 664, 10, "diction by branch-") +
			at(50, 652, 10, "prediction, an overview of prediction.")}),
			"The north-west wind and the overview of the north-west, a branch of prediction by branch-prediction, an " +
				"overview of prediction."},
		{"last letters", pdfOf([]string{spread + at(50+advance-3+2, 700, 12, "e") + at(50, 670, 12, "and") +
			at(75, 670, 12, "an")}), "go on and be an open peg up on page\n\nand an"},
		{"typed", pdfOf([]string{at(50, 700, 10, "Master:")}, "<</Fields[]>>",
			"<</Type/Annot/Subtype/FreeText/Contents(A. Brown)/DA(/F 9 Tf)/Rect[100 695 180 715]>>",
			"<</Type/Annot/Subtype/FreeText/F 2/Contents(hidden)/DA(/F 9 Tf)/Rect[200 695 280 715]>>",
			"<</Type/Annot/Subtype/Text/Contents(a comment)/Rect[300 695 320 715]>>"), "Master: A. Brown"},
		{"fields", pdfOf([]string{at(50, 700, 10, "Master:") + at(250, 700, 10, "Cargo:") +
			at(450, 700, 10, "insured")},
			"<</Fields[101 0 R 102 0 R 103 0 R]>>", field("/Tx", "/V(A. Brown)", 100),
			field("/Ch", "/Ff 131072/Opt[(tar)(rope)]/V(rope)", 300),
			field("/Btn", "/V/Yes/AS/Yes/AP<</N<</Yes 104 0 R>>>>", 420),
			"<</Length 0/Type/XObject/Subtype/Form/BBox[0 0 1 1]>>stream\n\nendstream"),
			"Master: A. Brown Cargo: rope [x] insured"},
	} {
		d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", c.file))
		if strings.TrimSpace(d.Text) != c.want {
			t.Errorf("%s: %q, not %q", c.what, d.Text, c.want)
		}
	}
	form := "" // whose lines have leaders, too
	for i := range 5 {
		form += at(50, 680-14*float64(i), 10, fmt.Sprintf("Add lines %d and %d . . . . . . . %d", i+1, i+4, i+11))
	}
	d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf([]string{form})))
	if n := strings.Count(d.Text, "Add lines"); n != 5 {
		t.Errorf("%d lines of a form: %q", n, d.Text)
	}
	rows := []string{} // names of columns above a table on each page are no running title
	for i := range 4 {
		rows = append(rows, at(50, 760, 10, "Port")+at(150, 760, 10, "Berths")+at(50, 742, 10, "Arles")+
			at(150, 742, 10, fmt.Sprint(31+i))+at(50, 724, 10, "Nice")+at(150, 724, 10, fmt.Sprint(71+i)))
	}
	d = pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf(rows)))
	if n := strings.Count(d.Text, "Port | Berths"); n != 4 || !strings.Contains(d.Text, "Nice | 74") {
		t.Errorf("%d tables have their names: %q", n, d.Text)
	}
	heads := []string{} // of chapters at the tops of pages are none either
	for i := range 9 {
		heads = append(heads, at(50, 760, 18, fmt.Sprintf("Chapter %d", i+1))+
			at(50, 730, 10, fmt.Sprintf("Text %c, which is a sentence of its own and long enough.", 'a'+i))+
			strings.Repeat(at(50, 700, 10, "It goes on, and on, as texts do."), i%3+1))
	}
	if d = pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf(append(heads, numbered...)))); len(d.Sections) == 0 ||
		!slices.ContainsFunc(d.Sections, func(s Section) bool {
			return slices.Equal(s.Heading, []string{"Chapter 7"})
		}) {
		t.Errorf("%+v", d.Sections)
	}
	for what, file := range map[string]string{"chapters": pdfOf(chapters), "numbered": pdfOf(numbered),
		"contents": pdfOf(append([]string{contents}, numbered...)),
		"index":    pdfOf(append(slices.Clone(numbered), index))} {
		d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", file))
		for _, not := range []string{"Chapter", "Of tides", "The harbour", "nchor", "7", "3"} {
			if strings.Contains(d.Text, not) {
				t.Errorf("%s: %q is in %q", what, not, d.Text)
			}
		}
		if n := strings.Count(d.Text, "left the port before the tide."); n != 72 {
			t.Errorf("%s: %d lines of 72: %q", what, n, d.Text)
		}
	}
}

// TestPDFCover: what stands on the cover, such as the author's name, is above no heading.
func TestPDFCover(t *testing.T) {
	body := func(y float64) (out string) {
		for k := range 6 {
			out += at(50, y-14*float64(k), 10, "Ships came in and left the port before the tide turned.")
		}
		return out
	}
	d := pdfDocument(t, write(t, t.TempDir(), "a.pdf", pdfOf([]string{
		at(50, 780, 28, "Tides of") + at(50, 748, 28, "the coast") +
			at(50, 715, 20, "Ada Brown") + at(50, 690, 20, "May 1911") +
			at(50, 650, 16, "Of neaps") + body(620), at(50, 700, 16, "Of springs") + body(680)})))
	var heads []string
	for _, s := range d.Sections {
		if s.Start < s.End && strings.Contains(d.Text[s.Start:s.End], "Ships") {
			heads = append(heads, strings.Join(s.Heading, " / "))
		}
	}
	if !slices.Equal(heads, []string{"Tides of the coast / Of neaps",
		"Tides of the coast / Of springs"}) ||
		!strings.Contains(d.Text, "Ada Brown") {
		t.Errorf("%q in %q", heads, d.Text)
	}
}

// TestPDFProducers: what eight programs make of one report of ours: no number and no word of it is missing.
func TestPDFProducers(t *testing.T) {
	files := must(filepath.Glob("testdata/pdf/report-*.pdf"))
	if len(files) < 7 {
		t.Fatalf("only %d files", len(files))
	}
	words := strings.Fields(string(must(os.ReadFile("testdata/pdf/report.txt"))))
	for _, file := range files {
		d := pdfDocument(t, file)
		text := d.Title + "\n" + d.Text
		for _, s := range d.Sections {
			text += "\n" + strings.Join(s.Heading, "\n")
		}
		have := map[string]bool{}
		for word := range strings.FieldsSeq(text) {
			have[word] = true
		}
		for _, word := range words {
			if !have[word] {
				t.Errorf("%s: %q is missing", file, word)
			}
		}
	}
}

// TestDamagedPDFCache: a compiled reader that is cut off or flipped is compiled anew.
func TestDamagedPDFCache(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: compiling the reader takes seconds")
	}
	folder := t.TempDir()
	must(0, os.CopyFS(folder, os.DirFS(compiled)))
	var files []string
	_ = filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if len(files) == 0 {
		t.Skip("SKIP: nothing was compiled yet")
	}
	whole := must(os.ReadFile(files[0]))
	for _, x := range []struct {
		what   string
		damage func([]byte) []byte
	}{
		{"cut off", func(b []byte) []byte { return b[:len(b)/2] }},
		{"code flipped", func(b []byte) []byte { b[len(b)/2] ^= 0x55; return b }},
	} {
		must(0, os.WriteFile(files[0], x.damage(slices.Clone(whole)), 0o600))
		docs, skipped := load(t, LoadOptions{CacheDir: folder}, "testdata/tides.pdf")
		if len(docs) != 1 || len(skipped) != 0 || !strings.Contains(docs[0].Text, "four times a day") {
			t.Errorf("%s: %d documents, %v", x.what, len(docs), skipped)
		}
	}
}

// processor is the time that this process has had of the processors.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

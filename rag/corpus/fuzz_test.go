package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/chunk"
)

// fuzzKind loads content as a file of the given extension and checks what documents promise, then
// splits it and checks the chunks.
func fuzzKind(f *testing.F, ext string, seeds ...string) {
	f.Helper()
	fuzzFiles(f, ext, func(path string) iter.Seq2[*Document, error] {
		return Load(context.Background(), []string{path}, LoadOptions{MaxFileBytes: 1 << 20})
	}, seeds...)
}

func fuzzFiles(f *testing.F, ext string, load func(path string) iter.Seq2[*Document, error], seeds ...string) {
	f.Helper()
	if golden, err := filepath.Glob("testdata/*" + ext); err == nil {
		for _, p := range golden {
			seeds = append(seeds, string(must(os.ReadFile(p))))
		}
	}
	for _, s := range append(seeds, "", "\ufeff", "\xff\xfea\x00", "a\x00b", "\xff", "e\u0301") {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := write(t, dir, "x"+ext, string(content))
		defer soon(t)()
		for d, err := range load(path) {
			if err != nil {
				return // nothing to read
			}
			size := len(content)
			if Converted(path) {
				size = len(d.Text)
			}
			checkDocument(t, d, size)
			o := ChunkOptions{Size: 24, Overlap: 3, Count: countTokens}
			var dropped []Skipped
			o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
			chunks, err := chunk.Split(d, o)
			if err != nil {
				t.Fatal(err)
			}
			checkRanges(t, chunks, size)
			checkChunks(t, d, o, chunks, dropped)
			o.Semantic, dropped = &Semantic{Percentile: 20, Similar: byTopic(nil)}, nil
			if chunks, err = chunk.Split(d, o); err != nil {
				t.Fatal(err)
			}
			checkRanges(t, chunks, size)
			checkChunks(t, d, o, chunks, dropped)
			if chunks, err = chunk.Split(d, ChunkOptions{NoChunk: true}); err != nil || len(chunks) != 1 ||
				chunks[0].ID != d.ID {
				t.Fatalf("NoChunk: %v, %v", chunks, err)
			}
		}
	})
}

// soon begins a measurement that fails if an input takes longer than 5 s. With the variable SLUICE_FUZZ_WORST the
// durations above 10 ms are appended to that file.
func soon(t testing.TB) func() {
	began := time.Now()
	return func() {
		took := time.Since(began)
		if name := os.Getenv("SLUICE_FUZZ_WORST"); name != "" && took > 10*time.Millisecond {
			if f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
				_, _ = fmt.Fprintf(f, "%.3f\n", took.Seconds())
				_ = f.Close()
			}
		}
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	}
}

func checkRanges(t *testing.T, chunks []Chunk, size int) {
	for _, c := range chunks {
		if c.Start < 0 || c.End > size || c.Start >= c.End {
			t.Fatalf("chunk %s has bytes %d to %d of %d", c.ID, c.Start, c.End, size)
		}
	}
}

func checkDocument(t *testing.T, d *Document, size int) {
	if !utf8.ValidString(d.Text) || !norm.NFC.IsNormalString(d.Text) || strings.ContainsRune(d.Text, 0) {
		t.Fatalf("text %q", d.Text)
	}
	at := 0
	for _, s := range d.Sections {
		if s.Start < at || s.End < s.Start || s.End > len(d.Text) || s.Source < 0 || s.Source > size {
			t.Fatalf("section %+v behind %d of %d", s, at, len(d.Text))
		}
		at = s.End
	}
	at = 0
	for _, b := range d.Blocks {
		if b.Start < at || b.End < b.Start || b.End > len(d.Text) {
			t.Fatalf("block %+v behind %d of %d", b, at, len(d.Text))
		}
		if strings.TrimSpace(d.Text[at:b.Start]) != "" {
			t.Fatalf("text outside of blocks: %q", d.Text[at:b.Start])
		}
		at = b.End
	}
	for _, s := range d.Tables {
		if s.Start < 0 || s.End <= s.Start || s.End > len(d.Text) || s.Head.End > s.End || s.Caption.End > s.End ||
			s.Head.Start > s.Head.End || s.Caption.Start > s.Caption.End {
			t.Fatalf("table %+v of %d", s, len(d.Text))
		}
	}
	last := 0
	for i := range len(d.Text) {
		if from, to := d.Offsets.Start(i), d.Offsets.End(i+1); from < last || to < from || to > size {
			t.Fatalf("text byte %d is source %d to %d, behind %d", i, from, to, last)
		} else {
			last = from
		}
	}
}

func FuzzText(f *testing.F) { fuzzKind(f, ".txt", "One. Two.\n\n* item\n1. x") }

func FuzzMarkdown(f *testing.F) {
	fuzzKind(f, ".md", "# a\n\nb\n\n> - x\n>   y\n\n\tcode\n\n|a|b|\n|-|-|\n|c|", "---\na: b\n---\n# x\ny",
		"a\n===\n[x]: y\n*a **b***  \n![i](j)", "# \n## b\n<nav>x", "- [ ] a\n<b>x</b>&amp;&#0;\\*")
}

func FuzzHTML(f *testing.F) {
	fuzzKind(f, ".html", "<h1>a<h2 id=b>c<p>d<table><tr><td>e<p>f<p>g<td>h", "<nav>never closed <b>x",
		"<pre>\n a\n<b> b</b></pre>&amp &#0; &bogus;", "<title>t</title><svg/><script>x</script>y<br>z",
		"<meta charset=latin1>\xe4 and more text here")
}

func FuzzXHTML(f *testing.F) {
	fuzzKind(f, ".xhtml", "<?xml version='1.0'?><!DOCTYPE html [<!ENTITY a 'b'>]><html><head><title/><script/></head>"+
		"<body><x:h1>c</x:h1><p hidden=''>d</p><![CDATA[e<]]>&a;&nbsp;</body></html>",
		"<p>f<ruby>g<rt>h</ruby><math><mi>i</mi><annotation encoding='tex'>j</annotation></math>", "<ol start='3'><li>k")
}

func FuzzNotebook(f *testing.F) {
	fuzzKind(f, ".ipynb", `{"cells":[{"cell_type":"markdown","source":["# A\n","b"]},{"cell_type":"code",`+
		`"source":"c(1)\n"}],"nbformat":4}`,
		`{"worksheets":[{"cells":[{"cell_type":"heading","level":2,"source":"d"}]}]}`)
}

func FuzzJSONL(f *testing.F) {
	fuzzKind(f, ".jsonl", `{"id":"a","text":"b\u00e9\ud83d\ude00\u0000"}`+"\n"+`{"text":"x","title":"t"}`,
		"\ufeff{\"text\":\"a\"}\r\n{}\n[1]\n")
}

// divide gives a document two sections, the first of so many bytes, or of a few less where a rune would be cut.
func divide(d *Document, at int) {
	at = min(at, len(d.Text))
	for at > 0 && at < len(d.Text) && !utf8.RuneStart(d.Text[at]) {
		at--
	}
	d.Sections = []Section{{Heading: []string{"A"}, End: at},
		{Heading: []string{"A", "B"}, Start: at, End: len(d.Text)}}
}

// FuzzSplit splits texts with arbitrary sections, sizes and a counter whose counts do not add up.
func FuzzSplit(f *testing.F) {
	f.Add("One. Two three. Four five six seven.", uint8(20), uint8(3), uint8(5), false)
	f.Add(strings.Repeat("word ", 50)+strings.Repeat("x", 300), uint8(16), uint8(8), uint8(100), true)
	f.Fuzz(func(t *testing.T, text string, size, overlap, section uint8, greedy bool) {
		in := charset.DecodeUTF8(text, nil)
		d := &Document{ID: "d", Text: in.Text}
		d.Normalise(nil)
		d.Offsets = nil
		divide(d, int(section))
		o := ChunkOptions{Size: 16 + int(size), Count: countTokens}
		o.Overlap = min(int(overlap), o.Size/2)
		if greedy {
			o.Count = greedyCount
		}
		var dropped []Skipped
		o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
		chunks, err := chunk.Split(d, o)
		if err != nil {
			t.Fatal(err)
		}
		checkRanges(t, chunks, len(d.Text))
		checkChunks(t, d, o, chunks, dropped)
	})
}

// TestHostile: large and deeply nested inputs are read whole, with little stack and in linear time. There is no timed
// assertion: quadratic time would not end.
func TestHostile(t *testing.T) {
	const n = 1 << 18
	for name, content := range map[string]string{
		"line.txt":      strings.Repeat("word and more ", 40*n/14),
		"solid.txt":     strings.Repeat("x", 40*n),
		"terms.txt":     strings.Repeat(". ", n) + "a",
		"dots.txt":      "a." + strings.Repeat(" 1,", n) + "end",
		"deep.html":     strings.Repeat("<div>", n) + "text" + strings.Repeat("</div>", n),
		"lists.html":    strings.Repeat("<ul><li>", n) + "text",
		"tags.html":     strings.Repeat("<", n) + " text",
		"comments.html": strings.Repeat("<!--", n) + "-->text",
		"amp.html":      "text" + strings.Repeat("&amp", n),
		"cells.html":    "<table><tr>" + strings.Repeat("<td>", n) + "text",
		"headings.html": strings.Repeat("<h1>a<h2>b", n/20),
		"quotes.md":     strings.Repeat(">", n) + "text",
		"lists.md":      strings.Repeat("- ", n) + "text",
		"brackets.md":   strings.Repeat("[", n/4) + "text",
		"links.md":      strings.Repeat("[a](", n/16) + "text",
		"stars.md":      strings.Repeat("*a _b ", n/16) + "text",
		"ticks.md":      strings.Repeat("`a``b```", n/16) + "text",
		"angles.md":     strings.Repeat("<a ", n/16) + "text",
		"entities.md":   strings.Repeat("&a", n/4) + "text",
		"padded.md": "|a" + strings.Repeat("|a", n/8) + "\n|-" + strings.Repeat("|-", n/8) + "\n" +
			strings.Repeat("|text\n", n/8),
		"table.md": strings.Repeat("|a", n/64) + "\n" + strings.Repeat("|-", n/64) + "\n" +
			strings.Repeat("|text\n", 100),
		"ladder.md":   ladder(600),
		"open.js":     "text" + strings.Repeat("{", n),
		"calls.js":    "text" + strings.Repeat("f({", n),
		"line.js":     strings.Repeat("function f(){}", n/4),
		"slashes.js":  "text=" + strings.Repeat("(/", n),
		"ticks.js":    strings.Repeat("text`${", n/4),
		"hashes.c":    strings.Repeat("text#", n),
		"ifs.c":       strings.Repeat("#if a\n{\n", n/4) + "text",
		"names.cpp":   strings.Repeat("a::b<", n) + "text() {}",
		"marks.rs":    strings.Repeat("r#'", n) + "text",
		"defs.py":     strings.Repeat("class a:\n", n/4) + "text",
		"deep.py":     "text" + strings.Repeat("(", n),
		"deep.go":     "package text\nvar x = " + strings.Repeat("(", n),
		"chans.go":    "package text\ntype x " + strings.Repeat("chan ", n),
		"docs.php":    "text<?php " + strings.Repeat("<<<a\n", n/4),
		"modules.rb":  strings.Repeat("module a\n", n/4) + "text",
		"array.jsonl": `{"x":` + strings.Repeat("[", n) + "}\n" + `{"text":"text"}`,
		"marks.txt":   "text e" + strings.Repeat("\u0301", n),
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			docs, _ := load(t, LoadOptions{}, write(t, t.TempDir(), name, content))
			if len(docs) != 1 {
				t.Fatalf("%d documents", len(docs))
			}
			if !strings.Contains(content, "text") || strings.Contains(docs[0].Text, "text") {
				chunks, err := chunk.Split(docs[0], ChunkOptions{Size: 256, Overlap: 2, Count: countTokens})
				if err != nil || len(chunks) == 0 {
					t.Fatalf("%d chunks, %v", len(chunks), err)
				}
				t.Logf("%d bytes, %d chunks, %v", len(content), len(chunks), time.Since(began).Round(time.Millisecond))
				return
			}
			t.Error("the text is lost")
		})
	}
}

// ladder nests a list one level deeper per line.
func ladder(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat("  ", i) + "- text\n")
	}
	return b.String()
}

// FuzzJSONFields: fields equal those that encoding/json finds, at the given offsets.
func FuzzJSONFields(f *testing.F) {
	for _, s := range []string{`{"id":"a","text":"b"}`, ` {"a" : [1,{"b":"}"}] , "c":-1.5e3,"d":null}`, `{}`,
		`{"a":"\"\\"}`, `{"a":1`,
		`["a"]`, `{"\u0061":"\ud83d\ude00"}`, `{"a":true}x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want map[string]json.RawMessage
		wantErr := json.Unmarshal(raw, &want)
		got := map[string]json.RawMessage{}
		err := jsonFields(raw, func(key string, value []byte, at int) error {
			if string(raw[at:at+len(value)]) != string(value) {
				t.Fatalf("%q: the value of %q is not at %d", raw, key, at)
			}
			got[key] = value
			return nil
		})
		if isNull := wantErr == nil && want == nil; (err == nil) != (wantErr == nil && !isNull) {
			t.Fatalf("%q: %v, encoding/json says %v", raw, err, wantErr)
		}
		if err != nil || !utf8.Valid(raw) || strings.Contains(string(raw), `\u`) { // keys are repaired in another way
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d fields, want %d", raw, len(got), len(want))
		}
		for key, value := range want {
			if string(got[key]) != string(value) {
				t.Fatalf("%q: %q is %q, want %q", raw, key, got[key], value)
			}
		}
	})
}

// FuzzCode reads a text as each programming language.
func FuzzCode(f *testing.F) {
	fuzzEndings(f, codeEndings(), program, "class A:\n  def b(self):\n    '''x\n'''\n",
		"a(`${b}`, /x[/]/, {c: 'd'}) => {\n}",
		"#if 1\nint f() {\n#else\nint g() {\n#endif\n}\nR\"x(})x\"", "<?php\nfunction f() { <<<X\n}\nX\n} ?>'",
		"def a\n  x\nend\nfunction b() { }\n",
		"impl<'a> S<'a> { fn f() { r#\"}\"# } }", "@\"a\"\"}\" class X { int y() { } }")
}

// FuzzLight reads a text as each light markup.
func FuzzLight(f *testing.F) {
	fuzzEndings(f, []string{".rst", ".adoc", ".org", ".tex", ".man"},
		"=\nA\n=\n\nb\n--\n.. code:: c\n   :x:\n\n   d\n\nSee::\n\n  e `f <g>`_ **h** ``i``\n\n* j\n",
		"= A\n:b: c\n== D\n[e]\n----\nf\n----\n* g\n|===\n|h |i\n|===\nhttp://j[k] `l` *m*\n",
		"#+TITLE: A\n* B\n:C:\n:END:\n#+begin_src d\ne\n#+end_src\n- [[f][g]] =h= ~i~\n|j|k|\n|-+-|\n",
		"\\title{A}\n\\begin{document}\n\\section{B}\n\\emph{c}~--- 5\\% % d\n\\item[e] f\n"+
			"\\begin{verbatim}\ng\n\\end{verbatim}\n",
		".TH A 1\n.SH B\n.TP\n.BR \\-c , \\fBd\\fR\n.nf\ne \\(em \\[rs]\n.fi\n.Dd f\n.Bd\ng\n.Ed\n")
}

// FuzzData reads a text as each format of data.
func FuzzData(f *testing.F) {
	fuzzEndings(f, []string{".json", ".yaml", ".toml"}, "{\n  \"a\": [1, \"b\"]\n}\n", "a: b\nc:\n  - d\n\n  - e\n",
		"[a]\nb = \"c\"\n\n[[d]]\ne = 1\n")
}

// fuzzEndings reads a text as a file of each extension.
func fuzzEndings(f *testing.F, endings []string, seeds ...string) {
	f.Helper()
	for _, seed := range seeds {
		for ending := range endings {
			f.Add([]byte(seed), uint8(ending))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte, ending uint8) {
		path := write(t, dir, "x"+endings[int(ending)%len(endings)], string(content))
		defer soon(t)()
		for d, err := range Load(context.Background(), []string{path}, LoadOptions{MaxFileBytes: 1 << 20}) {
			if err != nil {
				return // nothing to read
			}
			checkDocument(t, d, len(content))
			o := ChunkOptions{Size: 24, Overlap: 3, Count: countTokens}
			var dropped []Skipped
			o.OnSkip = func(s Skipped) { dropped = append(dropped, s) }
			chunks, err := chunk.Split(d, o)
			if err != nil {
				t.Fatal(err)
			}
			checkRanges(t, chunks, len(content))
			checkChunks(t, d, o, chunks, dropped)
		}
	})
}

// codeEndings returns an extension of each language.
func codeEndings() []string {
	return []string{".go", ".py", ".ts", ".cpp", ".java", ".rs", ".cs", ".php", ".rb", ".sh", ".kt", ".lua", ".pl"}
}

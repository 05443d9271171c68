package markdown

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/sluice-rag/sluice/internal/test/doubling"
	"github.com/sluice-rag/sluice/rag/corpus/build"
	"github.com/sluice-rag/sluice/rag/corpus/charset"
	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// fragments are the fragments from which inputs are drawn.
var fragments = []string{"*", "_", "**", "~~", "`", "``", "[", "]", "(", ")", "![", "](", "]: ", "][", "[a]: b", "<",
	">", "<!--",
	"-->", "<a ", "<?", "<b>", "</b>", "<div>", "\n", "\n\n", "\n\n\n", " ", "  ", "    ", "\t", "a", "b ",
	"&amp;",
	"&", "\\", "|", "|-", "-|-\n", "- ", "* ", "1. ", "> ", "# ", "a\n===\n", "---\n", "```\n", "~~~", "\"", "'",
	"http://a", "@", ".", "{#a}", "{", "}", "=", "ä", "e\u0301", "!", "x\n", "  \n", "\\\n", "- a\n", "> a\n",
	"  - a\n", "[^", "[ ] ", "www.", "\\|", "{a=", "|a|\n|-|\n", ": ", ":::", "!!! a\n", "    a", "{{< ", "]{.a}",
	"[[", "]]", "+-+-+\n", "--- ---\n", "```{note}\n", "[^a]: "}

// TestMarkdownStepsAreLinear: inputs that take goldmark's own parsers quadratic time.
func TestMarkdownStepsAreLinear(t *testing.T) {
	for _, in := range []doubling.Input{
		doubling.Repeat("*a_ "), doubling.Repeat("*a **b "), {Unit: "*a", Second: "b_ "}, doubling.Repeat("**a*_ "),
		doubling.Repeat("~~~~~~"), doubling.Repeat("[a]\n"), doubling.Repeat("[a]: b\n"), {Unit: "`a``b```c````d"},
		{Unit: "[a ", Second: "]"}, {Unit: "![", Second: "](a)"}, {Head: "# ", Unit: "{a="}, {Head: "# ",
			Unit: "{a=["},
		{Unit: "- ", Second: "\n\n"}, {Head: strings.Repeat("- ", 400) + "a\n\n", Unit: "\n"},
		{Head: strings.Repeat("> ", 400), Unit: "a\n"}, doubling.Repeat("[^a]: "), doubling.Repeat("[^a]: > "),
		doubling.Repeat("[a]{.b} "), doubling.Repeat("[["), doubling.Repeat("--- ---\na\n"),
		doubling.Repeat("a\n: b\n"),
	} {
		doubling.Linear(t, in, func(text string) int {
			s := newSteps(text, nil)
			s.parse([]byte(text))
			return s.looks + s.scans
		})
	}
}

// TestMarkdownReadsAsGoldmark: with the bounds, the text is what goldmark's own parsers read.
func TestMarkdownReadsAsGoldmark(t *testing.T) {
	draw := rand.New(rand.NewPCG(41, 4))
	for range 20_000 {
		var b strings.Builder
		for range 1 + draw.IntN(24) {
			b.WriteString(fragments[draw.IntN(len(fragments))])
		}
		src := b.String()
		s := newSteps(src, nil)
		own := goldmark.New(goldmark.WithExtensions(extension.Table, extension.TaskList, extension.Strikethrough),
			goldmark.WithParserOptions(parser.WithAutoHeadingID(), parser.WithAttribute(),
				parser.WithBlockParsers(dialectBlocks(s)...), parser.WithInlineParsers(dialectInlines(s)...)))
		want, got := readMarkdown(src, own.Parser().Parse(text.NewReader([]byte(src)))), ""
		if root, ok := newSteps(src, nil).parse([]byte(src)); ok {
			got = readMarkdown(src, root)
		}
		if got != want {
			t.Fatalf("%q is read as %q, by goldmark's parsers as %q", src, got, want)
		}
	}
}

// readMarkdown returns the text of a tree.
func readMarkdown(src string, root ast.Node) string {
	var d doc.Document
	r := markdownReader{b: &build.Builder{}, src: []byte(src), text: src, item: map[*ast.List]int{}}
	walk(root, r.visit)
	r.b.Finish(&d, nil)
	return fmt.Sprintf("%q %+v", d.Text, d.Sections)
}

// TestMarkdownOfManyDefinitions: definitions of links are read in parts, and those behind the first part too.
func TestMarkdownOfManyDefinitions(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxDefinitions {
		fmt.Fprintf(&b, "[a%d]:\n<b c>\n'title of\ntwo lines'\n", i)
	}
	b.WriteString("Words [a0] and [a700], [a767] and [b].\n")
	d := &doc.Document{}
	if !Parse(d, charset.DecodeUTF8(b.String(), nil), nil) || d.Text != "Words a0 and a700, a767 and [b]." {
		t.Errorf("%.200q", d.Text)
	}
}

// TestFrontMatterOfManyKeys: keys that are the same are one mistake, and different ones are not compared pair by pair.
func TestFrontMatterOfManyKeys(t *testing.T) {
	for _, in := range []doubling.Input{{Head: "---\n", Unit: "a:\n", Tail: "---\nwords"},
		{Head: "---\nb: &c d\n", Unit: "? a\n: *c\n", Tail: "---\nwords"}} {
		doubling.Linear(t, in, func(text string) int {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if meta, n := frontMatter(text); len(meta) != 0 || n != 0 {
				t.Errorf("%d values, %d bytes", len(meta), n)
			}
			runtime.ReadMemStats(&after)
			return int(after.TotalAlloc - before.TotalAlloc)
		})
	}
	meta, n := frontMatter("---\na: b\nc: 1\nd: &e f\ng: *e\nh: [i]\nj: |\n  k\nl: '1'\n3: m\n---\nwords")
	want := doc.Meta{"a": "b", "c": json.Number("1"), "d": "f", "g": "f", "h": []any{"i"}, "j": "k\n", "l": "1",
		"3": "m"}
	if !cmp.Equal(meta, want) || n == 0 {
		t.Errorf("%q, %d bytes", meta, n)
	}
}

// TestAliasesOfFrontMatter: lines of aliases stand for any number of values.
func TestAliasesOfFrontMatter(t *testing.T) {
	bomb := "---\na: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, name := range []string{"b", "c", "d", "e", "f", "g"} {
		before := string(rune(name[0] - 1))
		bomb += name + ": &" + name + " [" + strings.Repeat("*"+before+", ", 9) + "*" + before + "]\n"
	}
	meta, _ := frontMatter(bomb + "---\n")
	for key := range meta {
		if n := len(meta.Texts(key)); n > 100 {
			t.Errorf("%s has %d values", key, n)
		}
	}
}
